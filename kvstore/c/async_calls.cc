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
      take(std::as_const(result), lent);
      return absl::OkStatus();
    });
    if (!status.ok()) tell_no_memory(kIsWrite<std::remove_cvref_t<Result>>, lent);
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

/// `make_call` is from calls.h.
template <typename MakeCall>
skua_code submit(skua_client* client, const Done& done, skua_error* error, const MakeCall& make_call) noexcept {
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

/// PUT and APPEND of lent memory. `make_call` is write_call()'s.
template <typename MakeCall>
skua_code submit_lent(skua_client* client, const Done& done, skua_error* error, LentMemory&& lent,
                      const MakeCall& make_call) noexcept {
  if (lent.has_no_release()) return report(error, without_exceptions([] { return is_null("release"); }));
  return submit(client, done, error, [&](auto&& run) {
    return make_call([&](kv::WriteCall&& call) {
      call.value = lent.hand_over(call.value.bytes(), *client);
      return run(std::move(call));
    });
  });
}

}  // namespace
}  // namespace skua::c

using namespace skua::c;
using skua::kv::Method;

skua_code skua_async_get(skua_client* client, const char* table, skua_bytes key, const skua_read_options* options,
                         skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, get_call<skua::kv::PlainGetCall>(table, key, options));
}

skua_code skua_async_put(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                         const skua_write_options* options, skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, write_call<Method::kPut>(table, key, {.value = value}, options));
}

skua_code skua_async_remove(skua_client* client, const char* table, skua_bytes key, const skua_write_options* options,
                            skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, write_call<Method::kDelete>(table, key, {}, options));
}

skua_code skua_async_add(skua_client* client, const char* table, skua_bytes key, int64_t delta,
                         const skua_write_options* options, skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, write_call<Method::kAdd>(table, key, {.delta = delta}, options));
}

skua_code skua_async_append(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                            const skua_write_options* options, skua_callback callback, void* context,
                            skua_error* error) {
  return submit(client, {callback, context}, error, write_call<Method::kAppend>(table, key, {.value = bytes}, options));
}

skua_code skua_async_expire(skua_client* client, const char* table, skua_bytes key, int64_t ttl_ns,
                            const skua_write_options* options, skua_callback callback, void* context,
                            skua_error* error) {
  return submit(client, {callback, context}, error,
                write_call<Method::kExpire>(table, key, {.ttl_ns = ttl_ns}, options));
}

skua_code skua_async_patch(skua_client* client, const char* table, skua_bytes key, const skua_field* fields,
                           size_t field_count, bool create_if_missing, const skua_write_options* options,
                           skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error,
                patch_call(table, key, {fields, field_count, create_if_missing}, options));
}

skua_code skua_async_multi_get(skua_client* client, const char* table, const skua_bytes* keys, size_t key_count,
                               const skua_read_options* options, skua_callback callback, void* context,
                               skua_error* error) {
  return submit(client, {callback, context}, error, multi_get_call(table, keys, key_count, options));
}

skua_code skua_async_scan(skua_client* client, const char* table, const skua_scan_range* range,
                          const skua_read_options* options, skua_callback callback, void* context, skua_error* error) {
  return submit(client, {callback, context}, error, scan_call(table, range, options));
}

skua_code skua_async_batch_run(skua_client* client, const char* table, const skua_batch* batch,
                               const skua_write_options* options, skua_callback callback, void* context,
                               skua_error* error) {
  return submit(client, {callback, context}, error, batch_call(table, batch, options));
}

skua_code skua_async_put_lend(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                              skua_release release, void* release_context, const skua_write_options* options,
                              skua_callback callback, void* context, skua_error* error) {
  return submit_lent(client, {callback, context}, error, {release, release_context},
                     write_call<Method::kPut>(table, key, {.value = value}, options));
}

skua_code skua_async_append_lend(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                                 skua_release release, void* release_context, const skua_write_options* options,
                                 skua_callback callback, void* context, skua_error* error) {
  return submit_lent(client, {callback, context}, error, {release, release_context},
                     write_call<Method::kAppend>(table, key, {.value = bytes}, options));
}
