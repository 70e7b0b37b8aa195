// Operations of blocking clients.
#include <new>
#include <type_traits>
#include <utility>

#include "kvstore/c/calls.h"
#include "kvstore/c/client.h"
#include "kvstore/c/result.h"

namespace skua::c {
namespace {

/// Returns a result. `make_call` is from calls.h.
template <typename MakeCall>
skua_result* run_blocking(skua_client* client, const MakeCall& make_call) noexcept {
  // Before the call: once the operation has been done, its result must not be lost.
  OwnedResult* const result = new (std::nothrow) OwnedResult();
  if (result == nullptr) return nullptr;
  bool may_have_written = false;
  const absl::Status status = without_exceptions([&] {
    absl::Status usable = check_blocking(client);
    if (usable.ok()) {
      usable = make_call([&](auto&& call) {
        may_have_written = kIsWrite<typename std::remove_cvref_t<decltype(call)>::Result>;
        take(client->blocking->run(std::forward<decltype(call)>(call)), *result);
        return absl::OkStatus();
      });
    }
    if (!usable.ok()) refuse(usable, *result);
    return absl::OkStatus();
  });
  if (!status.ok()) tell_no_memory(may_have_written, *result);
  return result;
}

}  // namespace
}  // namespace skua::c

using namespace skua::c;
using skua::kv::Method;

skua_result* skua_get(skua_client* client, const char* table, skua_bytes key, const skua_read_options* options) {
  return run_blocking(client, get_call<skua::kv::GetCall>(table, key, options));
}

skua_result* skua_put(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                      const skua_write_options* options) {
  return run_blocking(client, write_call<Method::kPut>(table, key, {.value = value}, options));
}

skua_result* skua_remove(skua_client* client, const char* table, skua_bytes key, const skua_write_options* options) {
  return run_blocking(client, write_call<Method::kDelete>(table, key, {}, options));
}

skua_result* skua_add(skua_client* client, const char* table, skua_bytes key, int64_t delta,
                      const skua_write_options* options) {
  return run_blocking(client, write_call<Method::kAdd>(table, key, {.delta = delta}, options));
}

skua_result* skua_append(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                         const skua_write_options* options) {
  return run_blocking(client, write_call<Method::kAppend>(table, key, {.value = bytes}, options));
}

skua_result* skua_expire(skua_client* client, const char* table, skua_bytes key, int64_t ttl_ns,
                         const skua_write_options* options) {
  return run_blocking(client, write_call<Method::kExpire>(table, key, {.ttl_ns = ttl_ns}, options));
}

skua_result* skua_patch(skua_client* client, const char* table, skua_bytes key, const skua_field* fields,
                        size_t field_count, bool create_if_missing, const skua_write_options* options) {
  return run_blocking(client, patch_call(table, key, {fields, field_count, create_if_missing}, options));
}

skua_result* skua_multi_get(skua_client* client, const char* table, const skua_bytes* keys, size_t key_count,
                            const skua_read_options* options) {
  return run_blocking(client, multi_get_call(table, keys, key_count, options));
}

skua_result* skua_scan(skua_client* client, const char* table, const skua_scan_range* range,
                       const skua_read_options* options) {
  return run_blocking(client, scan_call(table, range, options));
}

skua_result* skua_batch_run(skua_client* client, const char* table, const skua_batch* batch,
                            const skua_write_options* options) {
  return run_blocking(client, batch_call(table, batch, options));
}
