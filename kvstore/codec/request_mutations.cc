// PUT, DELETE, PATCH, ADD, APPEND and EXPIRE. Each is header, mutation head and key. ADD has a number before the key;
// PUT, PATCH and APPEND have bytes behind it. batch.cc has BATCH.
#include "absl/strings/str_cat.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/request_header.h"
#include "kvstore/codec/row.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

using Kind = Mutation::Kind;

bool has_value(Kind kind) {
  return kind == Kind::kPut || kind == Kind::kPatch || kind == Kind::kAppend;
}

/// The flags that a mutation of this kind may have beside those that all may have.
uint8_t flags_allowed(Kind kind) {
  if (kind == Kind::kPatch) return kCreateIfMissingBit | kEditsRowBit | kMarkFollowsBit;
  return kind == Kind::kPut ? kKeepTtlBit | kMarkFollowsBit : uint8_t{0};
}

uint8_t flags_of(const Mutation& mutation) {
  return static_cast<uint8_t>((mutation.create_if_missing ? kCreateIfMissingBit : 0) |
                              (mutation.keep_ttl ? kKeepTtlBit : 0) | (mutation.edits_row ? kEditsRowBit : 0) |
                              (mutation.mark.empty() ? 0 : kMarkFollowsBit));
}

absl::Status check_parts(const Mutation& mutation) {
  const bool has_others_part =
      (mutation.create_if_missing && mutation.kind != Kind::kPatch) ||
      (mutation.keep_ttl && mutation.kind != Kind::kPut) || (mutation.edits_row && mutation.kind != Kind::kPatch) ||
      (mutation.delta != 0 && mutation.kind != Kind::kAdd) || (mutation.mark.tag != 0 && mutation.kind != Kind::kPut) ||
      (mutation.mark.row && mutation.kind != Kind::kPut && mutation.kind != Kind::kPatch) ||
      (!mutation.value.empty() && !has_value(mutation.kind));
  if (!has_others_part) return absl::OkStatus();
  const std::string_view name = mutation.kind == Kind::kCheck ? "CHECK" : method_name(method_of(mutation.kind));
  return absl::InvalidArgumentError(absl::StrCat(absl_view(name), " has a part that only others have"));
}

/// True: the mutation has a key, and perhaps a value, of sizes that they may have, and no part for which there are
/// rules. Most mutations are such. False: it must be looked at more closely.
bool is_plain(const Mutation& mutation) {
  const bool has_other_part = mutation.condition.kind == Condition::Kind::kIfAbsent || mutation.ttl_ms != 0 ||
                              mutation.create_if_missing || mutation.keep_ttl || mutation.edits_row ||
                              mutation.delta != 0 || !mutation.mark.empty();
  const bool may_have_value = mutation.kind == Kind::kPut || mutation.kind == Kind::kAppend;
  const bool has_rules = mutation.kind == Kind::kPatch || mutation.kind > Kind::kExpire;
  return !has_other_part && !has_rules && !mutation.key.empty() && mutation.key.size() <= kKeyBytesMax &&
         mutation.value.size() <= (may_have_value ? kValueBytesMax : 0);
}

absl::Status check_check(const Mutation& check) {
  if (check.condition.kind != Condition::Kind::kIfVersion) {
    return absl::InvalidArgumentError("CHECK wants the version that the key must have; 0: none");
  }
  if (check.ttl_ms != 0) return absl::InvalidArgumentError("CHECK writes nothing, so it has no time to live");
  return check_parts(check);
}

}  // namespace

Method method_of(Kind kind) {
  switch (kind) {
    case Kind::kPut: return Method::kPut;
    case Kind::kDelete: return Method::kDelete;
    case Kind::kAdd: return Method::kAdd;
    case Kind::kAppend: return Method::kAppend;
    case Kind::kPatch: return Method::kPatch;
    case Kind::kExpire: return Method::kExpire;
    case Kind::kCheck: return Method::kBatch;
  }
  return Method::kBatch;
}

