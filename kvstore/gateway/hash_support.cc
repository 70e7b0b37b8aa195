#include "kvstore/gateway/hash_support.h"

#include <algorithm>

#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/redis_errors.h"

namespace skua::kv::gateway {

StoreRequest read_hash(const CommandRun& run) {
  return {.kind = StoreRequest::Kind::kGet, .key = run.arg(1), .with_mark = true};
}

StoreRequest read_fields(const CommandRun& run, std::span<std::string_view> names) {
  const auto end =
      std::remove_if(names.begin(), names.end(), [](std::string_view name) { return !is_field_name(name); });
  const auto count = static_cast<size_t>(end - names.begin());
  if (count == 0) return read_mark(run);
  StoreRequest request = read_hash(run);
  if (count <= kFieldsMax) request.fields = names.first(count);
  return request;
}

StoreRequest read_mark(const CommandRun& run) {
  return {.kind = StoreRequest::Kind::kGet, .key = run.arg(1), .with_mark = true, .drops_value = true};
}

StoreRequest edit_hash(const CommandRun& run, std::string_view edit, bool creates) {
  return {
      .kind = StoreRequest::Kind::kEdit, .key = run.arg(1), .value = edit, .mark = {.row = true}, .creates = creates};
}

bool reply_not_hash_edit(CommandRun& run, const StoreResult& edited) {
  if (reply_failure(run, edited)) return true;
  if (edited.status != StoreResult::Status::kNotARow) return false;
  run.reply().error(errors::kWrongType);
  return true;
}

bool is_field_name(std::string_view name) {
  return !name.empty() && name.size() <= kFieldNameBytesMax;
}

bool reply_bad_field_name(CommandRun& run, std::string_view name) {
  if (is_field_name(name)) return false;
  run.reply().error(errors::kFieldSize);
  return true;
}

bool reply_large_hash(CommandRun& run, const HashChange& change) {
  if (change.field_count <= kFieldsMax && change.row_bytes <= kValueBytesMax) return false;
  run.reply().error(change.field_count > kFieldsMax ? errors::kTooManyFields : errors::kHashTooLarge);
  return true;
}

/// An edit brings only the fields. It makes no hash, because it cannot demand that the key be absent.
StoreRequest set_fields(const CommandRun& run, const StoreResult& old, std::string_view row) {
  if (old.ok()) return unless_changed(old, edit_hash(run, row, false));
  return unless_changed(old,
                        {.kind = StoreRequest::Kind::kPut, .key = run.arg(1), .value = row, .mark = {.row = true}});
}

}  // namespace skua::kv::gateway
