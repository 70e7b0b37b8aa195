#include "rpc/transport/tcp/hello.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/transport/tcp/tcp_limits.h"

namespace skua::rpc::tcp {
namespace {

using Buffer = std::array<std::byte, kHelloBytesMax>;

void write_uuid(ByteWriter& writer, const Uuid& uuid) {
  writer.write_bytes(std::as_bytes(std::span(uuid.bytes)));
}

Uuid read_uuid(ByteReader& reader) {
  Uuid uuid;
  const ByteSpan bytes = reader.read_bytes(uuid.bytes.size());
  copy_bytes(reinterpret_cast<std::byte*>(uuid.bytes.data()), bytes);
  return uuid;
}

void write_identity(ByteWriter& writer, const EndpointIdentity& identity) {
  write_uuid(writer, identity.uuid);
  writer.write(identity.incarnation);
  write_uuid(writer, identity.cluster_id);
}

EndpointIdentity read_identity(ByteReader& reader) {
  EndpointIdentity identity;
  identity.uuid = read_uuid(reader);
  identity.incarnation = reader.read<uint64_t>();
  identity.cluster_id = read_uuid(reader);
  return identity;
}

VersionRange read_versions(ByteReader& reader) {
  VersionRange versions;
  versions.min = reader.read<uint16_t>();
  versions.max = reader.read<uint16_t>();
  return versions;
}

/// Writes the record's length into the preamble and returns the record.
std::string finish(Buffer& buffer, const ByteWriter& writer) {
  SKUA_CHECK(writer.ok(), "a hello outgrew kHelloBytesMax");
  store_le(buffer.data() + 4, static_cast<uint16_t>(writer.size()));
  return std::string(as_string_view(writer.written()));
}

/// Moves `reader` behind the preamble and checks what both kinds of record have in common.
absl::Status read_preamble(ByteReader& reader, ByteSpan bytes, HelloKind kind) {
  const ByteSpan preamble = reader.read_bytes(kHelloPreambleBytes);
  if (!reader.ok()) return absl::InvalidArgumentError("hello is shorter than its preamble");
  const absl::StatusOr<size_t> size = hello_size(preamble, kind);
  if (!size.ok()) return size.status();
  if (*size != bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("hello says it has ", *size, " bytes, but has ", bytes.size()));
  }
  return absl::OkStatus();
}

absl::Status truncated(ByteSpan bytes) {
  return absl::InvalidArgumentError(absl::StrCat("hello of ", bytes.size(), " bytes is shorter than its fields"));
}

std::string range_text(VersionRange range) {
  return range.min == range.max ? absl::StrCat("version ", range.min)
                                : absl::StrCat("versions ", range.min, " to ", range.max);
}

}  // namespace

std::string encode_hello(const Hello& hello) {
  SKUA_CHECK(hello.sender_address.size() <= Descriptor::kAddressMax, "address too long for a hello");
  Buffer buffer;
  ByteWriter writer(buffer);
  writer.write(kHelloMagic);
  writer.write(uint16_t{0});
  writer.write(static_cast<uint8_t>(HelloKind::kHello));
  writer.write(uint8_t{0});
  writer.write(hello.versions.min);
  writer.write(hello.versions.max);
  writer.write(hello.dial_number);
  write_uuid(writer, hello.expected);
  write_identity(writer, hello.sender);
  writer.write_prefixed<uint16_t>(as_byte_span(hello.sender_address));
  return finish(buffer, writer);
}

std::string encode_reply(const HelloReply& reply) {
  Buffer buffer;
  ByteWriter writer(buffer);
  writer.write(kHelloMagic);
  writer.write(uint16_t{0});
  writer.write(static_cast<uint8_t>(HelloKind::kReply));
  writer.write(static_cast<uint8_t>(reply.code));
  writer.write(reply.versions.min);
  writer.write(reply.versions.max);
  writer.write(reply.chosen);
  writer.write(reply.last_dial_number);
  write_identity(writer, reply.replier);
  writer.write_prefixed<uint16_t>(as_byte_span(std::string_view(reply.text).substr(0, kRefusalTextMax)));
  return finish(buffer, writer);
}

