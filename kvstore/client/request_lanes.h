// RequestLanes: the client's half of exactly once. It gives each write its number, and knows which numbers are done.
//
//   lane of shard 0:   [seq 3] [seq 7] [seq 9]           seqs rise in each lane, from left to right
//   lane of shard 1:   [seq 4] [seq 5]
//                       ^ first_incomplete of each request to shard 1 until the application has the result of 4
//
// A write gets its seq when it is first sent. It stays in its shard's lane until the application is told the result.
// All attempts of the write carry the same seq. Each request carries first_incomplete, the smallest seq in the lane:
// the shard may forget its answers to all smaller numbers.
//
// Each shard has a lane of its own. So a shard that cannot be reached does not make other shards keep answers. Each
// lane counts for itself. So a shard that takes high numbers only (renumber()) does not raise the numbers of other
// shards.
//
// An empty lane keeps its last number as long as its table exists: if a number were used twice, the second write would
// get the first one's answer. Lanes of dropped tables may be forgotten, because table ids are never reused. Memory is
// allocated only when a table is used for the first time. Pure. Thread: one at a time.
#ifndef SKUA_KVSTORE_CLIENT_REQUEST_LANES_H_
#define SKUA_KVSTORE_CLIENT_REQUEST_LANES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kvstore/client/operation.h"
#include "kvstore/codec/request.h"
#include "rpc/base/intrusive_list.h"

namespace skua::kv {

class RequestLanes {
 public:
  /// `client_id` is random, so that no other client has the same id. 0: writes carry no id and no number.
  explicit RequestLanes(uint64_t client_id) : client_id_(client_id) {}

  [[nodiscard]] bool enabled() const { return client_id_ != 0; }

  /// The request id of the next attempt of `operation`, a write to `shard` of a table with `shard_count` shards. The
  /// first attempt in that shard gives the operation its number and puts it into the lane.
  [[nodiscard]] RequestId identify(NumberedOperation& operation, uint32_t table_id, uint32_t shard,
                                   uint32_t shard_count);

  /// For a shard that takes only writes with number `first_taken` or higher: takes the operation out of its lane, so
  /// that its next attempt gets a new, high enough number. Only if no attempt of `operation` was ever executed. False,
  /// and nothing changed: the operation's number was high enough, or `first_taken` is above kRenumberedSeqMax.
  [[nodiscard]] bool renumber(NumberedOperation& operation, uint64_t first_taken);

  /// The application is told the operation's result: takes the operation out of its lane, if it is in one.
  static void complete(NumberedOperation& operation);

  /// Forgets tables for which exists(table_id) is false and whose lanes are empty.
  template <typename Exists>
  void forget_dropped(Exists exists) {
    const auto is_empty = [](const Lane& lane) { return lane.operations.empty(); };
    std::erase_if(tables_, [&](const auto& entry) {
      return std::ranges::all_of(entry.second, is_empty) && !exists(entry.first);
    });
    last_ = nullptr;
  }
  [[nodiscard]] size_t table_count() const { return tables_.size(); }

 private:
  struct Lane {
    IntrusiveList<NumberedOperation, &NumberedOperation::lane_hook> operations;
    uint64_t last_seq = 0;
  };
  using Lanes = std::vector<Lane>;  // of a table's shards

  Lane& lane_of(uint32_t table_id, uint32_t shard, uint32_t shard_count);

  const uint64_t client_id_;
  std::unordered_map<uint32_t, Lanes> tables_;
  uint32_t last_id_ = 0;   // id of *last_
  Lanes* last_ = nullptr;  // the table used last; null: none
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_REQUEST_LANES_H_
