// A replicated store in one thread, under one seed and a virtual clock: nodes with real Replicas (kvstore/replication)
// on modelled storage, managers of views over a modelled metadata store, clients; and whatever may go wrong with them.
//
//    SimClient --requests--> SimNode: ReplicaDriver x shard --entries--> ModelStorage
//        |                     |  ^ messages (SimNetwork)
//        |                     v  |
//        |                   ViewManagerModel (one or two) --CAS--> MetadataStoreModel
//        +--- histories ---> linearizability.h          Oracle: sees all of it
//
// A run has two phases. First faults of all kinds; then everything heals, and within a bounded time every operation
// has its answer, every shard all its replicas, and all replicas are equal.
//
// The promises that are checked
//   I1   there is one view for each epoch and change, and replicas are told no others
//   I2   an epoch is durable before a replica says anything in it
//   I3   logs match: equal (index, epoch) are equal entries with equal entries before
//   I4   what is committed is there, durable as its writer asked, on every member of this view and of all views that are
//        decided
//   I5   a backup takes nothing for committed that no primary has committed; no two replicas commit different entries
//   I6   what is applied is committed, and in the log until the state that has it is durable
//   I7   the primary of an epoch was a member in the one before
//   I8   no read shows less than somebody was shown before it was sampled; and, per key, all that clients were told is
//        linearizable
//   I9   a request is executed once at most
//   I10  nothing is acknowledged with fewer members than min_insync
//   I11  when a primary commits, nobody of an older epoch may serve reads alone
//   I12  states are what the log makes them, whether replayed, fetched or restarted
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_REPLICATION_WORLD_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_REPLICATION_WORLD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/kvstore/replication/fault_schedule.h"
#include "tests/kvstore/replication/metadata_store_model.h"
#include "tests/kvstore/replication/oracle.h"
#include "tests/kvstore/replication/replication_options.h"
#include "tests/kvstore/replication/seed_runner.h"
#include "tests/kvstore/replication/sim_client.h"
#include "tests/kvstore/replication/sim_kernel.h"
#include "tests/kvstore/replication/sim_network.h"
#include "tests/kvstore/replication/sim_node.h"
#include "tests/kvstore/replication/view_manager_model.h"

namespace skua::kv::sim {

class ReplicationWorld final : public SimWorld, public NodeWorld, public ClientWorld {
 public:
  ReplicationWorld(const ReplicationSimOptions& options, WorldMutant mutant, bool verbose);
  ~ReplicationWorld() override;

  // --- SimWorld

  std::optional<std::string> run() override;
  [[nodiscard]] uint64_t trace() const override { return kernel_.trace; }
  [[nodiscard]] SimTally tally() const override;
  [[nodiscard]] std::string describe() const override { return options_.describe(); }

  // --- NodeWorld, ClientWorld

  void to_peer(const PeerMessage& message) override;
  void to_managers(NodeId from, std::function<void(ViewManagerModel&)> what) override;
  void to_client(NodeId from, const ClientReply& reply) override;
  void to_node(size_t client, NodeId node, const ClientRequest& request) override;
  void entry_committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) override;
  void process_failed(NodeId node) override;

 private:
  // replication_world.cc
  void run_phases();
  void print_replicas() const;
  void start();
  void view_decided(size_t shard, const View& view);
  void check_members_have(size_t shard, const View& view, uint64_t index);
  [[nodiscard]] bool is_viable(size_t shard, const View& view) const;
  void heal();
  [[nodiscard]] bool run_until(TimeNs end);
  [[nodiscard]] std::string unfinished() const;
  [[nodiscard]] Address manager_address(size_t manager) const { return options_.nodes + manager; }
  [[nodiscard]] Address client_address(size_t client) const { return options_.nodes + 2 + client; }
  [[nodiscard]] static Address node_address(NodeId node) { return node - 1; }
  [[nodiscard]] SimNode& node(NodeId id) { return *nodes_[id - 1]; }

  // replication_world_faults.cc
  void start_faults();
  [[nodiscard]] SimNode& any_node();
  void crash(SimNode& node, bool power_cut, bool other_disk, DurationNs down_ns);
  [[nodiscard]] bool may_lose(const SimNode& node) const;
  void kill();
  void power_cut();
  void blackout();
  void replace_disk();
  void pause();
  void partition();
  void clog();
  void stall();
  void hang();
  void fill();
  void crash_manager();
  void lose_store();
  void transfer();
  void coup();
  void depose_cut_off(size_t shard);
  void see_saw();
  void transfer_at(TimeNs when, size_t shard, NodeId to);
  void change_clock();

  const ReplicationSimOptions options_;
  SimKernel kernel_;
  Oracle oracle_;
  SimNetwork network_;
  MetadataStoreModel store_;
  std::vector<std::unique_ptr<ViewManagerModel>> managers_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  Histories histories_;
  FaultSchedule faults_{kernel_};
  bool healed_ = false;
  uint64_t views_ = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_REPLICATION_WORLD_H_
