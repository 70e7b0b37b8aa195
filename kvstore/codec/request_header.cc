#include "kvstore/codec/request_header.h"

#include "absl/strings/str_cat.h"
#include "kvstore/codec/row.h"

namespace skua::kv {

absl::Status RequestReader::malformed(const char* what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(method_name(method_), " request of ", size_, " bytes is malformed: ", what));
}

absl::Status RequestReader::read_header(uint8_t flags_allowed) {
  if (size_ < kRequestHeaderBytes) return malformed("shorter than its header");
  const auto header = read<RequestHeader>();
  header_.route = header.route;  // field by field, for the reason in decode_get()
  header_.flags = header.flags;
  header_.key_bytes = header.key_bytes;
  header_.count = header.count;
  if (header.format != kRequestFormat) {
    return absl::InvalidArgumentError(absl::StrCat(method_name(method_), " request has format ", header.format,
                                                   "; this build reads format ", kRequestFormat));
  }
  if (has(static_cast<uint8_t>(~flags_allowed))) return malformed("unknown flags");
  return absl::OkStatus();
}

void write_mutation_head(ByteWriter& writer, RequestHeader header, const MutationHead& head) {
  header.flags = static_cast<uint8_t>(header.flags | static_cast<uint8_t>(head.condition.kind) |
                                      (static_cast<uint8_t>(head.durability) << kDurabilityShift));
  writer.write(header);
  writer.write(head.id.client_id);
  writer.write(head.id.seq);
  writer.write(head.id.first_incomplete);
  writer.write(head.condition.kind == Condition::Kind::kIfVersion ? head.condition.version : uint64_t{0});
  writer.write(head.ttl_ms);
}

absl::Status RequestReader::read_mutation_head(uint8_t own_flags, MutationHead& head) {
  const auto allowed = static_cast<uint8_t>(kConditionBits | kDurabilityBits | own_flags);
  if (absl::Status status = read_header(allowed); !status.ok()) return status;
  head.id.client_id = read<uint64_t>();
  head.id.seq = read<uint64_t>();
  head.id.first_incomplete = read<uint64_t>();
  head.condition.version = read<uint64_t>();
  head.ttl_ms = read<uint64_t>();
  if (!ok()) return malformed("it ends inside its head");
  head.condition.kind = static_cast<Condition::Kind>(header_.flags & kConditionBits);
  head.durability = static_cast<Durability>((header_.flags & kDurabilityBits) >> kDurabilityShift);
  if (head.condition.kind != Condition::Kind::kIfVersion && head.condition.version != 0) {
    return malformed("a version without if_version");
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
  const bool may_be_if_absent = method != Method::kDelete && method != Method::kExpire;
  const bool has_ttl = method == Method::kPut || method == Method::kExpire;
  if (method == Method::kBatch && condition.kind != Condition::Kind::kNone) {
    return absl::InvalidArgumentError("BATCH has no condition of its own; its operations have");
  }
  if (condition.kind == Condition::Kind::kIfAbsent && !may_be_if_absent) {
    return absl::InvalidArgumentError(
        absl::StrCat(method_name(method), " if_absent would never do anything; use none or if_version"));
  }
  if (ttl_ms != 0 && !has_ttl) {
    return absl::InvalidArgumentError(
        absl::StrCat(method_name(method), " has no time to live; a key keeps the one it has, and EXPIRE sets it"));
  }
  return check_limit("the time to live", "millisecond", ttl_ms, kTtlMsMax);
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
