// The bytes and judgements of the handshake, and the address inside it.
#include "rpc/transport/tcp/hello.h"

#include <sys/socket.h>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/base/rng.h"
#include "rpc/transport/tcp/address.h"
#include "rpc/transport/tcp/connection.h"
#include "rpc/transport/tcp/dialect.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

using ::testing::HasSubstr;

Hello sample_hello() {
  Hello hello;
  hello.versions = {.min = 1, .max = 3};
  hello.dial_number = 0x0807060504030201;
  hello.expected = make_uuid(0xEE);
  hello.sender = {.uuid = make_uuid(0x11), .incarnation = 0x22, .cluster_id = make_uuid(0x33)};
  hello.sender_address = SocketAddress::parse("10.0.0.9", 7000)->encode();
  return hello;
}

HelloReply sample_reply() {
  HelloReply reply;
  reply.code = HelloCode::kCluster;
  reply.versions = {.min = 2, .max = 4};
  reply.last_dial_number = 5;
  reply.replier = {.uuid = make_uuid(0x44), .incarnation = 6, .cluster_id = make_uuid(0x77)};
  reply.text = "no";
  return reply;
}

std::string hex(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

TEST(Address, EncodeDecode_RoundTrips) {
  for (const char* ip : {"127.0.0.1", "0.0.0.0", "::1", "2001:db8::5"}) {
    const SocketAddress address = *SocketAddress::parse(ip, 4242);
    EXPECT_EQ(*SocketAddress::decode(as_byte_span(address.encode())), address);
    sockaddr_storage storage;
    address.to_sockaddr(storage);
    EXPECT_EQ(SocketAddress::from_sockaddr(storage), address);
  }
  EXPECT_EQ(SocketAddress::parse("::1", 80)->to_string(), "[::1]:80");
  EXPECT_EQ(hex(SocketAddress::parse("1.2.3.4", 0x1234)->encode()), "04010203043412");
  EXPECT_TRUE(SocketAddress::decode({})->is_none());
  EXPECT_EQ(SocketAddress{}.encode(), "");
}

TEST(Address, Decode_RefusesWhatEncodeNeverMakes) {
  const std::string good = SocketAddress::parse("1.2.3.4", 99)->encode();
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(SocketAddress::decode(as_byte_span(good).first(size)).ok());
  }
  EXPECT_FALSE(SocketAddress::decode(as_byte_span(good + "x")).ok());
  EXPECT_FALSE(SocketAddress::decode(as_byte_span("\x05" + good.substr(1))).ok());
  EXPECT_FALSE(SocketAddress::parse("localhost", 1).ok());
  EXPECT_FALSE(SocketAddress::parse("1.2.3", 1).ok());
}

TEST(Dialect, Version1_GoldenBytes) {
  const Dialect* v1 = find_dialect(builtin_dialects(), 1);
  ASSERT_NE(v1, nullptr);
  ASSERT_EQ(v1->frame_bytes, 8);
  std::array<std::byte, 8> raw;
  v1->pack(raw.data(), {.payload_bytes = 0x01020304, .has = 7});
  EXPECT_EQ(hex(std::string(as_string_view(raw))), "0403020100000000");
  FramePrefix prefix;
  EXPECT_TRUE(v1->unpack(raw.data(), prefix));
  EXPECT_EQ(prefix, (FramePrefix{.payload_bytes = 0x01020304}));
  raw[4] = std::byte{1};
  EXPECT_FALSE(v1->unpack(raw.data(), prefix)) << "an unknown flag";
}

TEST(Dialect, Version2_GoldenBytes) {
  const Dialect* v2 = find_dialect(builtin_dialects(), 2);
  ASSERT_NE(v2, nullptr);
  ASSERT_EQ(v2->frame_bytes, 8);
  EXPECT_EQ(find_dialect(builtin_dialects(), 3), nullptr);
  const std::array<std::pair<FramePrefix, const char*>, 3> cases = {
      {{{.payload_bytes = 0x01020304, .has = 0x0a0b0c, .asks = true}, "04030201010c0b0a"},
       {{.payload_bytes = 0x01020304, .has = kNoticeMask}, "0403020100ffffff"},
       {{.has = 5, .is_alone = true}, "0000000002050000"}}};
  for (const auto& [said, bytes] : cases) {
    std::array<std::byte, 8> raw;
    v2->pack(raw.data(), said);
    EXPECT_EQ(hex(std::string(as_string_view(raw))), bytes);
    FramePrefix read;
    EXPECT_TRUE(v2->unpack(raw.data(), read));
    EXPECT_EQ(read, said);
  }
  std::array<std::byte, 8> raw{};
  FramePrefix prefix;
  raw[4] = std::byte{4};
  EXPECT_FALSE(v2->unpack(raw.data(), prefix)) << "an unknown flag";
  raw[4] = std::byte{3};
  EXPECT_FALSE(v2->unpack(raw.data(), prefix)) << "alone, and asks for itself";
  raw[4] = std::byte{2};
  raw[0] = std::byte{1};
  EXPECT_FALSE(v2->unpack(raw.data(), prefix)) << "alone, with a payload";
}

