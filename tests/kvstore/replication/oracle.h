// Who sees everything, and says which promise was broken. See replication_world.h for the list.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_ORACLE_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_ORACLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/shard_state.h"
#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

class Oracle {
 public:
  Oracle(SimKernel& kernel, size_t shards, size_t keys);

  // --- Views

  void view_decided(size_t shard, const View& view);
  /// A replica is told of it.
  void view_told(size_t shard, const View& view);

  // --- Logs

  void appended(size_t shard, uint64_t index, uint64_t previous_epoch, const LogEntry& entry);
  /// A replica takes it for committed. True: nobody did before.
  bool committed(size_t shard, uint64_t index, const LogEntry& entry, bool by_primary);
  /// A replica is about to drop its entry and all behind.
  void truncated(size_t shard, uint64_t index, const LogEntry& entry);
  /// A replica's state has all entries up to applied(), and nothing else.
  void applied(size_t shard, const ShardState& state);
  /// A replica has these items (Item::hash), made by the entries up to `index`; `where` for people.
  void found(size_t shard, uint64_t index, uint64_t contents, const char* where);
  /// An operator gave writes up: of this shard nothing is promised any more but that its replicas are alike.
  void forked(size_t shard) { shards_[shard].is_forked = true; }
  [[nodiscard]] bool is_forked(size_t shard) const { return shards_[shard].is_forked; }
  [[nodiscard]] uint64_t committed_index(size_t shard) const { return shards_[shard].committed.size(); }
  [[nodiscard]] uint64_t epoch_of(size_t shard, uint64_t index) const {
    return shards_[shard].committed[index - 1].epoch;
  }
  [[nodiscard]] Durability level_of(size_t shard, uint64_t index, Durability of_writes) const;

  // --- What clients were told

  /// Answered to somebody: nothing older may be answered from now on.
  void shown(size_t shard, uint32_t key, uint64_t version);
  [[nodiscard]] uint64_t shown_version(size_t shard, uint32_t key) const { return shards_[shard].shown[key]; }
  /// A read that was sampled when `shown_before` was the last shown.
  void read_served(size_t shard, uint32_t key, uint64_t version, uint64_t shown_before, const char* how);
  void acknowledged(size_t shard, uint64_t index);

 private:
  struct Known {
    LogEntry entry;
    uint64_t previous_epoch = 0;
  };
  struct Shard {
    std::map<std::pair<uint64_t, uint64_t>, View> views;  // by epoch and change
    View last_view;
    std::vector<std::vector<Known>> logs;                        // by index, all that ever were
    std::vector<LogEntry> committed;                             // from index 1 on
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> executed;  // request (client, seq) -> index
    std::vector<uint64_t> hashes;                                // of the state after each
    std::vector<uint64_t> contents;
    ShardState state;
    std::vector<uint64_t> shown;  // by key
    bool is_forked = false;
  };

  SimKernel& kernel_;
  std::vector<Shard> shards_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_ORACLE_H_
