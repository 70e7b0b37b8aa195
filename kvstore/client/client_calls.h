// ClientCalls: the verbs of a client, declared once for all kinds of clients. Each verb fills a struct with what it was
// given (GetCall, WriteCall, ...) and passes the struct to the client's run():
//
//                                   run(GetCall) is
//   Client           get(t, k)      blocking: returns a ReadResult
//   AwaitableClient  get(t, k)      an object to be awaited: co_await gives a GetResult
//   AsyncClient      get(t, k, options, callback)      an acceptance; the callback gets the GetResult later
#ifndef SKUA_KVSTORE_CLIENT_CLIENT_CALLS_H_
#define SKUA_KVSTORE_CLIENT_CLIENT_CALLS_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "kvstore/client/types.h"
#include "kvstore/codec/methods.h"

namespace skua::kv {

class Batch;

// The arguments of one call each. Views and references: what they refer to must live until the client has accepted the
// call. `Result`: what the operation ends with, and `Callback`, who gets it.

struct GetCall {
  using Result = GetResult;
  using Callback = GetCallback;
  std::string_view table;
  std::string_view key;
  ReadOptions options;
};

/// GET for bindings of other languages, with fewer instructions. The table's name ends with a zero, and its length is
/// not needed if the operation had the same table before. The callback is a GetFunction. Only for clients that are
/// never given a table's name with a zero inside.
struct PlainGetCall {
  const char* table;
  std::string_view key;
  ReadOptions options;
};

/// PUT, DELETE, PATCH, ADD, APPEND, EXPIRE.
struct WriteCall {
  using Result = WriteResult;
  using Callback = WriteCallback;
  Method method;
  std::string_view table;
  std::string_view key;
  /// `ttl`: PUT, EXPIRE. `keep_ttl`: PUT. `mark`: PUT; its `row` also PATCH. `if_absent`: PUT, ADD, APPEND.
  WriteOptions options;
  PutValue value = {};                       ///< PUT, APPEND
  std::span<const FieldUpdate> fields = {};  ///< PATCH
  bool create_if_missing = false;            ///< PATCH
  int64_t delta = 0;                         ///< ADD
  bool count_fields = false;                 ///< PATCH
};

struct BatchCall {
  using Result = BatchResult;
  using Callback = BatchCallback;
  std::string_view table;
  const Batch& batch;
  BatchOptions options;
};

struct MultiGetCall {
  using Result = MultiGetResult;
  using Callback = MultiGetCallback;
  std::string_view table;
  std::span<const std::string_view> keys;
  ReadOptions options;
};

struct ScanCall {
  using Result = ScanResult;
  using Callback = ScanCallback;
  std::string_view table;
  ScanRange range;
  ReadOptions options;
};

/// Base of the kinds of clients. `Self::run(call, done...)` carries a call out. `done`: the callback of an AsyncClient;
/// other clients take none. What a verb returns is what run() returns. Thread: as Self says.
template <typename Self>
class ClientCalls {
 public:
  /// OK: the result has the value. NOT_FOUND: no such key.
  template <typename... Done>
  [[nodiscard]] auto get(std::string_view table, std::string_view key, const ReadOptions& options = {},
                         Done&&... done) {
    return self().run(GetCall{table, key, options}, std::forward<Done>(done)...);
  }

  /// OK: the result's `version` is the key's new version. For conditions see WriteOptions.
  template <typename... Done>
  [[nodiscard]] auto put(std::string_view table, std::string_view key, PutValue value, const WriteOptions& options = {},
                         Done&&... done) {
    return write({Method::kPut, table, key, options, std::move(value)}, std::forward<Done>(done)...);
  }

  /// Deletes a key. NOT_FOUND: no such key. FAILED_PRECONDITION: `if_version`, and the key has another version.
  template <typename... Done>
  [[nodiscard]] auto remove(std::string_view table, std::string_view key, const WriteOptions& options = {},
                            Done&&... done) {
    return write({Method::kDelete, table, key, options}, std::forward<Done>(done)...);
  }