std::optional<Kind> kind_of(Method method) {
  for (const Kind kind : {Kind::kPut, Kind::kDelete, Kind::kAdd, Kind::kAppend, Kind::kPatch, Kind::kExpire}) {
    if (method_of(kind) == method) return kind;
  }
  return std::nullopt;
}

absl::Status check_mutation(const Mutation& mutation) {
  if (is_plain(mutation)) [[likely]] {
    return absl::OkStatus();
  }
  const Method method = method_of(mutation.kind);
  if (absl::Status status = check_key(mutation.key); !status.ok()) return status;
  if (absl::Status status = check_value(mutation.value); !status.ok()) return status;
  if (mutation.kind == Kind::kCheck) return check_check(mutation);
  if (absl::Status status = check_rules(method, mutation.condition, mutation.ttl_ms); !status.ok()) return status;
  if (absl::Status status = check_parts(mutation); !status.ok()) return status;
  if (mutation.keep_ttl && mutation.ttl_ms != 0) {
    return absl::InvalidArgumentError("PUT keeps the time to live, or takes a new one, not both");
  }
  if (mutation.kind == Kind::kPut && mutation.mark.row) return check_marked_row(mutation.value);
  if (mutation.kind != Kind::kPatch) return absl::OkStatus();
  return check_patch(mutation);
}

absl::StatusOr<ByteSpan> encode_mutation_head(const MutationRequest& request, HeadBuffer& buffer) {
  const Mutation& mutation = request.mutation;
  if (mutation.kind == Kind::kCheck) return absl::InvalidArgumentError("CHECK is an operation of batches only");
  if (absl::Status status = check_mutation(mutation); !status.ok()) return status;
  if (absl::Status status = check_request_id(request.id); !status.ok()) return status;
  ByteWriter writer(buffer);
  write_mutation_head(writer,
                      {.route = request.route,
                       .flags = flags_of(mutation),
                       .key_bytes = static_cast<uint16_t>(mutation.key.size()),
                       .count = static_cast<uint32_t>(mutation.value.size())},
                      {request.id, request.durability, mutation.condition, mutation.ttl_ms});
  if (mutation.kind == Kind::kAdd) writer.write(mutation.delta);
  if (!mutation.mark.empty()) writer.write(mutation.mark.word());
  writer.write_bytes(as_byte_span(mutation.key));
  return writer.written();
}

absl::StatusOr<MutationRequest> decode_mutation(Method method, ByteSpan bytes) {
  const std::optional<Kind> kind = kind_of(method);
  SKUA_CHECK(kind.has_value(), "a method of one mutation");
  RequestReader reader(method, bytes);
  MutationHead head;
  if (absl::Status status = reader.read_mutation_head(flags_allowed(*kind), head); !status.ok()) return status;
  const RequestHeader& header = reader.header();
  absl::StatusOr<MutationRequest> request(absl::in_place);  // decoded into its place: it is large
  request->route = header.route;
  request->id = head.id;
  request->durability = head.durability;
  Mutation& mutation = request->mutation;
  mutation.kind = *kind;
  mutation.create_if_missing = reader.has(kCreateIfMissingBit);
  mutation.keep_ttl = *kind == Kind::kPut && reader.has(kKeepTtlBit);
  mutation.edits_row = *kind == Kind::kPatch && reader.has(kEditsRowBit);
  mutation.condition = head.condition;
  mutation.ttl_ms = head.ttl_ms;
  if (*kind == Kind::kAdd) mutation.delta = reader.read<int64_t>();
  if (reader.has(kMarkFollowsBit)) {
    const auto mark = RecordMark::of_word(reader.read<uint64_t>());
    if (!mark.has_value() || mark->empty()) return reader.malformed("its mark is none");
    mutation.mark = *mark;
  }
  mutation.key = as_string_view(reader.read_bytes(header.key_bytes));
  if (has_value(*kind)) mutation.value = reader.read_bytes(header.count);
  if (!reader.complete() || (!has_value(*kind) && header.count != 0)) {
    return reader.malformed("its length disagrees with its key's and value's");
  }
  if (absl::Status status = check_mutation(mutation); !status.ok()) return status;
  return request;
}

}  // namespace skua::kv
