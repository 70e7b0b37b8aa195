// What a shard remembers of its clients' mutations, so that a repeated mutation gets the first answer and has no second
// effect (RIFL: "Implementing Linearizability at Large Scale and Low Latency", SOSP 2015).
//
//    client 17    seq    ... 40   41   42   43   44   45   46
//                             told     kept  -   kept kept  -
//                                 ^ first_incomplete: the client knows the results below; a repetition of them is stale
//                                            ^ the table has nothing: the mutation is evaluated
//
// A mutation that took effect leaves a result. The log record that has the effects has the result, too, so that replay
// rebuilds the same table. A client without a record for kClientSilentMsMax is forgotten; the time is that of the
// records, not of a wall clock.
//
// A mutation without effect, for example one whose condition did not hold, leaves a result in the engine's table only
// (refuse()). A client that was told of a refusal relies on it: an earlier attempt of the mutation that is still on its
// way must have no effect either. That attempt was sent in a session with this process, and for this epoch of the
// shard. When the process ends, its sessions end. A shard comes back to a worker only with another epoch. So every
// event that loses the table's memory also voids the attempt. The refusal needs no record, and costs no write. Answers
// like RESOURCE_EXHAUSTED leave no result: the client repeats the mutation, or tells its caller that an earlier attempt
// may have been applied.
//
// **Room.** Memory is bounded. A client that needs more than there is must not keep the other clients from writing. So
// the table drops results of one client to make room for another. One rule holds: *a mutation that may have been
// executed is never evaluated again*. In place of what it drops, the shard keeps a number, and evaluates no mutation of
// a client with a lower one:
//
//    results of a client      are dropped when the results of all clients have too many bytes. Each counts
//                             kCompletionResultBytes, and a batch's those of its operations, too. The client with the
//                             oldest record loses its results first. The client's first_incomplete rises above all
//                             that is dropped. (The bytes of a single client are bounded before: its further writes
//                             are refused until it has been told earlier results.)
//    a client                 is dropped when there are too many clients: the one with the oldest record first. Clients
//                             with one write go before clients with more. A client that wrote within
//                             kCompletionIdleMsMin is not dropped. The *floor* of the shard rises to the highest number
//                             that the client used. A client that the shard does not know begins above the floor.
//
//    floor 90       client 17, dropped, had written 88 and 90
//                   17 repeats 90:     stale: the table no longer knows whether 90 was executed
//                   17 writes 91:      client 17 is new again, and its first_incomplete is 91; a repetition of 88 is
//                                      stale as before
//                   18 writes 1:       client 18 is new, but looks like a dropped client: stale, and the answer has the
//                                      first number that the shard accepts. Client 18 has sent nothing before, so it
//                                      may give the write a new number and send it again
//                                      (kvstore/client/request_lanes.h). A client that sent the write before must not
//                                      do that.
//
// The rule depends on no clock, because a repetition has the number of the first attempt. One hour after the last
// client was dropped, no dropped client repeats a write any more, because no client's timeout is longer. From then on
// the floor refuses nothing.
//
// A client could choose numbers so high that a floor at them would leave no room above. So a client is dropped only if
// its numbers are at most kCompletionSeqStepMax above the floor. Other clients are *far*: they have a share of places
// of their own, and stay for the hour. An attempt with a far number takes a place of that share only as long as the
// attempt is under way or its client is a visitor. If no client can be dropped, the table refuses clients that have no
// record yet (kFull). That happens if kCompletionNewcomersMax clients came within kCompletionIdleMsMin. A client with a
// record gets kFull only for a far number when all far places are taken.
//
// All replicas, and each recovery, drop the same clients at the same record: the order is that of the records, and only
// records make room for a client. (Even if two tables differed, each would have for each executed write either its
// result or a higher number.)
//
// A primary's table also knows clients without a record, *visitors*, from their attempts and refusals. Visitors have a
// share of places of their own; visitors with far numbers have the places that the far clients leave. No write of a
// visitor was executed, so a dropped visitor raises no floor. A client that is dropped while it has an attempt under
// way, or less than kCompletionIdleMsMin after a refusal, stays as a visitor. A visitor is dropped for another only if
// it was idle for kCompletionIdleMsMin: no attempt is on its way for that long, because a session that hears nothing
// ends after seconds. Refusals have bytes of their own, kCompletionRefusedBytesMax, so that they push out no result of
// a record. Beyond these, the client with the oldest refusal loses its refusals: its first_incomplete rises above them.
//
// The table of an engine also counts attempts that are under way: results and attempts together are at most
// kIncompleteMax per client. A database holds one row per client (encode_row). The version of the row is the index of
// the client's last record:
//
//     0 u64 time of its last record, ms; bit 63: it wrote more than once; bit 62: it is far    8 u64 first_incomplete
//    16 u32 results    20 u32 0
//    24 { u64 seq, u64 version, i64 value, u16 batch results, 6 zeros, batch results (effect.h) } each, by seq
//
// The floor is stored as the row of kFloorClient, an id that no client has: the time when the floor last rose, the
// floor + 1, no results.
#ifndef SKUA_KVSTORE_COMPLETIONS_COMPLETIONS_H_
#define SKUA_KVSTORE_COMPLETIONS_COMPLETIONS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "kvstore/codec/effect.h"
#include "kvstore/completions/client_results.h"
#include "kvstore/completions/completion_floor.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"
#include "rpc/base/intrusive_list.h"

