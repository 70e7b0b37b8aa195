// Clients of the C library. A blocking one is a kv::Client. A polled one is a kv::AsyncClient, with the checks that
// keep a program's mistakes from ending the process.
#ifndef SKUA_KVSTORE_C_CLIENT_H_
#define SKUA_KVSTORE_C_CLIENT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "include/skua/skua.h"
#include "kvstore/c/loans.h"
#include "kvstore/c/origin.h"
#include "kvstore/c/renewal.h"
#include "kvstore/c/result.h"
#include "kvstore/client/async_client.h"
#include "kvstore/client/client.h"

namespace skua::c {

/// What a polled client is doing. Each state but kIdle forbids some calls.
enum class Activity : uint8_t {
  kIdle,
  kPolling,    ///< callbacks may be running: they may submit, and nothing else
  kWaiting,    ///< between skua_begin_wait() and skua_end_wait()
  kReleasing,  ///< a program's release function is running
  kClosing,
  kBlocking,  ///< this is no polled client
};

}  // namespace skua::c

struct skua_client {
  // Of a polled client. Outlives `polled`, whose writes have loans.
  skua::c::Loans loans;

  // One of the two.
  std::unique_ptr<skua::kv::Client> blocking;
  std::unique_ptr<skua::kv::AsyncClient> polled;

  std::shared_ptr<skua::c::Renewal> renewal;  // null: the certificate is not renewed

  uint32_t fork_count = 0;  // of the process that made the client

  skua::c::Activity activity = skua::c::Activity::kBlocking;

  // Of a polled client.
  uint64_t owner = 0;  // a this_thread_number()
  int64_t timeout_ns = 0;
};

namespace skua::c {

/// A client of the C library over one of the C++ library.
[[nodiscard]] std::unique_ptr<skua_client> make_blocking(std::unique_ptr<kv::Client> client);
[[nodiscard]] std::unique_ptr<skua_client> make_polled(std::unique_ptr<kv::AsyncClient> client, int64_t timeout_ns);

/// False: made before fork(). The client's threads and sockets are the parent's.
[[nodiscard]] inline bool is_made_here(const skua_client& client) noexcept {
  return client.fork_count == fork_count();
}

/// INVALID_ARGUMENT: null, or made before fork().
[[nodiscard]] absl::Status check_process(const skua_client* client);
/// INVALID_ARGUMENT: null, made before fork(), or no blocking client.
[[nodiscard]] absl::Status check_blocking(const skua_client* client);
/// Whether the program may submit operations now, also from callbacks. INVALID_ARGUMENT: null, made before fork(), no
/// polled client, another thread than the owner's, inside a release function, or between begin_wait and end_wait.
/// CANCELLED: the client is closing.
[[nodiscard]] inline absl::Status check_submit(const skua_client* client);
/// True if check_submit() would be OK. A fast check for the usual case.
[[nodiscard]] inline bool may_submit(const skua_client* client) noexcept;
/// Whether the program may poll or wait now: the same as check_submit(), and INVALID_ARGUMENT inside callbacks.
[[nodiscard]] absl::Status check_poll(const skua_client* client);

/// The slow part of check_submit(): the reason in full, or OK.
[[nodiscard]] absl::Status why_no_submit(const skua_client* client);

inline bool may_submit(const skua_client* client) noexcept {
  return client != nullptr && client->activity <= Activity::kPolling && is_made_here(*client) &&
         is_this_thread(client->owner);
}

inline absl::Status check_submit(const skua_client* client) {
  return may_submit(client) ? absl::OkStatus() : why_no_submit(client);
}

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_CLIENT_H_
