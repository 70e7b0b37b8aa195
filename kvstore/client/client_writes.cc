// Submission of PUT, DELETE, PATCH, ADD, APPEND and EXPIRE. BATCH: client_batch.cc.
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/write_options.h"
#include "kvstore/codec/row.h"
#include "kvstore/codec/text.h"

namespace skua::kv {

absl::StatusOr<Operation*> ClientCore::begin_write(Method method, std::string_view table, std::string_view key,
                                                   const WriteOptions& options) {
  if (absl::Status status = admit(table, options.timeout); !status.ok()) return status;
  if (absl::Status status = check_key(key); !status.ok()) return status;
  const absl::StatusOr<Condition> condition = condition_of(options.if_version, options.if_absent);
  if (!condition.ok()) return condition.status();
  if (options.if_absent && (method == Method::kDelete || method == Method::kExpire)) {
    return absl::InvalidArgumentError(absl::StrCat(method_name(method), " cannot be if_absent"));
  }
  const absl::StatusOr<uint64_t> ttl_ms = ttl_ms_of(options.ttl);
  if (!ttl_ms.ok()) return ttl_ms.status();
  if (*ttl_ms != 0 && method != Method::kPut && method != Method::kExpire) {
    return absl::InvalidArgumentError(
        absl::StrCat(method_name(method), " has no time to live; a key keeps the one it has, and EXPIRE sets it"));
  }
  Operation& operation = begin(method, table, key, options.timeout);
  operation.condition = *condition;
  operation.durability = options.durability;
  operation.ttl_ms = *ttl_ms;
  return &operation;
}

absl::StatusOr<Operation*> ClientCore::begin_value(Method method, std::string_view table, std::string_view key,
                                                   PutValue&& value, const WriteOptions& options) {
  PutValue given = std::move(value);  // if the write is refused, its destructor releases lent memory
  if (absl::Status status = check_value(as_byte_span(given.bytes())); !status.ok()) return status;
  absl::StatusOr<Operation*> operation = begin_write(method, table, key, options);
  if (operation.ok()) OperationPool::set_value(**operation, std::move(given));
  return operation;
}

absl::Status ClientCore::put(std::string_view table, std::string_view key, PutValue&& value,
                             const WriteOptions& options, WriteCallback&& done) {
  const absl::StatusOr<Operation*> operation = begin_value(Method::kPut, table, key, std::move(value), options);
  if (!operation.ok()) return operation.status();
  (*operation)->on_write = std::move(done);
  return submit(**operation);
}

absl::Status ClientCore::append(std::string_view table, std::string_view key, PutValue&& bytes,
                                const WriteOptions& options, WriteCallback&& done) {
  const absl::StatusOr<Operation*> operation = begin_value(Method::kAppend, table, key, std::move(bytes), options);
  if (!operation.ok()) return operation.status();
  (*operation)->on_write = std::move(done);
  return submit(**operation);
}

absl::Status ClientCore::remove(std::string_view table, std::string_view key, const WriteOptions& options,
                                WriteCallback&& done) {
  const absl::StatusOr<Operation*> operation = begin_write(Method::kDelete, table, key, options);
  if (!operation.ok()) return operation.status();
  (*operation)->on_write = std::move(done);
  return submit(**operation);
}

absl::Status ClientCore::add(std::string_view table, std::string_view key, int64_t delta, const WriteOptions& options,
                             WriteCallback&& done) {
  const absl::StatusOr<Operation*> operation = begin_write(Method::kAdd, table, key, options);
  if (!operation.ok()) return operation.status();
  (*operation)->delta = delta;
  (*operation)->on_write = std::move(done);
  return submit(**operation);
}

absl::Status ClientCore::expire(std::string_view table, std::string_view key, std::chrono::nanoseconds ttl,
                                const WriteOptions& options, WriteCallback&& done) {
  WriteOptions all = options;
  all.ttl = ttl;
  const absl::StatusOr<Operation*> operation = begin_write(Method::kExpire, table, key, all);
  if (!operation.ok()) return operation.status();
  (*operation)->on_write = std::move(done);
  return submit(**operation);
}

absl::Status ClientCore::patch(std::string_view table, std::string_view key, std::span<const FieldUpdate> fields,
                               const PatchOptions& options, WriteCallback&& done) {
  if (fields.empty()) return absl::InvalidArgumentError("PATCH needs one field at least");
  size_t bytes = 0;
  for (const FieldUpdate& field : fields) {
    bytes += field_bytes({field.name, as_byte_span(field.value)});
  }
  if (bytes > kValueBytesMax) return beyond_limit("the PATCH", "byte", bytes, kValueBytesMax);
  const WriteOptions common{
      .timeout = options.timeout, .if_version = options.if_version, .durability = options.durability};
  const absl::StatusOr<Operation*> begun = begin_write(Method::kPatch, table, key, common);
  if (!begun.ok()) return begun.status();
  Operation& operation = **begun;
  for (const FieldUpdate& field : fields) {
    append_field(operation.payload, {field.name, as_byte_span(field.value)});
  }
  if (absl::Status status = check_row(as_byte_span(operation.payload)); !status.ok()) {
    take_back(operation);
    return status;
  }
  operation.create_if_missing = options.create_if_missing;
  operation.on_write = std::move(done);
  return submit(operation);
}

}  // namespace skua::kv