namespace skua::kv {

/// The bounds of completion_limits.h; tests use smaller ones.
struct CompletionLimits {
  size_t clients_max = kCompletionClientsMax;
  size_t newcomers_max = kCompletionNewcomersMax;
  size_t far_max = kCompletionFarMax;
  size_t bytes_max = kCompletionBytesMax;
  size_t client_bytes_max = kClientBytesMax;
  size_t refused_bytes_max = kCompletionRefusedBytesMax;
};

/// Reads no clock: times are arguments, unix times in milliseconds. Thread: one at a time. In steady state only the
/// results of batches are allocated. A client's memory follows the number of its results, upwards and downwards.
class CompletionTable {
 public:
  /// No client has this id. Its row holds the floor.
  static constexpr uint64_t kFloorClient = UINT64_MAX;

  using Result = CompletionResult;

  enum class Verdict : uint8_t {
    kNew,         ///< evaluate the mutation; finish() ends the attempt
    kStale,       ///< the client has been told the result, or the table has dropped it
    kIncomplete,  ///< the client has kIncompleteMax results and attempts, or too many bytes of them
    kFull,        ///< there is no room for the client
  };

  /// Called with a client whose row must be written again, or deleted.
  using Changed = absl::FunctionRef<void(uint64_t client_id)>;

  /// Replaces the default limits. Must come before any other call.
  void set_limits(const CompletionLimits& limits) { limits_ = limits; }

  /// The result that is kept for `id`; null if none is. Valid until the next call that changes the table.
  [[nodiscard]] const Result* find(const RequestId& id, uint64_t now_ms) const;

  /// Begins an attempt of a mutation that find() does not know. Drops the client's results below id.first_incomplete:
  /// the client says that it knows them. `batch_bytes`: bytes of the results of a batch's operations; 0: not a batch.
  [[nodiscard]] Verdict begin(const RequestId& id, uint64_t now_ms, size_t batch_bytes = 0);
  /// Ends an attempt for which begin() returned kNew, whatever its outcome. The arguments are those of begin().
  void finish(const RequestId& id, size_t batch_bytes = 0);

  /// After kStale: the first number that the shard accepts from the client.
  [[nodiscard]] uint64_t first_taken(uint64_t client_id, uint64_t now_ms) const;

  /// Keeps the result of an attempt that ended without effect. `result.seq` is the id's.
  void refuse(const RequestId& id, Result result, uint64_t now_ms);

  /// Drops all results of mutations without effect. For a replica that becomes primary: it may have refused mutations
  /// when it was primary before, perhaps by a state that other replicas had gone beyond. These refusals do not count.
  void forget_refusals();

  /// Takes over the completion of a log record, with the index and time of the record. The completion replaces a
  /// refusal of the same mutation. Drops other clients that are silent, or whose room it needs. Calls `changed` for
  /// each client whose row changes, but not for the completion's own client.
  void record(
      const Completion& completion, uint64_t index, uint64_t time_ms, Changed changed = [](uint64_t) {});

  /// Drops clients that are silent at `now_ms`. Calls `forgotten` for each of them that had a record.
  void forget_silent(uint64_t now_ms, Changed forgotten);

  /// Encodes the client's row into `out`, without results of mutations without effect. Returns the row's version;
  /// nullopt if the table does not know the client.
  [[nodiscard]] std::optional<uint64_t> encode_row(uint64_t client_id, std::string& out) const;
  /// Adds a client from its row. False: the row is damaged, or the table has the client already.
  [[nodiscard]] bool load(uint64_t client_id, ByteSpan row, uint64_t version);
  /// Must be called after the last load(). The rows may come from a peer's database, so this call brings them within
  /// the bounds that records keep to: no time is later than `latest_ms`, and what exceeds a bound is dropped as for a
  /// record. Calls `changed` for each client whose row differs from what was loaded.
  void loaded(
      uint64_t latest_ms = UINT64_MAX, Changed changed = [](uint64_t) {});

