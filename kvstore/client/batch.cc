#include "kvstore/client/batch.h"

#include "absl/strings/str_cat.h"
#include "kvstore/client/write_options.h"
#include "kvstore/codec/row.h"

namespace skua::kv {

namespace {

absl::Status set_options(Mutation& op, const BatchOpOptions& options) {
  const auto condition = condition_of(options);
  if (!condition.ok()) return condition.status();
  if (options.ttl.count() != 0) {
    const auto ttl_ms = ttl_ms_of(options.ttl);
    if (!ttl_ms.ok()) return ttl_ms.status();
    op.ttl_ms = *ttl_ms;
  }
  if (options.create_if_missing && op.kind != Mutation::Kind::kPatch) {
    return absl::InvalidArgumentError("create_if_missing is PATCH's");
  }
  op.condition = *condition;
  op.create_if_missing = options.create_if_missing;
  op.keep_ttl = options.keep_ttl;
  op.mark = options.mark;
  return absl::OkStatus();
}

}  // namespace

Batch& Batch::append_op(Mutation&& op, const BatchOpOptions& options) {
  if (!status_.ok()) return *this;
  absl::Status status = set_options(op, options);
  if (status.ok()) status = ops_.add(op);
  if (!status.ok()) {
    status_ = absl::Status(status.code(), absl::StrCat("BATCH operation ", ops_.size() + 1, ": ", status.message()));
  }
  return *this;
}

Batch& Batch::put(std::string_view key, std::string_view value, const BatchOpOptions& options) {
  return append_op({.kind = Mutation::Kind::kPut, .key = key, .value = as_byte_span(value)}, options);
}

Batch& Batch::remove(std::string_view key, const BatchOpOptions& options) {
  return append_op({.kind = Mutation::Kind::kDelete, .key = key}, options);
}

Batch& Batch::add(std::string_view key, int64_t delta, const BatchOpOptions& options) {
  return append_op({.kind = Mutation::Kind::kAdd, .key = key, .delta = delta}, options);
}

Batch& Batch::append(std::string_view key, std::string_view bytes, const BatchOpOptions& options) {
  return append_op({.kind = Mutation::Kind::kAppend, .key = key, .value = as_byte_span(bytes)}, options);
}

Batch& Batch::patch(std::string_view key, std::span<const FieldUpdate> fields, const BatchOpOptions& options) {
  row_.clear();
  bool edits_row = false;  // which the batch refuses
  for (const FieldUpdate& field : fields) {
    append_field(row_, {field.name, as_byte_span(field.value), field.remove});
    edits_row |= field.remove;
  }
  return append_op({.kind = Mutation::Kind::kPatch, .key = key, .value = as_byte_span(row_), .edits_row = edits_row},
                   options);
}

Batch& Batch::expire(std::string_view key, std::chrono::nanoseconds ttl, const BatchOpOptions& options) {
  BatchOpOptions all = options;
  all.ttl = ttl;
  return append_op({.kind = Mutation::Kind::kExpire, .key = key}, all);
}

Batch& Batch::check(std::string_view key, uint64_t version) {
  return append_op({.kind = Mutation::Kind::kCheck, .key = key}, {.if_version = version});
}

void Batch::clear() {
  ops_.clear();
  status_ = absl::OkStatus();
}

}  // namespace skua::kv
