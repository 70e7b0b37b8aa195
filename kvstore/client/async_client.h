// AsyncClient: the client library's core, for programs that poll.
//
//   auto client = AsyncClient::create({.control_address = "10.0.0.1:7400"});
//   (*client)->get("users", "ada", {}, [](GetResult&& result) { ... result.value.bytes() ... });
//   while (...) (*client)->poll(std::chrono::milliseconds(10));
//
// Acceptance. If a submitting call returns OK, its callback runs exactly once, from inside a later poll() or, with
// CANCELLED, from the destructor. If the call returns an error, the callback never runs. Errors: INVALID_ARGUMENT
// (names the limit), RESOURCE_EXHAUSTED (operations_max), CANCELLED (the client is closing). Table, key and fields are
// copied; they need to live for the call only.
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
#include <span>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/types.h"

namespace skua::kv {

/// Thread: the one that made the client, or the last that called adopt_thread(). post() may be called on any thread.
/// Use by another thread is reported and ends the process. Results must be destroyed before the client.
class AsyncClient {
 public:
  /// Connects to nothing yet. INVALID_ARGUMENT: an option is out of range. RESOURCE_EXHAUSTED: no memory for the
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
  /// this client). Callbacks of other operations may run meanwhile.
  [[nodiscard]] absl::Status warm_up(std::string_view table, std::chrono::nanoseconds timeout);

  /// OK: the result has the value, as it was received. NOT_FOUND: no such key.
  [[nodiscard]] absl::Status get(std::string_view table, std::string_view key, const ReadOptions& options,
                                 GetCallback done);
  /// OK: the result's `version` is the key's new version. For conditions see WriteOptions.
  [[nodiscard]] absl::Status put(std::string_view table, std::string_view key, PutValue value,
                                 const WriteOptions& options, WriteCallback done);
  /// Deletes a key. NOT_FOUND: no such key. FAILED_PRECONDITION: `if_version`, and the key has another version.
  [[nodiscard]] absl::Status remove(std::string_view table, std::string_view key, const WriteOptions& options,
                                    WriteCallback done);
  /// Replaces or adds fields of a row, atomically and in one round trip. NOT_FOUND: no such key (unless
  /// create_if_missing). FAILED_PRECONDITION: the value is not a row, or `if_version` does not hold.
  [[nodiscard]] absl::Status patch(std::string_view table, std::string_view key, std::span<const FieldUpdate> fields,
                                   const PatchOptions& options, WriteCallback done);
  /// Adds `delta` to a counter. A counter is a value that is a decimal int64; a missing key counts as 0. OK: the
  /// result's `value` is the counter afterwards. FAILED_PRECONDITION: the value is not such a number. OUT_OF_RANGE: the
  /// sum is not an int64. The key keeps its time to live.
  [[nodiscard]] absl::Status add(std::string_view table, std::string_view key, int64_t delta,
                                 const WriteOptions& options, WriteCallback done);
  /// Appends bytes to a value; a missing key counts as an empty value. INVALID_ARGUMENT in the result: the value would
  /// be larger than a value may be. The key keeps its time to live.
  [[nodiscard]] absl::Status append(std::string_view table, std::string_view key, PutValue bytes,
                                    const WriteOptions& options, WriteCallback done);
  /// Sets the key's time to live: the key vanishes when `ttl` has passed. 0: never. `options.ttl` is ignored.
  /// NOT_FOUND: no such key.
  [[nodiscard]] absl::Status expire(std::string_view table, std::string_view key, std::chrono::nanoseconds ttl,
                                    const WriteOptions& options, WriteCallback done);
  /// Applies all operations of `batch`, or none (batch.h). `batch` is copied before the call returns. INVALID_ARGUMENT
  /// in the result: the keys are in different shards.
  [[nodiscard]] absl::Status batch(std::string_view table, const Batch& batch, const BatchOptions& options,
                                   BatchCallback done);
  /// Reads 1 to 1,024 keys in parallel, not as of one moment. One entry of the result for each key.
  [[nodiscard]] absl::Status multi_get(std::string_view table, std::span<const std::string_view> keys,
                                       const ReadOptions& options, MultiGetCallback done);
  /// Reads up to `range.limit` rows in key order, over all shards. Ends early, with has_more, when the rows have 32
  /// MiB. For which rows are of one moment see ScanResult.
  [[nodiscard]] absl::Status scan(std::string_view table, const ScanRange& range, const ReadOptions& options,
                                  ScanCallback done);

  /// Does the client's work and runs callbacks. If there is nothing to do, it spins for up to ClientOptions::spin and
  /// then sleeps, for at most `max_wait` in all. May return earlier. Returns how many callbacks ran.
  size_t poll(std::chrono::nanoseconds max_wait);
  /// poll() without waiting.
  size_t poll() { return poll(std::chrono::nanoseconds(0)); }

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
