// Exactly once, the client's half: which number a write has, and which are over.
//
//   lane of shard 0:   [seq 3] [seq 7] [seq 9]           seqs rise in each lane, from left to right
//   lane of shard 1:   [seq 4] [seq 5]
//                       ^ first_incomplete of each request to shard 1 until 4 is told
//
// A write gets its seq when it is first sent, and stays in its shard's lane until the application is told its result; all
// its attempts carry the same seq. A lane for each shard, and not one for all, so that a shard that is out of reach does
// not make the others keep results, and each counts by itself, so that a shard that takes high numbers only (renumber()) does not drive
// those of others up.
//
// An empty lane must know its last number as long as its table is there: a number that is used again would get the first answer.
// Lanes of dropped tables can be forgotten, because no table gets another's id. Nothing is allocated but when a table is used
// for the first time. Pure; thread: one at a time.
#ifndef SKUA_KVSTORE_CLIENT_REQUEST_LANES_H_
#define SKUA_KVSTORE_CLIENT_REQUEST_LANES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "kvstore/client/operation.h"
#include "kvstore/codec/request.h"
#include "rpc/base/intrusive_list.h"

namespace skua::kv {

class RequestLanes {
 public:
  /// `client_id` is random, so that no other client has it; 0: writes are not identified.
  explicit RequestLanes(uint64_t client_id) : client_id_(client_id) {}

  [[nodiscard]] bool enabled() const { return client_id_ != 0; }

  /// The id of the next attempt of `operation`, a write to `shard` of a table of `shard_count` shards. Its first attempt
  /// in that shard puts it into the lane.
  [[nodiscard]] RequestId identify(Operation& operation, uint32_t table_id, uint32_t shard, uint32_t shard_count);

  /// The shard takes writes from the number `first_taken` on only, and no attempt of `operation` was ever evaluated: its
  /// next one has another number. False: that would not help.
  [[nodiscard]] bool renumber(Operation& operation, uint64_t first_taken);

  /// The application is told its result. A no-op for operations in no lane.
  static void complete(Operation& operation);

  /// Forgets tables that no operation is under way in and that `exists` does not know.
  template <typename Exists>
  void forget_dropped(Exists exists) {
    std::erase_if(tables_, [&](const auto& entry) { return entry.second.is_idle() && !exists(entry.first); });
    last_ = nullptr;
  }
  [[nodiscard]] size_t table_count() const { return tables_.size(); }

 private:
  struct Lane {
    IntrusiveList<Operation, &Operation::lane_hook> operations;
    uint64_t last_seq = 0;
  };
  struct Table {
    std::unique_ptr<Lane[]> lanes;
    uint32_t lane_count = 0;

    [[nodiscard]] bool is_idle() const;
  };

  Lane& lane_of(uint32_t table_id, uint32_t shard, uint32_t shard_count);

  const uint64_t client_id_;
  std::unordered_map<uint32_t, Table> tables_;
  uint32_t last_id_ = 0;  // the table used last, or null
  Table* last_ = nullptr;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_REQUEST_LANES_H_
