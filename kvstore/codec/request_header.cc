#include "kvstore/codec/request_header.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/row.h"

namespace skua::kv {
namespace {

/// The header as it lies in the request (little endian, no gaps). It is read and written in one go, because every
/// request has it.
struct HeaderBytes {
  Route route;
  uint8_t format;
  uint8_t flags;
  uint16_t key_bytes;
  uint32_t count;
};
static_assert(sizeof(HeaderBytes) == kRequestHeaderBytes);
static_assert(offsetof(HeaderBytes, format) == offsetof(Route, map_revision) + sizeof(uint64_t));

}  // namespace

absl::Status malformed_request(Method method, const char* what, size_t size) {
  return absl::InvalidArgumentError(
      absl::StrCat(method_name(method), " request of ", size, " bytes is malformed: ", what));
}

MutationRules rules_of(Method method) {
  switch (method) {
    case Method::kPut: return {.ttl = true};
    case Method::kDelete: return {.if_absent = false};
    case Method::kExpire: return {.if_absent = false, .ttl = true};
    default: return {};
  }
}

void write_request_header(ByteWriter& writer, const RequestHeader& header) {
  writer.write(HeaderBytes{header.route, kRequestFormat, header.flags, header.key_bytes, header.count});
}

absl::Status read_request_header(Method method, ByteSpan bytes, uint8_t flags_allowed, ByteReader& reader,
                                 RequestHeader& header) {
  if (bytes.size() < kRequestHeaderBytes) return malformed_request(method, "shorter than its header", bytes.size());
  const auto read = reader.read<HeaderBytes>();
  header.route = read.route;  // field by field, for the reason in decode_get()
  header.flags = read.flags;
  header.key_bytes = read.key_bytes;
  header.count = read.count;
  if (read.format != kRequestFormat) {
    return absl::InvalidArgumentError(absl::StrCat(method_name(method), " request has format ", read.format,
                                                   "; this build reads format ", kRequestFormat));
  }
  if ((header.flags & ~flags_allowed) != 0) return malformed_request(method, "unknown flags", bytes.size());
  return absl::OkStatus();
}

void write_mutation_head(ByteWriter& writer, RequestHeader header, const MutationHead& head) {
  header.flags = static_cast<uint8_t>(header.flags | static_cast<uint8_t>(head.condition.kind) |
                                      (static_cast<uint8_t>(head.durability) << kDurabilityShift));
  write_request_header(writer, header);
  writer.write(head.id.client_id);
  writer.write(head.id.seq);
  writer.write(head.id.first_incomplete);
  writer.write(head.condition.kind == Condition::Kind::kIfVersion ? head.condition.version : uint64_t{0});
  writer.write(head.ttl_ms);
}

absl::Status read_mutation_head(Method method, ByteSpan bytes, uint8_t own_flags, ByteReader& reader,
                                RequestHeader& header, MutationHead& head) {
  const auto allowed = static_cast<uint8_t>(kConditionBits | kDurabilityBits | own_flags);
  if (absl::Status status = read_request_header(method, bytes, allowed, reader, header); !status.ok()) return status;
  head.id.client_id = reader.read<uint64_t>();
  head.id.seq = reader.read<uint64_t>();
  head.id.first_incomplete = reader.read<uint64_t>();
  head.condition.version = reader.read<uint64_t>();
  head.ttl_ms = reader.read<uint64_t>();
  if (!reader.ok()) return malformed_request(method, "it ends inside its head", bytes.size());
  head.condition.kind = static_cast<Condition::Kind>(header.flags & kConditionBits);
  head.durability = static_cast<Durability>((header.flags & kDurabilityBits) >> kDurabilityShift);
  if (head.condition.kind != Condition::Kind::kIfVersion && head.condition.version != 0) {
    return malformed_request(method, "a version without if_version", bytes.size());
  }
  return check_request_id(head.id);
}

absl::Status check_request_id(const RequestId& id) {
  if (id.client_id == 0) {
    if (id.seq == 0 && id.first_incomplete == 0) return absl::OkStatus();
    return absl::InvalidArgumentError("request id has a seq without a client id");
  }
  if (id.seq == 0) return absl::InvalidArgumentError("request id has a client id without a seq; seqs start at 1");
  if (id.first_incomplete <= id.seq) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("request id with seq ", id.seq, " says that all below ",
                                                 id.first_incomplete, " are answered, and it is not"));
}

absl::Status check_rules(Method method, const Condition& condition, uint64_t ttl_ms) {
  const MutationRules rules = rules_of(method);
  if (method == Method::kBatch && condition.kind != Condition::Kind::kNone) {
    return absl::InvalidArgumentError("BATCH has no condition of its own; its operations have");
  }
  if (condition.kind == Condition::Kind::kIfAbsent && !rules.if_absent) {
    return absl::InvalidArgumentError(
        absl::StrCat(method_name(method), " if_absent would never do anything; use none or if_version"));
  }
  if (ttl_ms != 0 && !rules.ttl) {
    return absl::InvalidArgumentError(
        absl::StrCat(method_name(method), " has no time to live; a key keeps the one it has, and EXPIRE sets it"));
  }
  if (ttl_ms > kTtlMsMax) return beyond_limit("the time to live", "millisecond", ttl_ms, kTtlMsMax);
  return absl::OkStatus();
}

absl::Status check_patch(const Mutation& patch) {
  if (patch.condition.kind == Condition::Kind::kIfAbsent && !patch.create_if_missing) {
    return absl::InvalidArgumentError("PATCH if_absent would never do anything without create_if_missing");
  }
  if (patch.condition.kind == Condition::Kind::kIfPresent && patch.create_if_missing) {
    return absl::InvalidArgumentError("PATCH if_present makes no key; leave create_if_missing away");
  }
  if (patch.value.empty()) return absl::InvalidArgumentError("PATCH request names no field");
  return patch.edits_row ? check_edit(patch.value) : check_row(patch.value);
}

}  // namespace skua::kv