  /// Replaces, adds or removes fields of a row, atomically and in one round trip. NOT_FOUND: no such key (unless
  /// create_if_missing; removals alone make none). A PATCH that only removes fields that the row lacks is OK, writes
  /// nothing, and has the key's version. FAILED_PRECONDITION: the value is not a row (or with `row`, is not marked as
  /// one), or `if_version` does not hold.
  template <typename... Done>
  [[nodiscard]] auto patch(std::string_view table, std::string_view key, std::span<const FieldUpdate> fields,
                           const PatchOptions& options = {}, Done&&... done) {
    const WriteOptions common{.timeout = options.timeout,
                              .if_version = options.if_version,
                              .mark = {.tag = 0, .row = options.row},
                              .durability = options.durability};
    return write({.method = Method::kPatch,
                  .table = table,
                  .key = key,
                  .options = common,
                  .fields = fields,
                  .create_if_missing = options.create_if_missing,
                  .count_fields = options.count_fields},
                 std::forward<Done>(done)...);
  }

  /// Adds `delta` to a counter. A counter is a value that is a decimal int64; a missing key counts as 0. OK: the
  /// result's `value` is the counter afterwards. FAILED_PRECONDITION: the value is not such a number. OUT_OF_RANGE: the
  /// sum is not an int64. The key keeps its time to live.
  template <typename... Done>
  [[nodiscard]] auto add(std::string_view table, std::string_view key, int64_t delta, const WriteOptions& options = {},
                         Done&&... done) {
    return write({.method = Method::kAdd, .table = table, .key = key, .options = options, .delta = delta},
                 std::forward<Done>(done)...);
  }

  /// Appends bytes to a value; a missing key counts as an empty value. INVALID_ARGUMENT in the result: the value would
  /// be larger than a value may be. The key keeps its time to live.
  template <typename... Done>
  [[nodiscard]] auto append(std::string_view table, std::string_view key, PutValue bytes,
                            const WriteOptions& options = {}, Done&&... done) {
    return write({Method::kAppend, table, key, options, std::move(bytes)}, std::forward<Done>(done)...);
  }

  /// Sets the key's time to live: the key vanishes when `ttl` has passed. 0: never. `options.ttl` is ignored.
  /// NOT_FOUND: no such key.
  template <typename... Done>
  [[nodiscard]] auto expire(std::string_view table, std::string_view key, std::chrono::nanoseconds ttl,
                            const WriteOptions& options = {}, Done&&... done) {
    WriteCall call{Method::kExpire, table, key, options};
    call.options.ttl = ttl;
    return write(std::move(call), std::forward<Done>(done)...);
  }

  /// Applies all operations of `batch`, or none (batch.h). INVALID_ARGUMENT in the result: the keys are in different
  /// shards.
  template <typename... Done>
  [[nodiscard]] auto batch(std::string_view table, const Batch& batch, const BatchOptions& options = {},
                           Done&&... done) {
    return self().run(BatchCall{table, batch, options}, std::forward<Done>(done)...);
  }

  /// Reads 1 to 1,024 keys in parallel, not as of one moment. One entry of the result for each key, in their order.
  template <typename... Done>
  [[nodiscard]] auto multi_get(std::string_view table, std::span<const std::string_view> keys,
                               const ReadOptions& options = {}, Done&&... done) {
    return self().run(MultiGetCall{table, keys, options}, std::forward<Done>(done)...);
  }

  /// Reads up to `range.limit` rows in key order, over all shards. Ends early, with has_more, when the rows have 32
  /// MiB. For which rows are of one moment see ScanResult.
  template <typename... Done>
  [[nodiscard]] auto scan(std::string_view table, const ScanRange& range, const ReadOptions& options = {},
                          Done&&... done) {
    return self().run(ScanCall{table, range, options}, std::forward<Done>(done)...);
  }

 private:
  friend Self;
  ClientCalls() = default;

  Self& self() { return static_cast<Self&>(*this); }
  template <typename... Done>
  auto write(WriteCall&& call, Done&&... done) {
    return self().run(std::move(call), std::forward<Done>(done)...);
  }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_CALLS_H_
