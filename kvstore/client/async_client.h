// AsyncClient: the client library's core, for programs that poll.
//
//   auto client = AsyncClient::create({.control_address = "10.0.0.1:7400"});
//   (*client)->get("users", "ada", {}, [](GetResult&& result) { ... result.value.bytes() ... });
//   while (...) (*client)->poll(std::chrono::milliseconds(10));
//
// Verbs: get, put, remove, patch, add, append, expire, batch, multi_get, scan (client_calls.h).
//
// Acceptance. If a submitting call returns OK, its callback runs exactly once, from inside a later poll() or, with
// CANCELLED, from the destructor. If the call returns an error, the callback never runs. Errors: INVALID_ARGUMENT
// (names the limit), RESOURCE_EXHAUSTED (operations_max), CANCELLED (the client is closing). Table, key, fields
// and batch are copied; they need to live for the call only.
//
// Deadlines. Each operation has a deadline, counted from its submission. It covers everything: finding the cluster,
// opening sessions, every attempt. The deadline holds even if nothing listens at any of the addresses.
//
// Retries. Operations are repeated until the deadline, whatever made the earlier attempts fail. All attempts of a write
// carry the same number, so that the write takes effect once. The write fails with may_have_been_applied if the
// deadline passed and the client does not know whether an attempt was executed. Without ClientOptions::exactly_once a
// write is repeated only if it certainly was not executed.
//
// Callbacks may submit operations, and keep or drop results. They must not destroy the client or call poll().
#ifndef SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_H_
#define SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/types.h"

namespace skua::kv {

/// Thread: the one that made the client, or the last that called adopt_thread(). post() may be called on any thread.
/// Use by another thread is reported and ends the process. Results must be destroyed before the client.
class AsyncClient : public ClientCalls<AsyncClient> {
 public:
  /// Connects to nothing yet. INVALID_ARGUMENT: an option is out of range. FAILED_PRECONDITION: a certificate cannot be
  /// used. RESOURCE_EXHAUSTED: no memory for the
  /// receive buffers. Also the errors of options.make_transport.
  static absl::StatusOr<std::unique_ptr<AsyncClient>> create(ClientOptions options);
  /// Ends all operations in flight: their callbacks run with CANCELLED.
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  /// Optional: polls until the shard map is here and a session with the primary of each of the table's shards is open.
  /// Then the first operations are as fast as later ones, and a wrong address or table name is found early.
  /// DEADLINE_EXCEEDED says what is missing. Two errors end the call before the time is up: UNAVAILABLE (nobody listens
  /// at the control plane's address), FAILED_PRECONDITION (another program listens there, or the control plane refuses
  /// this client). INVALID_ARGUMENT: `timeout` is above one hour. Callbacks of other operations may run meanwhile.
  [[nodiscard]] absl::Status warm_up(std::string_view table, std::chrono::nanoseconds timeout);

  /// The number of the shard that holds the key. Nothing: the client does not know the table yet. For programs that
  /// group keys by shards: all keys of a batch are in one. A table that is made anew may have other shards.
  [[nodiscard]] std::optional<uint32_t> shard_of(std::string_view table, std::string_view key);

  /// What the verbs come to: get(), put() and so on of ClientCalls, with a callback as the last argument.
  [[nodiscard]] absl::Status run(const GetCall& call, GetCallback done);
  [[nodiscard]] absl::Status run(const PlainGetCall& call, const GetFunction& done);
  [[nodiscard]] absl::Status run(WriteCall&& call, WriteCallback done);
  [[nodiscard]] absl::Status run(const BatchCall& call, BatchCallback done);
  [[nodiscard]] absl::Status run(const MultiGetCall& call, MultiGetCallback done);
  [[nodiscard]] absl::Status run(const ScanCall& call, ScanCallback done);

  /// Does the client's work and runs callbacks. If there is nothing to do, it spins for up to ClientOptions::spin and
  /// then sleeps, for at most `max_wait` in all. May return earlier. Returns how many callbacks ran.
  size_t poll(std::chrono::nanoseconds max_wait);
  /// poll() without waiting.
  size_t poll() { return poll(std::chrono::nanoseconds(0)); }

  // For programs that sleep in an event loop of their own, over other descriptors as well. Make the client with
  // ClientOptions::spin 0.
  //
  //   for (;;) {
  //     client->poll();
  //     const auto longest = client->begin_wait();
  //     if (!longest) continue;                          // there is work: poll again
  //     sleep in epoll, for at most *longest, until client->wait_fd() or another descriptor is readable
  //     client->end_wait();
  //   }
  //
  // Between begin_wait() and end_wait() nothing but post() may be called (checked for poll() and for operations).
  // Results and their views must not be destroyed in between, either: they give receive memory back to the client.

  /// Readable while there is something to poll for, between begin_wait() and end_wait(). It stays the same and belongs
  /// to the client; others must not read it. -1: the transport has no such descriptor (DPDK, verbs). Then begin_wait()
  /// says 50 us at most.
  [[nodiscard]] int wait_fd() const;
  /// How long the caller may sleep. Nothing: there is work, poll() first, and do not call end_wait().
  [[nodiscard]] std::optional<std::chrono::nanoseconds> begin_wait();
  /// Call it after the sleep, before everything else.
  void end_wait();

  /// Accepted operations whose callback has not run yet.
  [[nodiscard]] size_t in_flight() const;
  [[nodiscard]] const ClientCounters& counters() const;

  /// Runs `task` inside a poll(); wakes a poll() that sleeps. False if 4,096 tasks wait already. Thread: any, while the
  /// client lives.
  [[nodiscard]] bool post(absl::AnyInvocable<void()>&& task);
  /// Makes the calling thread the owner of the client. Only while no other thread uses the client.
  void adopt_thread();

  struct Impl;
  /// For the library and its tests.
  explicit AsyncClient(std::unique_ptr<Impl> impl);

 private:
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_H_
