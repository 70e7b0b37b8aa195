// Operations of blocking clients.
#include <new>
#include <utility>

#include "kvstore/c/calls.h"
#include "kvstore/c/client.h"
#include "kvstore/c/result.h"

namespace skua::c {
namespace {

enum class Effect { kReads, kWrites };

/// Returns a result. `make_call(run)` is one of the functions of calls.h.
template <typename MakeCall>
skua_result* run_blocking(skua_client* client, Effect effect, MakeCall make_call) noexcept {
  // Before the call: once the operation has been done, its result must not be lost.
  OwnedResult* const result = new (std::nothrow) OwnedResult();
  if (result == nullptr) return nullptr;
  bool has_begun = false;
  const absl::Status status = without_exceptions([&] {
    absl::Status usable = check_blocking(client);
    if (usable.ok()) {
      usable = make_call([&](auto&& call) {
        has_begun = true;
        take(client->blocking->run(std::forward<decltype(call)>(call)), *result);
        return absl::OkStatus();
      });
    }
    if (!usable.ok() && has_begun) return usable;
    if (!usable.ok()) refuse(usable, *result);
    return absl::OkStatus();
  });
  if (!status.ok()) tell_no_memory(has_begun && effect == Effect::kWrites, *result);
  return result;
}

}  // namespace
}  // namespace skua::c

using skua::c::Effect;
using skua::c::run_blocking;
using skua::kv::Method;

skua_result* skua_get(skua_client* client, const char* table, skua_bytes key, const skua_read_options* options) {
  return run_blocking(client, Effect::kReads,
                      [&](auto&& run) { return skua::c::with_get<skua::kv::GetCall>(table, key, options, run); });
}

skua_result* skua_put(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                      const skua_write_options* options) {
  return run_blocking(client, Effect::kWrites, [&](auto&& run) {
    return skua::c::with_write(Method::kPut, table, key, {.value = value}, options, run);
  });
}

skua_result* skua_remove(skua_client* client, const char* table, skua_bytes key, const skua_write_options* options) {
  return run_blocking(client, Effect::kWrites,
                      [&](auto&& run) { return skua::c::with_write(Method::kDelete, table, key, {}, options, run); });
}

skua_result* skua_add(skua_client* client, const char* table, skua_bytes key, int64_t delta,
                      const skua_write_options* options) {
  return run_blocking(client, Effect::kWrites, [&](auto&& run) {
    return skua::c::with_write(Method::kAdd, table, key, {.delta = delta}, options, run);
  });
}

skua_result* skua_append(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                         const skua_write_options* options) {
  return run_blocking(client, Effect::kWrites, [&](auto&& run) {
    return skua::c::with_write(Method::kAppend, table, key, {.value = bytes}, options, run);
  });
}

skua_result* skua_expire(skua_client* client, const char* table, skua_bytes key, int64_t ttl_ns,
                         const skua_write_options* options) {
  return run_blocking(client, Effect::kWrites, [&](auto&& run) {
    return skua::c::with_write(Method::kExpire, table, key, {.ttl_ns = ttl_ns}, options, run);
  });
}

skua_result* skua_patch(skua_client* client, const char* table, skua_bytes key, const skua_field* fields,
                        size_t field_count, bool create_if_missing, const skua_write_options* options) {
  return run_blocking(client, Effect::kWrites, [&](auto&& run) {
    return skua::c::with_patch(table, key, {fields, field_count, create_if_missing}, options, run);
  });
}

skua_result* skua_multi_get(skua_client* client, const char* table, const skua_bytes* keys, size_t key_count,
                            const skua_read_options* options) {
  return run_blocking(client, Effect::kReads,
                      [&](auto&& run) { return skua::c::with_multi_get(table, keys, key_count, options, run); });
}

skua_result* skua_scan(skua_client* client, const char* table, const skua_scan_range* range,
                       const skua_read_options* options) {
  return run_blocking(client, Effect::kReads,
                      [&](auto&& run) { return skua::c::with_scan(table, range, options, run); });
}

skua_result* skua_batch_run(skua_client* client, const char* table, const skua_batch* batch,
                            const skua_write_options* options) {
  return run_blocking(client, Effect::kWrites,
                      [&](auto&& run) { return skua::c::with_batch(table, batch, options, run); });
}
