#include "rpc/wire/remote_memory_wire.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/rpc/wire/wire_testing.h"

namespace skua::rpc {
namespace {

using Kind = RemoteMemoryRequest::Kind;
using testing::from_hex;
using testing::to_hex;

std::string encoded(const RemoteMemoryRequest& request) {
  std::array<std::byte, RemoteMemoryRequest::kEncodedMax> bytes;
  return std::string(as_string_view(ByteSpan(bytes).first(request.encode(bytes))));
}

RemoteMemoryRequest sample(Kind kind) {
  RemoteMemoryRequest request;
  request.kind = kind;
  request.key = 0x1122334455667788;
  request.offset = 0x10;
  request.bytes = 0x20;
  request.rights = 3;
  request.lease_ms = 1000;
  request.direct = true;
  request.has_notice = true;
  request.notice = 0xabcd;
  request.operand = 5;
  request.expected = 6;
  return request;
}

TEST(RemoteMemoryRequest, Golden) {
  EXPECT_EQ(to_hex(encoded(sample(Kind::kAllocate))),
            "01"
            "2000000000000000"
            "03"
            "e8030000"
            "01");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kFree))),
            "02"
            "8877665544332211");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kRenew))),
            "03"
            "8877665544332211"
            "e8030000");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kRead))),
            "04"
            "8877665544332211"
            "1000000000000000"
            "20000000");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kWrite))),
            "05"
            "8877665544332211"
            "1000000000000000"
            "01"
            "cdab0000");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kFetchAdd))),
            "06"
            "8877665544332211"
            "1000000000000000"
            "0500000000000000");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kCompareSwap))),
            "07"
            "8877665544332211"
            "1000000000000000"
            "0600000000000000"
            "0500000000000000");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kCheck))),
            "08"
            "8877665544332211"
            "1000000000000000"
            "20000000"
            "03");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kOpen))),
            "09"
            "03"
            "e8030000"
            "01");
  EXPECT_EQ(to_hex(encoded(sample(Kind::kRing))),
            "0a"
            "8877665544332211");
}

TEST(RemoteMemoryRequest, Decode_GivesBackWhatWasEncoded) {
  for (const int kind : {1, 2, 3, 4, 5, 6, 7, 8, 10}) {
    const std::string bytes = encoded(sample(static_cast<Kind>(kind)));
    RemoteMemoryRequest out;
    ASSERT_TRUE(RemoteMemoryRequest::decode(as_byte_span(bytes), out)) << kind;
    EXPECT_EQ(encoded(out), bytes) << kind;
  }
}

TEST(RemoteMemoryRequest, Decode_WriteTakesTheRest) {
  const std::string bytes = encoded(sample(Kind::kWrite)) + "content";
  RemoteMemoryRequest out;
  ASSERT_TRUE(RemoteMemoryRequest::decode(as_byte_span(bytes), out));
  EXPECT_EQ(as_string_view(out.content), "content");
  EXPECT_EQ(out.bytes, 7u);
}

TEST(RemoteMemoryRequest, Decode_NamesAreShortAndNotEmpty) {
  const std::string bytes = encoded(sample(Kind::kOpen));
  RemoteMemoryRequest out;
  EXPECT_FALSE(RemoteMemoryRequest::decode(as_byte_span(bytes), out));
  for (const size_t size : {size_t{1}, RemoteMemoryRequest::kNameMax}) {
    const std::string name(size, 'n');
    const std::string whole = bytes + name;
    ASSERT_TRUE(RemoteMemoryRequest::decode(as_byte_span(whole), out)) << size;
    EXPECT_EQ(as_string_view(out.content), name);
    EXPECT_EQ(encoded(out), bytes);
  }
  EXPECT_FALSE(
      RemoteMemoryRequest::decode(as_byte_span(bytes + std::string(RemoteMemoryRequest::kNameMax + 1, 'n')), out));
}

TEST(RemoteMemoryRequest, Decode_RefusesEveryOtherLength) {
  for (const int kind : {1, 2, 3, 4, 5, 6, 7, 8, 10}) {
    const std::string bytes = encoded(sample(static_cast<Kind>(kind)));
    RemoteMemoryRequest out;
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(RemoteMemoryRequest::decode(as_byte_span(bytes).first(size), out)) << kind << " of " << size;
    }
    const bool has_content = static_cast<Kind>(kind) == Kind::kWrite;
    EXPECT_EQ(RemoteMemoryRequest::decode(as_byte_span(bytes + "x"), out), has_content) << kind;
  }
}

TEST(RemoteMemoryRequest, Decode_RefusesUnknownKindsAndFlags) {
  RemoteMemoryRequest out;
  for (const char* bytes : {"00", "0b 8877665544332211", "09 03 e8030000 02 6e", "01 2000000000000000 03 e8030000 02",
                            "ff", "05 8877665544332211 1000000000000000 02 cdab0000"}) {
    EXPECT_FALSE(RemoteMemoryRequest::decode(as_byte_span(from_hex(bytes)), out)) << bytes;
  }
}

}  // namespace
}  // namespace skua::rpc
