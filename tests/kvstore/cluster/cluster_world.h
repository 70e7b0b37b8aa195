// A whole cluster in one thread, under one seed and a virtual clock. Storage nodes run a production worker (endpoint,
// ShardServer, WorkerReplication, engine, log, memory tier) on simulated disks. Control processes run the production
// core over a simulated metadata store. Clients speak the service's encoding. Everything may go wrong.
//
//    SimClient, ClientProcess --+-- SimWire: RPC packets --+-- ClusterNode: ShardServer, WorkerReplication --> Machine
//        |                      +--------------------------+        |  ^                              (log, databases)
//        |                                          heartbeats, ... v  | maps   (SimNetwork)
//        |                            ControlProcess (1 to 3): ClusterCore --CAS, lease--> ClusterStore
//        +--- histories ---> linearizability.h          Oracle: sees all of it
//
// A run has two phases. First faults of all kinds; then everything heals, and within a bounded time every operation has
// its answer, every shard all its replicas, and all replicas are equal.
//
// The promises that are checked, as in tests/kvstore/replication/replication_world.h
//   I1   views follow one another by control/core/view_rules.h; nodes are told no others
//   I2   an epoch is durable before a replica says anything in it
//   I3   logs match, also as recovery brings them back
//   I4   what is committed is there, synced, on every member of the view that stands, also after a restart
//   I5   a backup takes nothing for committed that no primary did; nobody two different entries
//   I6   (by I12: a database has what is committed and nothing else)
//   I7   the primary of an epoch was a member in the one before
//   I8   no read shows less than somebody was shown before it was sampled; and, per key, all that clients were told is
//        linearizable
//   I9   a request is executed once at most
//   I10  no write is taken with fewer members than min_insync
//   I11  when a primary commits, nobody of an older epoch may serve reads alone
//   I12  databases are what the log makes them: after each restart, in each copy, and in the end
// After an operator's forced recovery (a fork) only the last of these is promised for that shard: its replicas are
// alike.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_WORLD_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_WORLD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/kvstore/cluster/client_process.h"
#include "tests/kvstore/cluster/cluster_node.h"
#include "tests/kvstore/cluster/cluster_options.h"
#include "tests/kvstore/cluster/cluster_store.h"
#include "tests/kvstore/cluster/control_process.h"
#include "tests/kvstore/replication/fault_schedule.h"
#include "tests/kvstore/replication/oracle.h"
#include "tests/kvstore/replication/seed_runner.h"
#include "tests/kvstore/replication/sim_client.h"
#include "tests/kvstore/replication/sim_network.h"