absl::StatusOr<size_t> hello_size(ByteSpan preamble, HelloKind kind) {
  ByteReader reader(preamble);
  const auto magic = reader.read<uint32_t>();
  const size_t size = reader.read<uint16_t>();
  const auto found = reader.read<uint8_t>();
  if (!reader.ok() || magic != kHelloMagic) {
    return absl::InvalidArgumentError("the other side does not speak Skua's protocol");
  }
  if (found != static_cast<uint8_t>(kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a hello of kind ", static_cast<int>(kind), ", got ", found));
  }
  if (size < kHelloPreambleBytes || size > kHelloBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello of ", size, " bytes is not acceptable, ", "the limit is ", kHelloBytesMax));
  }
  return size;
}

absl::StatusOr<Hello> decode_hello(ByteSpan bytes) {
  ByteReader reader(bytes);
  if (absl::Status status = read_preamble(reader, bytes, HelloKind::kHello); !status.ok()) {
    return status;
  }
  Hello hello;
  hello.versions = read_versions(reader);
  hello.dial_number = reader.read<uint64_t>();
  hello.expected = read_uuid(reader);
  hello.sender = read_identity(reader);
  hello.sender_address = as_string_view(reader.read_prefixed<uint16_t>());
  if (!reader.ok()) return truncated(bytes);
  if (hello.sender_address.size() > Descriptor::kAddressMax) {
    return absl::InvalidArgumentError("the address in a hello is too long");
  }
  return hello;
}

absl::StatusOr<HelloReply> decode_reply(ByteSpan bytes) {
  ByteReader reader(bytes);
  if (absl::Status status = read_preamble(reader, bytes, HelloKind::kReply); !status.ok()) {
    return status;
  }
  HelloReply reply;
  reply.code = static_cast<HelloCode>(bytes[7]);
  reply.versions = read_versions(reader);
  reply.chosen = reader.read<uint16_t>();
  reply.last_dial_number = reader.read<uint64_t>();
  reply.replier = read_identity(reader);
  reply.text = as_string_view(reader.read_prefixed<uint16_t>());
  if (!reader.ok()) return truncated(bytes);
  if (reply.text.size() > kRefusalTextMax) reply.text.resize(kRefusalTextMax);
  return reply;
}

uint16_t negotiate(VersionRange a, VersionRange b) {
  const uint16_t highest = std::min(a.max, b.max);
  return highest >= a.min && highest >= b.min ? highest : 0;
}

HelloReply judge_hello(const Hello& hello, const EndpointIdentity& self, VersionRange versions) {
  HelloReply reply;
  reply.versions = versions;
  reply.replier = self;
  const auto refuse = [&reply](HelloCode code, std::string text) {
    reply.code = code;
    reply.text = std::move(text);
    return reply;
  };
  const uint16_t chosen = negotiate(hello.versions, versions);
  if (chosen == 0) {
    return refuse(HelloCode::kVersion, absl::StrCat("the caller speaks ", range_text(hello.versions),
                                                    " of the TCP protocol, this endpoint speaks ", range_text(versions),
                                                    ": upgrade the older side"));
  }
  if (is_foreign_cluster(hello.sender.cluster_id, self.cluster_id)) {
    return refuse(HelloCode::kCluster,
                  absl::StrCat("the caller belongs to cluster ", hello.sender.cluster_id.to_string(),
                               ", this endpoint to cluster ", self.cluster_id.to_string(),
                               ": point the caller at its own cluster's control address, or give a "
                               "node that changes clusters an empty data directory"));
  }
  if (hello.sender.uuid.is_zero()) {
    return refuse(HelloCode::kWrongUuid, "the caller gave no uuid of its own");
  }
  if (!hello.expected.is_zero() && hello.expected != self.uuid) {
    return refuse(
        HelloCode::kWrongUuid,
        absl::StrCat("the caller expected endpoint ", hello.expected.to_string(), " here, but this is endpoint ",
                     self.uuid.to_string(), ": the address was taken over; ask for the peer's descriptor again"));
  }
  if (hello.sender.uuid == self.uuid) {
    return refuse(HelloCode::kSameUuid,
                  absl::StrCat("the caller claims uuid ", self.uuid.to_string(),
                               ", which is this endpoint's own: two endpoints share one identity (a "
                               "copied data directory?); start one of them with a fresh one"));
  }
  reply.chosen = chosen;
  return reply;
}

bool is_foreign_cluster(const Uuid& a, const Uuid& b) {
  return !a.is_zero() && !b.is_zero() && a != b;
}

}  // namespace skua::rpc::tcp
