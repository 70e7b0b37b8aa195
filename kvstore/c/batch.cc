#include "kvstore/c/batch.h"

#include <chrono>
#include <new>
#include <string_view>

#include "kvstore/c/entry_point.h"
#include "kvstore/c/parameters.h"

namespace skua::c {
namespace {

/// `append` is the operation's function, and `arguments` are what it takes between its key and its options.
template <typename Append, typename... Arguments>
skua_code add_to(skua_batch* batch, const skua_write_options* given, skua_bytes key, skua_bytes value, Append append,
                 Arguments... arguments) noexcept {
  if (batch == nullptr) return SKUA_INVALID_ARGUMENT;
  const absl::Status status = without_exceptions([&] {
    if (!batch->status().ok()) return batch->status();
    kv::BatchOpOptions options;
    absl::Status usable = check_bytes("key", key);
    if (usable.ok()) usable = check_bytes("value", value);
    if (usable.ok()) usable = read(given, options);
    if (!usable.ok()) return usable;
    (batch->batch.*append)(view_of(key), arguments..., options);
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
  return add_to(batch, options, key, value, &Batch::put, view_of(value));
}

skua_code skua_batch_remove(skua_batch* batch, skua_bytes key, const skua_write_options* options) {
  return add_to(batch, options, key, {}, &Batch::remove);
}

skua_code skua_batch_add(skua_batch* batch, skua_bytes key, int64_t delta, const skua_write_options* options) {
  return add_to(batch, options, key, {}, &Batch::add, delta);
}

skua_code skua_batch_append(skua_batch* batch, skua_bytes key, skua_bytes bytes, const skua_write_options* options) {
  return add_to(batch, options, key, bytes, &Batch::append, view_of(bytes));
}

skua_code skua_batch_expire(skua_batch* batch, skua_bytes key, int64_t ttl_ns, const skua_write_options* options) {
  return add_to(batch, options, key, {}, &Batch::expire, std::chrono::nanoseconds(ttl_ns));
}
