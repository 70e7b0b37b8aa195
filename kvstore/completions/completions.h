// What a shard remembers of its clients' mutations, so that a repetition gets the first answer instead of a second effect
// (RIFL: "Implementing Linearizability at Large Scale and Low Latency", SOSP 2015).
//
//    client 17    seq    ... 40   41   42   43   44   45   46
//                             told     kept  -   kept kept  -
//                                 ^ first_incomplete: the client has been told all below; a repetition of those is stale
//                                            ^ nothing is known of it: evaluated
//
// Mutations that took effect leave a result by the record in the log that has their effects, so that replay makes the same
// table. A client that no record was of for kClientSilentMsMax, by the records' own times, is forgotten.
//
// Mutations without effect, such as one whose condition did not hold, leave a result in the engine's table only (refuse()).
// Whoever was told of a refusal relies on it that an earlier attempt, which is still on its way, does nothing either. That one
// was sent in a session with this process and for this epoch of the shard. The process's end ends its sessions, and a
// shard comes back to a worker with another epoch only: whatever takes the table's memory makes the attempt void, too. So no record
// is needed, and a refusal costs no write. Answers like RESOURCE_EXHAUSTED leave nothing: a client repeats what was answered so,
// or tells its caller that an earlier attempt may have been applied.
//
// **Room.** Memory is bounded, and whoever wants more than there is must not keep the others from writing. So what is kept of one
// client goes for that of another, with one rule: *what may have been executed is never evaluated again*. A shard keeps a number
// instead of what goes, below which it takes nothing any more:
//
//    results of a client      go when the batches' results of all are too many bytes: the client with the oldest record first.
//                             (One client's own are bounded before: its next batches wait until it has been told.)
//                             Its first_incomplete rises above all that goes.
//    a client                 goes when clients are too many: the one with the oldest record first, of those with one write as
//                             long as there are any, and nobody who wrote within kCompletionIdleMsMin. The *floor* of the shard
//                             rises to the highest number that the client used. A client that the shard does not know begins
//                             above the floor.
//
//    floor 90       client 17, forgotten, had written 88 and 90
//                   17 repeats 90:     stale: nobody knows any more whether 90 was executed
//                   17 writes 91:      a new client, whose first_incomplete is 91; a repetition of 88 is stale as before
//                   18 writes 1:       a new client, which cannot be told from a forgotten one: stale, with a number from which on
//                                      the shard takes writes. Client 18 has sent nothing before, so it may number the write
//                                      anew and send it again (client_core.h); a client that sent it before must not.
//
// No clock makes this right: repetitions have the numbers of the first attempt. An hour after the last client went nobody repeats
// its writes any more (a client's timeouts are no longer), and the floor is no reason to refuse anything.
// A client could pick numbers so high that the floor would leave no room above it. So a client goes only if its numbers are
// at most kCompletionSeqStepMax above the floor; others are *far*, have a share of their own and stay for the hour. An
// attempt with such a number has a place of that share only as long as it is at work, or its client is a visitor.
// If nobody can go, a client that is not known yet is refused (kFull), and only such a one. That is the case if
// kCompletionNewcomersMax clients came within kCompletionIdleMsMin.
//
// Record by record this is the same on all replicas and after each recovery: order is that of records, and only records make room for a
// client. (And even if two tables differed, each by itself has of each executed write either its result or a number above it.)
//
// A primary's table also knows clients without a record, *visitors*, by their attempts and refusals. They have a share
// of their own (those with far numbers: of the far ones' places what these leave), and nothing of theirs was executed,
// so they leave no floor. A client that goes while it is at work, or was refused a moment ago, stays as a visitor. A
// visitor that must go was idle for kCompletionIdleMsMin: no attempt is that long on its way, because a session that
// hears nothing ends after seconds.
//
// The table of an engine also counts attempts that are under way: together with the results they are at most
// kIncompleteMax per client. A database holds one row per client (encode_row), whose version is the index of its last record:
//
//     0 u64 time of its last record, ms; bit 63: it wrote more than once; bit 62: it is far    8 u64 first_incomplete
//    16 u32 results    20 u32 0
//    24 { u64 seq, u64 version, i64 value, u16 batch results, 6 zeros, batch results (effect.h) } each, by seq
//
// The floor is the row of client kFloorClient, who is nobody: when it last rose, the floor + 1, no results.
#ifndef SKUA_KVSTORE_COMPLETIONS_COMPLETIONS_H_
#define SKUA_KVSTORE_COMPLETIONS_COMPLETIONS_H_

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
#include "kvstore/codec/size_limits.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"
#include "rpc/base/intrusive_list.h"

