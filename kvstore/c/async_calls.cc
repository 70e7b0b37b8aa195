// Operations of polled clients.
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "kvstore/c/calls.h"
#include "kvstore/c/client.h"
#include "kvstore/c/loans.h"
#include "kvstore/c/result.h"

namespace skua::c {
namespace {

/// What a client calls when an operation has ended: the caller's function. Small enough that it needs no memory of its
/// own.
struct Done {
  skua_callback function;
  void* context;

  template <typename Result>
  void operator()(Result&& result) const {
    skua_result lent;
    const absl::Status status = without_exceptions([&] {
      lend(result, lent);
      return absl::OkStatus();
    });
    constexpr bool kIsWrite = std::is_base_of_v<kv::WriteResult, std::remove_cvref_t<Result>>;
    if (!status.ok()) tell_no_memory(kIsWrite, lent);
    lent.is_lent = true;
    function(context, &lent);
  }
};
static_assert(sizeof(Done) <= 2 * sizeof(void*) && std::is_trivially_copyable_v<Done>);

[[gnu::cold, gnu::noinline]] void end_failed_get(const Done& done, kv::GetResult& result) {
  done(result);
}

/// The callback of a GET. One that went well takes few instructions: its result owns nothing, so that it needs no
/// destructor, and the caller's function may be the last that is called here.
void end_get(kv::GetFunction::Any function, void* context, kv::GetResult&& result) {
  const auto callback = reinterpret_cast<skua_callback>(function);
  if (!result.ok()) [[unlikely]] {
    return end_failed_get({callback, context}, result);
  }
  alignas(skua_result) std::byte memory[sizeof(skua_result)];
  callback(context, new (memory) skua_result(result));
}

kv::GetFunction get_function(const Done& done) {
  return {end_get, reinterpret_cast<kv::GetFunction::Any>(done.function), done.context};
}

[[gnu::cold, gnu::noinline]] absl::Status why_refused(const skua_client* client) {
  absl::Status status = check_submit(client);
  return status.ok() ? absl::InvalidArgumentError("callback must not be NULL") : status;
}

/// `make_call(run)` is one of the functions of calls.h.
template <typename MakeCall>
skua_code submit(skua_client* client, const Done& done, skua_error* error, MakeCall make_call) noexcept {
  return report(error, without_exceptions([&] {
                  if (!may_submit(client) || done.function == nullptr) [[unlikely]] {
                    return why_refused(client);
                  }
                  return make_call([&](auto&& call) {
                    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(call)>, kv::PlainGetCall>) {
                      return client->polled->run(call, get_function(done));
                    } else {
                      return client->polled->run(std::forward<decltype(call)>(call), done);
                    }
                  });
                }));
}

/// PUT and APPEND of lent memory.
skua_code submit_lent(skua_client* client, kv::Method method, const char* table, skua_bytes key, skua_bytes value,
                      LentMemory&& lent, const skua_write_options* options, const Done& done,
                      skua_error* error) noexcept {
  if (lent.has_no_release()) return report(error, without_exceptions([] { return is_null("release"); }));
  return submit(client, done, error, [&](auto&& run) {
    return with_write(method, table, key, {.value = value}, options, [&](kv::WriteCall&& call) {
      call.value = lent.hand_over(call.value.bytes(), *client);
      return run(std::move(call));
    });
  });
}

}  // namespace
}  // namespace skua::c

using skua::c::submit;
using skua::c::submit_lent;
using skua::kv::Method;

skua_code skua_async_get(skua_client* client, const char* table, skua_bytes key, const skua_read_options* options,
                         skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error,
                [&](auto&& run) { return skua::c::with_get<skua::kv::PlainGetCall>(table, key, options, run); });
}

skua_code skua_async_put(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                         const skua_write_options* options, skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, [&](auto&& run) {
    return skua::c::with_write(Method::kPut, table, key, {.value = value}, options, run);
  });
}

skua_code skua_async_remove(skua_client* client, const char* table, skua_bytes key, const skua_write_options* options,
                            skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error,
                [&](auto&& run) { return skua::c::with_write(Method::kDelete, table, key, {}, options, run); });
}

skua_code skua_async_add(skua_client* client, const char* table, skua_bytes key, int64_t delta,
                         const skua_write_options* options, skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, [&](auto&& run) {
    return skua::c::with_write(Method::kAdd, table, key, {.delta = delta}, options, run);
  });
}

skua_code skua_async_append(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                            const skua_write_options* options, skua_callback callback, void* context,
                            skua_error* error) {
  return submit(client, {callback, context}, error, [&](auto&& run) {
    return skua::c::with_write(Method::kAppend, table, key, {.value = bytes}, options, run);
  });
}

skua_code skua_async_expire(skua_client* client, const char* table, skua_bytes key, int64_t ttl_ns,
                            const skua_write_options* options, skua_callback callback, void* context,
                            skua_error* error) {
  return submit(client, {callback, context}, error, [&](auto&& run) {
    return skua::c::with_write(Method::kExpire, table, key, {.ttl_ns = ttl_ns}, options, run);
  });
}

skua_code skua_async_patch(skua_client* client, const char* table, skua_bytes key, const skua_field* fields,
                           size_t field_count, bool create_if_missing, const skua_write_options* options,
                           skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, [&](auto&& run) {
    return skua::c::with_patch(table, key, {fields, field_count, create_if_missing}, options, run);
  });
}

skua_code skua_async_multi_get(skua_client* client, const char* table, const skua_bytes* keys, size_t key_count,
                               const skua_read_options* options, skua_callback callback, void* context,
                               skua_error* error) {
  return submit(client, {callback, context}, error,
                [&](auto&& run) { return skua::c::with_multi_get(table, keys, key_count, options, run); });
}

skua_code skua_async_scan(skua_client* client, const char* table, const skua_scan_range* range,
                          const skua_read_options* options, skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error,
                [&](auto&& run) { return skua::c::with_scan(table, range, options, run); });
}

skua_code skua_async_batch_run(skua_client* client, const char* table, const skua_batch* batch,
                               const skua_write_options* options, skua_callback callback, void* context,
                               skua_error* error) {
  return submit(client, {callback, context}, error,
                [&](auto&& run) { return skua::c::with_batch(table, batch, options, run); });
}

skua_code skua_async_put_lend(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                              skua_release release, void* release_context, const skua_write_options* options,
                              skua_callback callback, void* context, skua_error* error) {
  return submit_lent(client, Method::kPut, table, key, value, {release, release_context}, options, {callback, context},
                     error);
}

skua_code skua_async_append_lend(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                                 skua_release release, void* release_context, const skua_write_options* options,
                                 skua_callback callback, void* context, skua_error* error) {
  return submit_lent(client, Method::kAppend, table, key, bytes, {release, release_context}, options,
                     {callback, context}, error);
}