TEST(Hello, Encode_GoldenBytes) {
  EXPECT_EQ(hex(encode_hello(sample_hello())),
            "534b5541"  // magic
            "5500"      // 85 bytes
            "0100"      // kind, flags
            "01000300"  // versions
            "0102030405060708"
            "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
            "11111111111111111111111111111111"
            "2200000000000000"
            "33333333333333333333333333333333"
            "0700"
            "040a000009581b");
  EXPECT_EQ(*decode_hello(as_byte_span(encode_hello(sample_hello()))), sample_hello());
}

TEST(Hello, EncodeReply_GoldenBytes) {
  EXPECT_EQ(hex(encode_reply(sample_reply())),
            "534b5541"
            "4200"
            "0202"      // kind, code
            "02000400"  // versions
            "0000"      // none chosen
            "0500000000000000"
            "44444444444444444444444444444444"
            "0600000000000000"
            "77777777777777777777777777777777"
            "0200"
            "6e6f");
  EXPECT_EQ(*decode_reply(as_byte_span(encode_reply(sample_reply()))), sample_reply());
}

TEST(Hello, Decode_RefusesEveryTruncation) {
  for (const bool reply : {false, true}) {
    const std::string whole = reply ? encode_reply(sample_reply()) : encode_hello(sample_hello());
    for (size_t size = 0; size < whole.size(); ++size) {
      std::string cut = whole.substr(0, size);
      const auto decodes = [&] {
        return reply ? decode_reply(as_byte_span(cut)).ok() : decode_hello(as_byte_span(cut)).ok();
      };
      EXPECT_FALSE(decodes()) << size;
      if (size < kHelloPreambleBytes) continue;
      // Also when the length field agrees with the cut.
      store_le(reinterpret_cast<std::byte*>(cut.data()) + 4, static_cast<uint16_t>(size));
      EXPECT_FALSE(decodes()) << size;
    }
  }
}

TEST(Hello, Decode_SkipsFieldsOfLaterReleases) {
  std::string longer = encode_hello(sample_hello()) + "later";
  store_le(reinterpret_cast<std::byte*>(longer.data()) + 4, static_cast<uint16_t>(longer.size()));
  EXPECT_EQ(*decode_hello(as_byte_span(longer)), sample_hello());
}

TEST(Hello, EncodeReply_CutsLongText) {
  HelloReply reply = sample_reply();
  reply.text = std::string(5000, 'x');
  EXPECT_EQ(decode_reply(as_byte_span(encode_reply(reply)))->text.size(), kRefusalTextMax);
}

TEST(Hello, Size_RefusesForeignBytes) {
  EXPECT_FALSE(hello_size(as_byte_span("GET / HT"), HelloKind::kHello).ok());
  const std::string hello = encode_hello(sample_hello());
  const ByteSpan preamble = as_byte_span(hello).first(kHelloPreambleBytes);
  EXPECT_EQ(*hello_size(preamble, HelloKind::kHello), hello.size());
  EXPECT_FALSE(hello_size(preamble, HelloKind::kReply).ok());
  std::string huge = hello.substr(0, kHelloPreambleBytes);
  store_le(reinterpret_cast<std::byte*>(huge.data()) + 4, static_cast<uint16_t>(kHelloBytesMax + 1));
  EXPECT_FALSE(hello_size(as_byte_span(huge), HelloKind::kHello).ok());
}

