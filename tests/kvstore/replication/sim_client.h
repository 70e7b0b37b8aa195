// A client: one operation at a time, repeated with the same number at other nodes until there is an answer (or it has had
// enough).
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SIM_CLIENT_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SIM_CLIENT_H_

#include <cstdint>
#include <vector>

#include "tests/kvstore/replication/linearizability.h"
#include "tests/kvstore/replication/replica_driver.h"
#include "tests/kvstore/replication/replication_options.h"
#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

/// What clients did, by shard and key.
struct Histories {
  std::vector<std::vector<std::vector<HistoryOp>>> ops;
  std::vector<std::vector<size_t>> abandoned;
  std::vector<std::vector<int64_t>> last_seen;
  uint64_t moments = 0;
  int64_t values = 0;
};

class ClientWorld {
 public:
  virtual ~ClientWorld() = default;
  virtual void to_node(size_t client, NodeId node, const ClientRequest& request) = 0;
};

class SimClient {
 public:
  SimClient(SimKernel& kernel, const ReplicationSimOptions& options, ClientWorld& world, Histories& histories,
            size_t number)
      : kernel_(kernel),
        options_(options),
        world_(world),
        histories_(histories),
        number_(number),
        hints_(options.shards) {}

  void start() { next_after(0); }
  void on_reply(const ClientReply& reply);
  /// Finishes what it does, then reads every key once and rests.
  void finish(bool read_all);
  [[nodiscard]] bool is_idle() const { return idle_; }
  [[nodiscard]] uint64_t answered() const { return answered_; }
  [[nodiscard]] const ClientRequest& request() const { return request_; }

 private:
  void next_after(DurationNs think);
  void begin();
  void choose();
  void attempt();
  void attempt_after(DurationNs pause);
  [[nodiscard]] HistoryOp& op() { return histories_.ops[request_.shard][request_.operation.key][op_]; }
  [[nodiscard]] bool abandons();

  SimKernel& kernel_;
  const ReplicationSimOptions& options_;
  ClientWorld& world_;
  Histories& histories_;
  const size_t number_;
  std::vector<NodeId> hints_;

  ClientRequest request_;
  size_t op_ = 0;
  bool under_way_ = false;
  uint64_t attempts_ = 0;
  uint64_t attempt_number_ = 0;  // of all
  uint64_t answered_ = 0;
  bool finishing_ = false;
  bool idle_ = false;
  size_t to_read_ = 0;  // keys of all shards, when finishing
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SIM_CLIENT_H_
