// AsyncClient: the client library's core, for programs that poll.
//
//   auto client = AsyncClient::create({.control_address = "10.0.0.1:7400"});
//   (*client)->get("users", "ada", {}, [](GetResult&& result) { ... result.value.bytes() ... });
//   while (...) (*client)->poll(std::chrono::milliseconds(10));
//
// Acceptance. A submitting call returns OK and its callback runs exactly once, from inside a later
// poll() (or from the destructor, with CANCELLED); or it returns an error and the callback never
// runs: INVALID_ARGUMENT (a limit, which one), RESOURCE_EXHAUSTED (operations_max), CANCELLED (the
// client is closing). Table, key and fields are copied and need to live for the call only.
//
// Deadlines. Each operation has one, counted from its submission, over everything: finding the
// cluster, opening sessions, every attempt. It holds with nothing listening anywhere.
//
// Retries. Operations are repeated until the deadline whatever happens: a write under the number of its first attempt, so
// that it takes effect once. It fails with may_have_been_applied if the deadline passed and an attempt's fate is unknown.
// Without ClientOptions::exactly_once a write is repeated only if it certainly did not run.
//
// Callbacks may submit, keep or drop results, but not destroy the client nor call poll().
#ifndef SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_H_
#define SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_H_

#include <chrono>
#include <memory>
#include <span>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/types.h"

namespace skua::kv {

/// Thread: the one that made it, or the last that called adopt_thread(); only post() is for any.
/// Another thread's use is reported and ends the process. Results must be gone before the client.
class AsyncClient {
 public:
  /// Connects to nothing yet. INVALID_ARGUMENT: options; RESOURCE_EXHAUSTED: no memory for the
  /// receive buffers.
  static absl::StatusOr<std::unique_ptr<AsyncClient>> create(ClientOptions options);
  /// Ends what is in flight with CANCELLED.
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  /// Optional: polls until the shard map is here and a session with each owner of the table's shards
  /// is open, so that the first operations are no slower than later ones, and a wrong address or
  /// table name is found early. DEADLINE_EXCEEDED, saying what is missing. Before the time is up: UNAVAILABLE,
  /// nobody listens at the control plane's address; FAILED_PRECONDITION, somebody else does, or refuses this client.
  [[nodiscard]] absl::Status warm_up(std::string_view table, std::chrono::nanoseconds timeout);

  /// OK: the value, as it was received. NOT_FOUND: no such key.
  [[nodiscard]] absl::Status get(std::string_view table, std::string_view key, const ReadOptions& options,
                                 GetCallback done);
  /// OK: `version` is the key's new one. See WriteOptions for conditions.
  [[nodiscard]] absl::Status put(std::string_view table, std::string_view key, PutValue value,
                                 const WriteOptions& options, WriteCallback done);
  /// NOT_FOUND: no such key, and nothing to remove. FAILED_PRECONDITION: `if_version`, and the key has another one.
  [[nodiscard]] absl::Status remove(std::string_view table, std::string_view key, const WriteOptions& options,
                                    WriteCallback done);
  /// Replaces or adds fields of a row, atomically and in one round trip. NOT_FOUND: no such key
  /// (unless create_if_missing); FAILED_PRECONDITION: the value is not a row.
  [[nodiscard]] absl::Status patch(std::string_view table, std::string_view key, std::span<const FieldUpdate> fields,
                                   const PatchOptions& options, WriteCallback done);
  /// Adds to a counter, a value that is a decimal int64; a missing key counts from 0. OK: `value` is the counter afterwards.
  /// FAILED_PRECONDITION: the value is no number. OUT_OF_RANGE: the sum is none. The key keeps its time to live.
  [[nodiscard]] absl::Status add(std::string_view table, std::string_view key, int64_t delta,
                                 const WriteOptions& options, WriteCallback done);
  /// Appends to a value; a missing key is an empty one. INVALID_ARGUMENT: the result would be larger than a value can be.
  /// The key keeps its time to live.
  [[nodiscard]] absl::Status append(std::string_view table, std::string_view key, PutValue bytes,
                                    const WriteOptions& options, WriteCallback done);
  /// The key vanishes after `ttl` from now; 0: never. `options.ttl` is not looked at. NOT_FOUND: no such key.
  [[nodiscard]] absl::Status expire(std::string_view table, std::string_view key, std::chrono::nanoseconds ttl,
                                    const WriteOptions& options, WriteCallback done);
  /// All operations or none (batch.h), copied before the call returns. INVALID_ARGUMENT through the callback: the keys are
  /// in different shards.
  [[nodiscard]] absl::Status batch(std::string_view table, const Batch& batch, const BatchOptions& options,
                                   BatchCallback done);
  /// 1 to 1,024 keys, read in parallel and not as of one moment; one result for each.
  [[nodiscard]] absl::Status multi_get(std::string_view table, std::span<const std::string_view> keys,
                                       const ReadOptions& options, MultiGetCallback done);
  /// Up to `range.limit` rows in key order over all shards. Ends early, with has_more, after 32 MiB. What of it is as of one
  /// moment: ScanResult.
  [[nodiscard]] absl::Status scan(std::string_view table, const ScanRange& range, const ReadOptions& options,
                                  ScanCallback done);

  /// Does what there is to do and runs callbacks; with nothing to do it spins for a while
  /// (ClientOptions::spin) and then sleeps, for at most `max_wait` in all. May return earlier.
  /// Returns how many callbacks ran.
  size_t poll(std::chrono::nanoseconds max_wait);
  /// The same without waiting.
  size_t poll() { return poll(std::chrono::nanoseconds(0)); }

  /// Operations accepted whose callback has not run.
  [[nodiscard]] size_t in_flight() const;
  [[nodiscard]] const ClientCounters& counters() const;

  /// Runs `task` inside a poll(), ending a wait. False if 4,096 tasks wait already. Thread: any,
  /// while the client lives.
  [[nodiscard]] bool post(absl::AnyInvocable<void()>&& task);
  /// Makes the calling thread the owner. Only while no other thread uses the client.
  void adopt_thread();

  struct Impl;
  /// For the library and its tests.
  explicit AsyncClient(std::unique_ptr<Impl> impl);

 private:
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_ASYNC_CLIENT_H_
