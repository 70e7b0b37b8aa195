// Client: the client library for programs that block. Start here.
//
//   auto client = Client::create({.control_address = "10.0.0.1:7400"});
//   if (!client.ok()) ...
//   WriteResult written = (*client)->put("users", "ada", "1815");
//   if (!written.ok()) ...                               // written.status says why
//   ReadResult ada = (*client)->get("users", "ada");     // ada.status, ada.value, ada.version
//
// Verbs: get, put, remove, patch, add, append, expire, batch, multi_get, scan (client_calls.h).
//
// Any number of threads may share one client. The client has a thread of its own, which polls an AsyncClient. A call
// hands its operation over to that thread and sleeps until the answer is there; that costs two thread switches more
// than a call of an AsyncClient. Received values are copied once, into the result. Results belong to the caller and may
// outlive the client.
//
// Deadlines, retries and errors are those of async_client.h and types.h. docs/client.md has examples.
#ifndef SKUA_KVSTORE_CLIENT_CLIENT_H_
#define SKUA_KVSTORE_CLIENT_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/types.h"

namespace skua::kv {

class AsyncClient;

struct ReadResult : Outcome {
  std::string value;
  /// With ReadOptions::with_ttl: the time that the key has left. nullopt: it does not expire.
  std::optional<std::chrono::milliseconds> ttl;
  /// With ReadOptions::with_mark: the record's.
  RecordMark mark{};
};

struct OwnedRow {
  std::string key;
  std::string value;
  uint64_t version = 0;
  RecordMark mark{};
};

/// ScanResult with rows that are copies.
struct RowsResult : Outcome {
  std::vector<OwnedRow> rows;
  uint64_t count = 0;
  bool has_more = false;
  std::string next_start;
  std::vector<Token> tokens;
};

/// Thread: any, for all methods. A call blocks until its operation has ended, at the latest at the operation's
/// deadline.
class Client : public ClientCalls<Client> {
 public:
  /// Starts the client's thread. Connects to nothing yet. Errors: those of AsyncClient::create().
  static absl::StatusOr<std::unique_ptr<Client>> create(ClientOptions options);
  /// Ends the client's thread. No other thread may be inside a call.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// What the verbs come to: get(), put() and so on of ClientCalls. Errors that an AsyncClient's call returns are in
  /// the result's status here. RESOURCE_EXHAUSTED also: 4,096 calls wait for the client's thread already.
  [[nodiscard]] ReadResult run(const GetCall& call);
  [[nodiscard]] WriteResult run(WriteCall&& call);
  [[nodiscard]] BatchResult run(const BatchCall& call);
  /// One result for each key, in the order of the keys.
  [[nodiscard]] std::vector<ReadResult> run(const MultiGetCall& call);
  [[nodiscard]] RowsResult run(const ScanCall& call);

  /// A copy of the counters as they are now. Zeros if 4,096 calls wait for the client's thread already.
  [[nodiscard]] ClientCounters counters();

  /// For tests: over the AsyncClient that `make` returns. `make` runs on the client's thread.
  static absl::StatusOr<std::unique_ptr<Client>> create_over(
      absl::AnyInvocable<absl::StatusOr<std::unique_ptr<AsyncClient>>()> make);

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_H_
