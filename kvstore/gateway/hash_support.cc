#include "kvstore/gateway/hash_support.h"

#include <algorithm>

#include "kvstore/codec/row.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/redis_errors.h"
#include "rpc/base/bytes.h"

namespace skua::kv::gateway {

StoreRequest read_fields(const CommandRun& run, std::span<std::string_view> names) {
  const auto end =
      std::remove_if(names.begin(), names.end(), [](std::string_view name) { return !is_field_name(name); });
  const auto count = static_cast<size_t>(end - names.begin());
  if (count == 0) return read_mark(run);
  StoreRequest request = read_value(run);
  if (count <= kFieldsMax) request.fields = names.first(count);
  return request;
}

std::optional<std::string_view> field_in(const StoreResult& got, std::string_view name) {
  const std::optional<ByteSpan> found = find_field(as_byte_span(got.value.bytes()), name);
  return found.has_value() ? std::optional(as_string_view(*found)) : std::nullopt;
}

StoreRequest edit_hash(const CommandRun& run, std::string_view edit, bool creates) {
  return {
      .kind = StoreRequest::Kind::kEdit, .key = run.arg(1), .value = edit, .mark = {.row = true}, .creates = creates};
}

bool reply_not_hash_edit(CommandRun& run, const StoreResult& edited) {
  return reply_failure(run, edited) ||
         reply_error_if(run, edited.status == StoreResult::Status::kNotARow, errors::kWrongType);
}

bool is_field_name(std::string_view name) {
  return !name.empty() && name.size() <= kFieldNameBytesMax;
}

bool reply_bad_field_name(CommandRun& run, std::string_view name) {
  return reply_error_if(run, !is_field_name(name), errors::kFieldSize);
}

bool reply_large_hash(CommandRun& run, const HashChange& change) {
  return reply_error_if(run, change.field_count > kFieldsMax, errors::kTooManyFields) ||
         reply_error_if(run, change.row_bytes > kValueBytesMax, errors::kHashTooLarge);
}

/// An edit brings only the fields. It makes no hash, because it cannot demand that the key be absent.
StoreRequest set_fields(const CommandRun& run, const StoreResult& old, std::string_view row) {
  if (old.ok()) return unless_changed(old, edit_hash(run, row, false));
  return unless_changed(old,
                        {.kind = StoreRequest::Kind::kPut, .key = run.arg(1), .value = row, .mark = {.row = true}});
}

}  // namespace skua::kv::gateway