namespace skua::kv {

/// completion_limits.h; tests have smaller ones.
struct CompletionLimits {
  size_t clients_max = kCompletionClientsMax;
  size_t newcomers_max = kCompletionNewcomersMax;
  size_t far_max = kCompletionFarMax;
  size_t batch_bytes_max = kCompletionBatchBytesMax;
  size_t client_batch_bytes_max = kClientBatchBytesMax;
};

/// No clock: times are unix times in milliseconds. Thread: one at a time. Steady state allocates nothing but batches' results.
class CompletionTable {
 public:
  /// No client has this id, and its row is the floor's.
  static constexpr uint64_t kFloorClient = UINT64_MAX;

  struct Result {
    uint64_t seq = 0;
    uint64_t version = 0;
    int64_t value = 0;
    std::string batch_results{};  ///< effect.h; empty: not a batch
    // Without effect: what it was answered, or an operation of a batch.
    bool has_effect = true;
    KvStatus status = KvStatus::kOk;
    std::optional<size_t> refused_operation{};  ///< why the batch was not applied; nullopt: it changed nothing
  };

  enum class Verdict : uint8_t {
    kNew,         ///< to be evaluated; finish() ends the attempt
    kStale,       ///< the client has been told its fate, or nobody knows it any more
    kIncomplete,  ///< the client has kIncompleteMax results and attempts, or too many bytes of batches' results
    kFull,        ///< there is no room for another client
  };

  /// Whose row is to be written anew.
  using Changed = absl::FunctionRef<void(uint64_t client_id)>;

  /// Others than the default ones; before anything else.
  void set_limits(const CompletionLimits& limits) { limits_ = limits; }

  /// What `id` was answered; null if nothing is kept. Valid until the next call that changes the table.
  [[nodiscard]] const Result* find(const RequestId& id, uint64_t now_ms) const;

  /// Begins an attempt of a mutation that find() does not know. What the client says of first_incomplete is believed.
  /// `batch_bytes`: of the results that a batch will leave; 0: not a batch.
  [[nodiscard]] Verdict begin(const RequestId& id, uint64_t now_ms, size_t batch_bytes = 0);
  /// Ends it, whatever became of it. As begin() was told.
  void finish(const RequestId& id, size_t batch_bytes = 0);

  /// After kStale: from which number on writes of the client are taken.
  [[nodiscard]] uint64_t first_taken(uint64_t client_id, uint64_t now_ms) const;

  /// An attempt that ended without effect. `result.seq` is the id's.
  void refuse(const RequestId& id, Result result, uint64_t now_ms);

  /// As if no attempt had been refused. For a replica that becomes primary: what it refused when it was one before, perhaps by
  /// a state that others had gone beyond, does not count.
  void forget_refusals();

  /// A record of the log: its completion, index and time. What was executed was not refused, whoever said so. Lets go of others
  /// that are silent, or whose room it needs. Tells of each client whose row changes, but not of its own.
  void record(
      const Completion& completion, uint64_t index, uint64_t time_ms, Changed changed = [](uint64_t) {});

  /// Drops clients that are silent at `now_ms`; tells each.
  void forget_silent(uint64_t now_ms, Changed forgotten);