namespace skua::kv::sim {

class ClusterWorld final : public SimWorld,
                           public NodeSurroundings,
                           public ControlWorld,
                           public ClientWorld,
                           public ClientSurroundings {
 public:
  ClusterWorld(const ClusterSimOptions& options, WorldMutant mutant, bool verbose);
  ~ClusterWorld() override;

  // --- SimWorld

  std::optional<std::string> run() override;
  [[nodiscard]] uint64_t trace() const override { return kernel_.trace; }
  [[nodiscard]] SimTally tally() const override;
  [[nodiscard]] std::string describe() const override { return options_.describe(); }

  // --- NodeSurroundings, ControlWorld, ClientWorld, ClientSurroundings

  void to_peer(ClusterNode& from, std::shared_ptr<const NodeMessage> message) override;
  void to_control(ClusterNode& from, size_t control, const ControlRequest& request) override;
  void describe(ClusterNode& from, const std::string& address, PeerBootstrap::DescribeFn done) override;
  void open_session(ClusterNode& from, const control::OpenSessionRequest& request,
                    PeerBootstrap::OpenSessionFn done) override;
  [[nodiscard]] bool is_healed() const override { return healed_; }
  void entry_committed(size_t shard, uint64_t index, const LogEntry& entry, const Replica& replica) override;
  void shard_opened(ClusterNode& node, size_t shard) override;
  void view_told(size_t shard, const View& view) override { oracle_.view_told(shard, view); }
  void process_ended(ClusterNode& node) override;
  void answer(size_t control, const ControlRequest& request, const ControlReply& reply) override;
  void publish(size_t control, const MapPtr& map) override;
  void to_node(size_t client, uint64_t node, const ClientRequest& request) override;
  [[nodiscard]] std::optional<rpc::Descriptor> descriptor_of(uint64_t node) const override;
  void offer_session(size_t client, uint64_t node, const std::string& offer,
                     std::function<void(const std::string& answer)> done) override;
  void answered(size_t client, const ClientReply& reply) override { clients_[client]->on_reply(reply); }

 private:
  // cluster_world.cc
  void start();
  [[nodiscard]] control::ClusterState first_state() const;
  void run_phases();
  [[nodiscard]] bool settle();
  [[nodiscard]] bool run_until(TimeNs end);
  void heal();
  [[nodiscard]] std::string unfinished();
  [[nodiscard]] std::string unfinished_shard(size_t shard);
  void check_equal(size_t shard);
  void print_replicas() const;
  void decided(const control::Changes& changes, const control::ClusterState& before);
  void forked(size_t shard);
  void check_members_have(size_t shard, const View& view, uint64_t index);
  [[nodiscard]] bool is_viable(const control::Changes& changes) const;
  [[nodiscard]] const View& view(size_t shard) const { return views_[shard]; }
  [[nodiscard]] ClusterNode* node_of(NodeId id) const;
  [[nodiscard]] ClusterNode* node_of(const ReplicaId& id) const;
  [[nodiscard]] bool is_intact(const ReplicaId& id) const;
  /// Asks the node at the address. Question and answer go over the network; `done` runs once, perhaps with an error.
  template <typename Answer>
  void ask_node(ClusterNode& from, const std::string& address,
                std::function<absl::StatusOr<Answer>(ClusterNode&)> question,
                std::function<void(absl::StatusOr<Answer>)> done);
  void cut(Address from, Address to, TimeNs until);
  [[nodiscard]] ClusterNode& node(size_t number) const { return *nodes_[number - 1]; }
  [[nodiscard]] Address node_address(size_t number) const { return number - 1; }
  [[nodiscard]] Address control_address(size_t control) const { return options_.nodes + control; }
  [[nodiscard]] Address client_address(size_t client) const { return options_.nodes + options_.controls + client; }
  [[nodiscard]] size_t addresses() const { return options_.nodes + options_.controls + options_.clients; }

  // cluster_world_faults.cc
  void start_faults();
  [[nodiscard]] ClusterNode& any_node();
  [[nodiscard]] size_t any_shard() { return kernel_.rng.below(options_.shards); }
  void crash(ClusterNode& node, ClusterNode::End how, DurationNs down_ns);
  void start_node(ClusterNode& node);
  [[nodiscard]] bool may_lose(const ClusterNode& node) const;
  void power_cut();
  void blackout();
  void wipe();
  void rot();
  void pause();
  void partition();
  void clog();
  void stall();
  void hang();
  void fill();
  void fail_syncs();
  void crash_control();
  void pause_control();
  void lose_store();
  void transfer();
  void coup();
  void move();
  void drain();
  void fork();
  void ask_leader(control::Event event);

  const ClusterSimOptions options_;
  SimKernel kernel_;
  Oracle oracle_;
  SimNetwork network_;  // between the control plane and all others, and of bootstrap services
  SimWire wire_;        // between nodes and clients
  ClusterStore store_;
  std::vector<View> views_;  // as the store has them
  std::vector<std::unique_ptr<ControlProcess>> controls_;
  std::vector<std::unique_ptr<ClusterNode>> nodes_;
  std::vector<std::unique_ptr<ClientProcess>> client_processes_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  Histories histories_;
  FaultSchedule faults_{kernel_};
  bool healed_ = false;
  uint64_t views_decided_ = 0;
  std::set<size_t> rotten_;  // nodes whose logs were damaged, until they start
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CLUSTER_WORLD_H_
