// A manager of views, modelled: hears from nodes, accuses, replaces, repairs. There may be two that both think they
// lead.
//
// Rules (view.h, replica.h). All else is policy, and no policy may break the promises.
//   - what it tells nodes has been decided: read from the store, or swapped in by itself with a known outcome
//   - a change starts from the view that it knows and is a compare-and-swap; after any other outcome than "done" it
//     reads again
//   - the primary of the next epoch is a member of this one, in its present incarnation; a learner becomes a member only
//     when the primary has reported this attempt in this epoch
//   - the number of an attempt to join is that of the change that began it
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_VIEW_MANAGER_MODEL_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_VIEW_MANAGER_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/metadata_store_model.h"
#include "tests/kvstore/replication/replication_options.h"
#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

class ViewManagerModel {
 public:
  ViewManagerModel(SimKernel& kernel, const ReplicationSimOptions& options, MetadataStoreModel& store)
      : kernel_(kernel), options_(options), store_(store) {}

  /// A new process. It knows nothing.
  void start();
  void crash();
  [[nodiscard]] bool is_up() const { return up_; }
  void heal() { healed_ = true; }

  // --- Input

  /// A node lives, and has these views (by shard).
  void on_alive(const ReplicaId& node, const std::vector<View>& views);
  void on_report(size_t shard, NodeId from, const ReplicaReport& report);
  void on_ask(size_t shard, NodeId from);
  /// Whenever it pleases.
  void transfer(size_t shard);
  void transfer_to(size_t shard, NodeId node);
  /// Another primary, and this one is not even a member.
  void depose(size_t shard);

  // --- Output

  std::function<void(size_t shard, NodeId to, const View&)> tell;

 private:
  struct Shard {
    View view;  // epoch 0: not read yet
    bool busy = false;
    uint64_t attempt = 0;  // of reading or swapping
    TimeNs busy_since = 0;
    TimeNs quiet_until = 0;
    std::map<NodeId, TimeNs> accused_primary;  // by whom, in this epoch
    TimeNs join_since = 0;
  };
  struct Alive {
    uint64_t incarnation = 0;
    TimeNs heard = 0;
  };

  void tick();
  void read(size_t shard);
  void learn(size_t shard, const View& view);
  void broadcast(size_t shard);
  void change(size_t shard, View next);
  void new_epoch(size_t shard, View next, Probe why);
  void repair(size_t shard);
  void add_learner(size_t shard);
  void drop_member(size_t shard, NodeId node, Probe why);
  void fail_over(size_t shard, NodeId not_this_one, bool keep_member, Probe why);
  void suspect(size_t shard, NodeId from, NodeId accused);
  [[nodiscard]] bool is_alive(const ReplicaId& id, DurationNs within) const;
  [[nodiscard]] bool is_free(size_t shard) const;

  SimKernel& kernel_;
  const ReplicationSimOptions& options_;
  MetadataStoreModel& store_;
  bool up_ = false;
  bool healed_ = false;
  uint64_t life_ = 0;
  std::vector<Shard> shards_;
  std::map<NodeId, Alive> alive_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_VIEW_MANAGER_MODEL_H_