TEST(Hello, Negotiate_HighestCommonVersion) {
  EXPECT_EQ(negotiate({1, 3}, {2, 5}), 3);
  EXPECT_EQ(negotiate({2, 5}, {1, 3}), 3);
  EXPECT_EQ(negotiate({1, 1}, {1, 9}), 1);
  EXPECT_EQ(negotiate({1, 2}, {3, 4}), 0);
  EXPECT_EQ(negotiate({3, 4}, {1, 2}), 0);
  // Exhaustive, against the definition.
  for (uint16_t a = 1; a < 5; ++a) {
    for (uint16_t b = a; b < 5; ++b) {
      for (uint16_t c = 1; c < 5; ++c) {
        for (uint16_t d = c; d < 5; ++d) {
          uint16_t best = 0;
          for (uint16_t v = 1; v < 5; ++v) {
            if (v >= a && v <= b && v >= c && v <= d) best = v;
          }
          EXPECT_EQ(negotiate({a, b}, {c, d}), best);
        }
      }
    }
  }
}

TEST(JudgeHello, EachRefusal_NamesBothSidesAndTheWayOut) {
  const EndpointIdentity self = {.uuid = make_uuid(0xEE), .incarnation = 1, .cluster_id = make_uuid(0x33)};
  const Hello good = sample_hello();
  HelloReply reply = judge_hello(good, self, {2, 9});
  EXPECT_EQ(reply.code, HelloCode::kAccepted);
  EXPECT_EQ(reply.chosen, 3);

  reply = judge_hello(good, self, {4, 5});
  EXPECT_EQ(reply.code, HelloCode::kVersion);
  EXPECT_EQ(reply.chosen, 0);
  EXPECT_THAT(reply.text, HasSubstr("versions 1 to 3"));
  EXPECT_THAT(reply.text, HasSubstr("versions 4 to 5"));

  Hello hello = good;
  hello.sender.cluster_id = make_uuid(0x34);
  reply = judge_hello(hello, self, {1, 1});
  EXPECT_EQ(reply.code, HelloCode::kCluster);
  EXPECT_THAT(reply.text, HasSubstr(make_uuid(0x34).to_string()));
  EXPECT_THAT(reply.text, HasSubstr(make_uuid(0x33).to_string()));
  EXPECT_THAT(reply.text, HasSubstr("control address"));

  hello = good;
  hello.expected = make_uuid(0xDD);
  reply = judge_hello(hello, self, {1, 1});
  EXPECT_EQ(reply.code, HelloCode::kWrongUuid);
  EXPECT_THAT(reply.text, HasSubstr(make_uuid(0xDD).to_string()));
  EXPECT_THAT(reply.text, HasSubstr("descriptor"));

  hello = good;
  hello.sender.uuid = self.uuid;
  EXPECT_EQ(judge_hello(hello, self, {1, 1}).code, HelloCode::kSameUuid);
  hello.sender.uuid = {};
  EXPECT_EQ(judge_hello(hello, self, {1, 1}).code, HelloCode::kWrongUuid);

  hello = good;
  hello.expected = {};
  hello.sender.cluster_id = {};
  EXPECT_EQ(judge_hello(hello, self, {1, 1}).code, HelloCode::kAccepted) << "tools of no cluster";
}

TEST(HelloReader, ByteByByte_LeavesWhatFollows) {
  std::array<int, 2> fds;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), 0);
  const UniqueFd in(fds[0]);
  const UniqueFd out(fds[1]);
  const std::string hello = encode_hello(sample_hello());
  HelloReader reader(HelloKind::kHello);
  for (size_t i = 0; i < hello.size(); ++i) {
    EXPECT_EQ(reader.read(in.get()), HelloReader::Result::kWaiting);
    ASSERT_EQ(send(out.get(), hello.data() + i, 1, 0), 1);
  }
  ASSERT_EQ(send(out.get(), "next", 4, 0), 4);
  EXPECT_EQ(reader.read(in.get()), HelloReader::Result::kComplete);
  EXPECT_EQ(as_string_view(reader.bytes()), hello);
  std::array<char, 8> rest;
  EXPECT_EQ(recv(in.get(), rest.data(), rest.size(), 0), 4);
}

TEST(HelloReader, EndAndGarbage_AreTold) {
  std::array<int, 2> fds;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), 0);
  const UniqueFd in(fds[0]);
  UniqueFd out(fds[1]);
  ASSERT_EQ(send(out.get(), "GET / HTTP/1.1\r\n", 16, 0), 16);
  HelloReader garbage(HelloKind::kHello);
  EXPECT_EQ(garbage.read(in.get()), HelloReader::Result::kMalformed);
  out.reset();
  std::array<char, 8> rest;
  EXPECT_EQ(recv(in.get(), rest.data(), rest.size(), 0), 8);
  HelloReader end(HelloKind::kHello);
  EXPECT_EQ(end.read(in.get()), HelloReader::Result::kEnd);
}

}  // namespace
}  // namespace skua::rpc::tcp
