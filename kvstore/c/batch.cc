#include "kvstore/c/batch.h"

#include <chrono>
#include <new>

#include "kvstore/c/entry_point.h"
#include "kvstore/c/parameters.h"

namespace skua::c {
namespace {

/// `append(batch, options)` adds the operation.
template <typename Append>
skua_code add_to(skua_batch* batch, skua_bytes key, skua_bytes value, const skua_write_options* given,
                 Append append) noexcept {
  if (batch == nullptr) return SKUA_INVALID_ARGUMENT;
  const absl::Status status = without_exceptions([&] {
    if (!batch->status().ok()) return batch->status();
    kv::BatchOpOptions options;
    absl::Status usable = check_bytes("key", key);
    if (usable.ok()) usable = check_bytes("value", value);
    if (usable.ok()) usable = read(given, options);
    if (!usable.ok()) return usable;
    append(batch->batch, options);
    return batch->batch.status();
  });
  if (!status.ok() && batch->status().ok()) batch->refused = status;
  return code_of(status);
}

}  // namespace
}  // namespace skua::c

using skua::c::add_to;
using skua::c::view_of;
using skua::kv::Batch;
using skua::kv::BatchOpOptions;

skua_batch* skua_batch_create(void) {
  return new (std::nothrow) skua_batch();
}

void skua_batch_destroy(skua_batch* batch) {
  delete batch;
}

void skua_batch_clear(skua_batch* batch) {
  if (batch == nullptr) return;
  batch->batch.clear();
  batch->refused = absl::OkStatus();
}

skua_code skua_batch_put(skua_batch* batch, skua_bytes key, skua_bytes value, const skua_write_options* options) {
  return add_to(batch, key, value, options,
                [&](Batch& to, const BatchOpOptions& op_options) { to.put(view_of(key), view_of(value), op_options); });
}

skua_code skua_batch_remove(skua_batch* batch, skua_bytes key, const skua_write_options* options) {
  return add_to(batch, key, {}, options,
                [&](Batch& to, const BatchOpOptions& op_options) { to.remove(view_of(key), op_options); });
}

skua_code skua_batch_add(skua_batch* batch, skua_bytes key, int64_t delta, const skua_write_options* options) {
  return add_to(batch, key, {}, options,
                [&](Batch& to, const BatchOpOptions& op_options) { to.add(view_of(key), delta, op_options); });
}

skua_code skua_batch_append(skua_batch* batch, skua_bytes key, skua_bytes bytes, const skua_write_options* options) {
  return add_to(batch, key, bytes, options, [&](Batch& to, const BatchOpOptions& op_options) {
    to.append(view_of(key), view_of(bytes), op_options);
  });
}

skua_code skua_batch_expire(skua_batch* batch, skua_bytes key, int64_t ttl_ns, const skua_write_options* options) {
  return add_to(batch, key, {}, options, [&](Batch& to, const BatchOpOptions& op_options) {
    to.expire(view_of(key), std::chrono::nanoseconds(ttl_ns), op_options);
  });
}
