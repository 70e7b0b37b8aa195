#include "kvstore/c/client.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "control/proto/grpc_log.h"
#include "kvstore/c/entry_point.h"
#include "kvstore/c/options.h"
#include "kvstore/c/transports.h"

namespace skua::c {

namespace {

std::unique_ptr<skua_client> make_client() {
  begin_to_count_forks();
  auto made = std::make_unique<skua_client>();
  made->fork_count = fork_count();
  return made;
}

}  // namespace

std::unique_ptr<skua_client> make_blocking(std::unique_ptr<kv::Client> client) {
  std::unique_ptr<skua_client> made = make_client();
  made->blocking = std::move(client);
  return made;
}

std::unique_ptr<skua_client> make_polled(std::unique_ptr<kv::AsyncClient> client, int64_t timeout_ns) {
  std::unique_ptr<skua_client> made = make_client();
  made->polled = std::move(client);
  made->activity = Activity::kIdle;
  made->owner = this_thread_number();
  made->timeout_ns = timeout_ns;
  return made;
}

absl::Status check_process(const skua_client* client) {
  if (client == nullptr) return is_null("client");
  if (is_made_here(*client)) return absl::OkStatus();
  return absl::InvalidArgumentError("this client was made before fork(): make one in each process");
}

absl::Status check_blocking(const skua_client* client) {
  absl::Status status = check_process(client);
  if (!status.ok()) return status;
  if (client->blocking != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "this client is polled: call skua_async_...(), or skua_client_create() a client that blocks");
}

absl::Status why_no_submit(const skua_client* client) {
  absl::Status status = check_process(client);
  if (!status.ok()) return status;
  if (client->activity == Activity::kClosing) return absl::CancelledError("the client is closing");
  if (client->activity == Activity::kReleasing) {
    return absl::InvalidArgumentError("a release function must not use the client whose write it belongs to");
  }
  if (client->polled == nullptr) {
    return absl::InvalidArgumentError("this client blocks: for callbacks make one by skua_client_create_polled()");
  }
  if (client->owner != this_thread_number()) {
    return absl::InvalidArgumentError("this client belongs to another thread (see skua_adopt_thread)");
  }
  if (client->activity == Activity::kWaiting) {
    return absl::InvalidArgumentError("the client waits: call skua_end_wait() first");
  }
  return absl::OkStatus();
}

absl::Status check_poll(const skua_client* client) {
  absl::Status status = check_submit(client);
  if (status.ok() && client->activity == Activity::kPolling) {
    return absl::InvalidArgumentError("a callback must not poll, wait or end its client");
  }
  return status;
}

namespace {

/// Blocks the calling thread's signals while it lives. Threads that are made meanwhile have them blocked for good, as
/// have the threads that those make: a program's handlers run on the program's own threads. Faults and profiles of a
/// thread are that thread's, and are left.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&blocked, own);
    pthread_sigmask(SIG_BLOCK, &blocked, &former_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t former_;
};

/// Null: nobody asked for it.
absl::StatusOr<std::shared_ptr<Renewal>> renewal_of(const skua_options& options) {
  if (!options.renews_certificate) return std::shared_ptr<Renewal>();
  return Renewal::of(options.client);
}

/// Bad options of the client are refused before a device is opened.
absl::Status choose_transport(skua_options& options) {
  if (absl::Status status = kv::check_options(options.client); !status.ok()) return status;
  absl::StatusOr<kv::TransportMaker> maker = transport_maker(options.transport);
  if (!maker.ok()) return maker.status();
  options.client.make_transport = *std::move(maker);
  return absl::OkStatus();
}

/// `Client`: kv::Client or kv::AsyncClient.
template <typename Client>
absl::Status create(const skua_options* given, std::unique_ptr<skua_client>& to) {
  constexpr bool kIsPolled = std::is_same_v<Client, kv::AsyncClient>;
  skua_options options = given == nullptr ? skua_options() : *given;
  if (!options.keeps_grpc_log) control::silence_grpc_log_of_process();
  if (kIsPolled && !options.has_spin) options.client.spin = std::chrono::nanoseconds(0);
  const SignalsBlocked blocked;
  absl::StatusOr<std::shared_ptr<Renewal>> renewal = renewal_of(options);
  if (!renewal.ok()) return renewal.status();
  if (absl::Status status = choose_transport(options); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::create(options.client);
  if (!client.ok()) return client.status();
  if constexpr (kIsPolled) {
    to = make_polled(*std::move(client), options.client.timeout.count());
  } else {
    to = make_blocking(*std::move(client));
  }
  to->renewal = *std::move(renewal);
  return absl::OkStatus();
}

/// Null: `error` says why.
template <typename Client>
skua_client* create_or_tell(const skua_options* given, skua_error* error) noexcept {
  std::unique_ptr<skua_client> made;
  report(error, without_exceptions([&] { return create<Client>(given, made); }));
  return made.release();
}

absl::Status poll(skua_client* client, int64_t max_wait_ns, size_t* callbacks) {
  if (callbacks != nullptr) *callbacks = 0;
  absl::Status status = check_poll(client);
  if (!status.ok()) return status;
  if (max_wait_ns < 0) return absl::InvalidArgumentError("max_wait_ns must not be negative");
  client->activity = Activity::kPolling;
  const absl::Cleanup polled = [client] { client->activity = Activity::kIdle; };
  const size_t ran = client->polled->poll(std::chrono::nanoseconds(max_wait_ns));
  if (callbacks != nullptr) *callbacks = ran;
  return status;
}

absl::Status warm_up(skua_client* client, const char* table, int64_t timeout_ns) {
  absl::Status status = check_poll(client);
  if (status.ok()) status = check_not_null("table", table);
  if (!status.ok()) return status;
  if (timeout_ns < 0) return absl::InvalidArgumentError("timeout_ns must not be negative");
  client->activity = Activity::kPolling;
  const absl::Cleanup polled = [client] { client->activity = Activity::kIdle; };
  return client->polled->warm_up(table, std::chrono::nanoseconds(timeout_ns == 0 ? client->timeout_ns : timeout_ns));
}

/// For calls that any thread and any activity may make.
bool is_polled_here(const skua_client* client) noexcept {
  return client != nullptr && is_made_here(*client) && client->polled != nullptr;
}

/// For calls of the owner's thread while the client may wait.
bool is_owned_here(const skua_client* client) noexcept {
  return is_polled_here(client) && client->owner == this_thread_number();
}

absl::Status close_polled(skua_client& client) {
  if (client.activity == Activity::kWaiting) {
    if (client.owner != this_thread_number()) return check_submit(&client);
    client.polled->end_wait();
    client.activity = Activity::kIdle;
  }
  absl::Status status = check_poll(&client);
  if (!status.ok()) return status;
  client.activity = Activity::kClosing;
  client.polled.reset();
  return status;
}

}  // namespace
}  // namespace skua::c

using skua::c::Activity;
using skua::c::without_exceptions;

skua_client* skua_client_create(const skua_options* options, skua_error* error) {
  return skua::c::create_or_tell<skua::kv::Client>(options, error);
}

skua_client* skua_client_create_polled(const skua_options* options, skua_error* error) {
  return skua::c::create_or_tell<skua::kv::AsyncClient>(options, error);
}

skua_code skua_client_destroy(skua_client* client) {
  if (client == nullptr) return SKUA_OK;
  // After fork() the client is the parent's: its sockets are open there, and its threads are not here to be joined. So
  // it stays in the child's memory.
  if (!skua::c::is_made_here(*client)) return SKUA_OK;
  // gRPC ends in a thread that it makes for that.
  const skua::c::SignalsBlocked blocked;
  const absl::Status status = without_exceptions(
      [&] { return client->blocking != nullptr ? absl::OkStatus() : skua::c::close_polled(*client); });
  if (status.ok()) delete client;
  return skua::c::code_of(status);
}

skua_code skua_certificate_trouble(const skua_client* client, skua_error* error) {
  return skua::c::report(error, without_exceptions([&] {
                           absl::Status status = skua::c::check_process(client);
                           return status.ok() && client->renewal != nullptr ? client->renewal->trouble() : status;
                         }));
}

skua_code skua_poll(skua_client* client, int64_t max_wait_ns, size_t* callbacks) {
  return skua::c::code_of(without_exceptions([&] { return skua::c::poll(client, max_wait_ns, callbacks); }));
}

skua_code skua_warm_up(skua_client* client, const char* table, int64_t timeout_ns, skua_error* error) {
  return skua::c::report(error, without_exceptions([&] { return skua::c::warm_up(client, table, timeout_ns); }));
}

size_t skua_in_flight(const skua_client* client) {
  return skua::c::is_owned_here(client) ? client->polled->in_flight() : 0;
}

int skua_wait_fd(const skua_client* client) {
  // Also while the client waits: programs add the descriptor to their loop when they like.
  return skua::c::is_owned_here(client) ? client->polled->wait_fd() : -1;
}

bool skua_begin_wait(skua_client* client, int64_t* longest_ns) {
  if (longest_ns == nullptr) return false;
  *longest_ns = 0;
  const absl::Status status = without_exceptions([&] {
    absl::Status usable = skua::c::check_poll(client);
    if (!usable.ok()) return usable;
    const auto longest = client->polled->begin_wait();
    if (!longest.has_value()) return absl::UnavailableError("");
    client->activity = Activity::kWaiting;
    *longest_ns = longest->count();
    return absl::OkStatus();
  });
  return status.ok();
}

skua_code skua_end_wait(skua_client* client) {
  return skua::c::code_of(without_exceptions([&] {
    if (!skua::c::is_owned_here(client) || client->activity != Activity::kWaiting) {
      return absl::InvalidArgumentError("");
    }
    client->activity = Activity::kIdle;
    client->polled->end_wait();
    return absl::OkStatus();
  }));
}

bool skua_post(skua_client* client, void (*task)(void* context), void* context) {
  const absl::Status status = without_exceptions([&] {
    if (!skua::c::is_polled_here(client) || task == nullptr) return absl::InvalidArgumentError("");
    const bool posted = client->polled->post([task, context] { task(context); });
    return posted ? absl::OkStatus() : absl::ResourceExhaustedError("");
  });
  return status.ok();
}

skua_code skua_adopt_thread(skua_client* client) {
  return skua::c::code_of(without_exceptions([&] {
    if (!skua::c::is_polled_here(client) || client->activity != Activity::kIdle) {
      return absl::InvalidArgumentError("");
    }
    client->owner = skua::c::this_thread_number();
    client->polled->adopt_thread();
    return absl::OkStatus();
  }));
}