  /// The newest time of a record in the table; 0: there is none. Takes time proportional to the number of clients.
  [[nodiscard]] uint64_t newest_ms() const;
  [[nodiscard]] size_t clients() const { return clients_.size(); }
  /// Of all clients.
  [[nodiscard]] const CompletionCounts& counts() const { return counts_; }
  /// Results that the clients' containers have room for. At most four times counts().results, and 16 for each client.
  /// Takes time proportional to the number of clients.
  [[nodiscard]] size_t places() const;

 private:
  /// Decides which clients are dropped for which (see Room above).
  enum class Kind : uint8_t { kVisitor, kFarVisitor, kNewcomer, kEstablished, kFar };
  static constexpr size_t kKinds = 5;

  struct Client {
    explicit Client(CompletionCounts& all) : results(all) {}

    uint64_t id = 0;
    Kind kind = Kind::kNewcomer;
    Kind home = Kind::kNewcomer;  // by its records; `kind` is kFar while an attempt with a far number is under way
    uint64_t last_ms = 0;         // time of its last record
    uint64_t heard_ms = 0;        // time of its last refusal, or of a visitor's first attempt
    uint64_t last_index = 0;      // index of its last record; 0: there was none
    uint64_t recorded_seq = 0;    // the highest seq of its records
    uint64_t first_incomplete = 0;
    size_t under_way = 0;
    size_t bytes_under_way = 0;
    ClientResults results;
    ListHook order_hook{};
    ListHook holder_hook{};
    ListHook refused_hook{};

    [[nodiscard]] bool is_visitor() const { return kind == Kind::kVisitor || kind == Kind::kFarVisitor; }
    [[nodiscard]] bool is_silent(uint64_t now_ms) const {
      return under_way == 0 && is_silence(std::max(last_ms, heard_ms), now_ms);
    }
    /// The client knows the results below, or they are dropped.
    void told(uint64_t below) {
      first_incomplete = std::max(first_incomplete, below);
      results.drop_below(first_incomplete);
      leave_lists();
    }
    /// Some of the results were dropped.
    void leave_lists() {
      if (results.counts().bytes == 0) holder_hook.unlink();
      if (results.counts().refused_bytes == 0) refused_hook.unlink();
    }
  };
  using Order = IntrusiveList<Client, &Client::order_hook>;
  using Holders = IntrusiveList<Client, &Client::holder_hook>;
  using RefusedHolders = IntrusiveList<Client, &Client::refused_hook>;

  [[nodiscard]] Client* find_client(uint64_t id) const;
  Client& add(uint64_t id, Kind kind, uint64_t now_ms, uint64_t floor);
  Client& recorded(const RequestId& id, uint64_t index, uint64_t time_ms, Changed changed);
  void become(Client& client, Kind kind);
  void settle(Client& client, Kind kind);
  void erase(Client& client);

  // Room
  [[nodiscard]] size_t count(Kind kind) const { return count_[static_cast<size_t>(kind)]; }
  /// Number of clients with a record.
  [[nodiscard]] size_t recorded_count() const {
    return clients_.size() - count(Kind::kVisitor) - count(Kind::kFarVisitor);
  }
  [[nodiscard]] Order& order(Kind kind) { return order_[static_cast<size_t>(kind)]; }
  [[nodiscard]] bool can_evict(Kind kind, uint64_t now_ms);
  [[nodiscard]] bool has_room(uint64_t now_ms);
  [[nodiscard]] bool make_room_for_visitor(Kind kind, uint64_t now_ms);
  [[nodiscard]] bool take_far_place(Client& client, uint64_t now_ms);
  [[nodiscard]] bool make_room(Kind kind, uint64_t now_ms, Changed changed);
  [[nodiscard]] bool evict(Kind kind, uint64_t now_ms, Changed changed);
  void forget_for_another(Client& client, uint64_t now_ms, Changed changed);
  void crowd_out(uint64_t now_ms, Changed changed);
  void let_go(Client& client, uint64_t now_ms);
  void drop_visitor(Client& client, uint64_t now_ms);
  void drop_results(Client& newest, Changed changed);
  void drop_refusals(const Client& newest);
  void bound_times(const std::vector<Client*>& clients, uint64_t latest_ms, Changed changed);
  void shed(const std::vector<Client*>& clients, Changed changed);

  CompletionLimits limits_;
  CompletionCounts counts_;  // of all clients' results; these subtract themselves at their end
  absl::flat_hash_map<uint64_t, std::unique_ptr<Client>> clients_;
  std::array<Order, kKinds> order_;     // per kind; the client with the oldest record first
  std::array<size_t, kKinds> count_{};  // clients in order_, per kind
  Holders holders_;                     // clients with results with effect; the oldest record first
  RefusedHolders refused_holders_;      // clients with results without effect; the oldest refusal first
  CompletionFloor floor_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_COMPLETIONS_COMPLETIONS_H_
