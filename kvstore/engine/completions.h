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
// The table of an engine also counts attempts that are under way: together with the results they are at most
// kIncompleteMax per client. A database holds one row per client (encode_row):
//
//     0 u64 time of its last record, ms    8 u64 first_incomplete    16 u32 results    20 u32 0
//    24 { u64 seq, u64 version, i64 value, u16 batch results, 6 zeros, batch results (effect.h) } each, by seq
#ifndef SKUA_KVSTORE_ENGINE_COMPLETIONS_H_
#define SKUA_KVSTORE_ENGINE_COMPLETIONS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "kvstore/engine/effect.h"
#include "kvstore/engine/mutation.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// No clock: times are unix times in milliseconds and do not go back. Thread: one at a time. Steady state allocates nothing
/// but batches' results.
class CompletionTable {
 public:
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
    kStale,       ///< the client has been told its fate
    kIncomplete,  ///< the client has kIncompleteMax results and attempts
    kFull,        ///< kCompletionClientsMax or kCompletionBatchBytesMax is reached
  };

  /// What `id` was answered; null if nothing is kept. Valid until the next call that changes the table.
  [[nodiscard]] const Result* find(const RequestId& id, uint64_t now_ms) const;

  /// Begins an attempt of a mutation that find() does not know. What the client says of first_incomplete is believed.
  [[nodiscard]] Verdict begin(const RequestId& id, uint64_t now_ms);
  /// Ends it, whatever became of it.
  void finish(const RequestId& id);

  /// An attempt that ended without effect. `result.seq` is the id's.
  void refuse(const RequestId& id, Result result, uint64_t now_ms);

  /// As if no attempt had been refused. For a replica that becomes primary: what it refused when it was one before, perhaps by
  /// a state that others had gone beyond, does not count.
  void forget_refusals();

  /// A record of the log: its completion, index and time. What was executed was not refused, whoever said so.
  void record(const Completion& completion, uint64_t index, uint64_t time_ms);

  /// Drops clients that are silent at `now_ms`; tells each.
  void forget_silent(uint64_t now_ms, absl::FunctionRef<void(uint64_t client_id)> forgotten);

  /// A client's row, without what had no effect; false if nothing is known of it.
  [[nodiscard]] bool encode_row(uint64_t client_id, std::string& out) const;
  /// Takes over a row of a client that is not here yet. False: it is none.
  [[nodiscard]] bool load(uint64_t client_id, ByteSpan row);
  /// After the last load().
  void loaded();

  [[nodiscard]] size_t clients() const { return clients_.size(); }
  [[nodiscard]] size_t results() const { return results_; }

 private:
  struct Client {
    uint64_t id = 0;
    uint64_t last_ms = 0;
    uint64_t first_incomplete = 0;
    size_t under_way = 0;
    std::vector<Result> results{};  // by seq, from `begin` on
    size_t begin = 0;

    [[nodiscard]] size_t kept() const { return results.size() - begin; }
  };

  Client& client(uint64_t id);
  Client& heard_of(uint64_t id, uint64_t time_ms);
  [[nodiscard]] static bool is_old(const Client& client, uint64_t now_ms);
  [[nodiscard]] static bool is_silent(const Client& client, uint64_t now_ms);
  void told(Client& client, uint64_t first_incomplete);
  void keep(Client& client, Result result);
  void erase(std::list<Client>::iterator at);

  std::list<Client> by_time_;  // the one that is silent for longest first
  absl::flat_hash_map<uint64_t, std::list<Client>::iterator> clients_;
  size_t results_ = 0;
  size_t batch_bytes_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_COMPLETIONS_H_