  /// A client's row, without what had no effect, and its version; nullopt if nothing is known of it.
  [[nodiscard]] std::optional<uint64_t> encode_row(uint64_t client_id, std::string& out) const;
  /// Takes over a row of a client that is not here yet. False: it is none.
  [[nodiscard]] bool load(uint64_t client_id, ByteSpan row, uint64_t version);
  /// After the last load(). Rows may be of a peer's database, so they are brought within the bounds that records keep
  /// to: nothing is later than `latest_ms`, and what is too much goes as it does for a record. Tells whose rows are not
  /// what they were.
  void loaded(
      uint64_t latest_ms = UINT64_MAX, Changed changed = [](uint64_t) {});

  /// The newest time of a record in it, in time proportional to its clients; 0: there is none.
  [[nodiscard]] uint64_t newest_ms() const;
  [[nodiscard]] size_t clients() const { return clients_.size(); }
  [[nodiscard]] size_t results() const { return results_; }
  [[nodiscard]] size_t batch_bytes() const { return batch_bytes_; }

 private:
  /// Whose room goes to whom.
  enum class Kind : uint8_t { kVisitor, kFarVisitor, kNewcomer, kEstablished, kFar };
  static constexpr size_t kKinds = 5;

  struct Client {
    uint64_t id = 0;
    Kind kind = Kind::kNewcomer;
    Kind home = Kind::kNewcomer;  // by its records; it is kFar meanwhile if an attempt with a far number is under way
    uint64_t last_ms = 0;         // of its last record
    uint64_t heard_ms = 0;        // of its last refusal, or of the first attempt of a visitor
    uint64_t last_index = 0;      // of its last record; 0: there was none
    uint64_t recorded_seq = 0;    // the highest
    uint64_t first_incomplete = 0;
    size_t under_way = 0;
    size_t batch_bytes_under_way = 0;
    size_t batch_bytes = 0;
    std::vector<Result> results{};  // by seq, from `begin` on
    size_t begin = 0;
    ListHook order_hook{};
    ListHook holder_hook{};

    [[nodiscard]] size_t kept() const { return results.size() - begin; }
  };
  using Order = IntrusiveList<Client, &Client::order_hook>;
  using Holders = IntrusiveList<Client, &Client::holder_hook>;

  [[nodiscard]] static bool is_silent(const Client& client, uint64_t now_ms);
  [[nodiscard]] Client* find_client(uint64_t id) const;
  Client& add(uint64_t id, Kind kind, uint64_t now_ms, uint64_t floor);
  Client& recorded(const RequestId& id, uint64_t index, uint64_t time_ms, Changed changed);
  void become(Client& client, Kind kind);
  void settle(Client& client, Kind kind);
  void told(Client& client, uint64_t first_incomplete);
  void keep(Client& client, Result result);
  void erase(Client& client);

  // Room
  [[nodiscard]] uint64_t floor(uint64_t now_ms) const;
  [[nodiscard]] bool is_far(uint64_t seq) const;
  [[nodiscard]] static bool is_visitor(const Client& client) {
    return client.kind == Kind::kVisitor || client.kind == Kind::kFarVisitor;
  }
  [[nodiscard]] size_t count(Kind kind) const { return count_[static_cast<size_t>(kind)]; }
  /// Clients with a record.
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
  void drop_results(Client& newest, Changed changed);
  void bound_times(const std::vector<Client*>& clients, uint64_t latest_ms, Changed changed);
  void shed(const std::vector<Client*>& clients, Changed changed);

  CompletionLimits limits_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Client>> clients_;
  std::array<Order, kKinds> order_;     // the one with the oldest record first
  std::array<size_t, kKinds> count_{};  // in order_
  Holders holders_;                     // of batches' results; likewise
  size_t results_ = 0;
  size_t batch_bytes_ = 0;
  uint64_t floor_ = 0;
  uint64_t floor_ms_ = 0;  // when a client last went for another
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_COMPLETIONS_COMPLETIONS_H_
