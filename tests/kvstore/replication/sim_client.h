// A client: one operation at a time, repeated with the same number at other nodes until there is an answer (or it has
// had enough).
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SIM_CLIENT_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SIM_CLIENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kvstore/replication/linearizability.h"
#include "tests/kvstore/replication/shard_state.h"
#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

struct ClientOptions {
  size_t nodes = 3;
  size_t shards = 1;
  size_t clients = 3;
  size_t keys = 8;
  DurationNs think_ns = 50 * kMillisecond;
  DurationNs patience_ns = 500 * kMillisecond;
  double write_share = 0.5;
  double abandon = 0;
  bool read_anywhere = false;
  bool conditional_writes = true;
  uint32_t text_one_in = 0;  // keys that are only put and read: a store may give them long values; 0: none

  [[nodiscard]] bool is_text(uint32_t key) const { return text_one_in != 0 && key % text_one_in == 0; }
};

struct ClientRequest {
  RequestId id;
  size_t shard = 0;
  Operation operation;
};

struct ClientReply {
  RequestId id;
  bool is_done = false;
  int64_t result = 0;
  uint64_t try_next = 0;  // a node, if it is known
};

/// What clients did, by shard and key.
struct Histories {
  std::vector<std::vector<std::vector<HistoryOp>>> ops;
  std::vector<std::vector<size_t>> abandoned;
  std::vector<std::vector<int64_t>> last_seen;
  uint64_t moments = 0;
  int64_t values = 0;

  Histories(size_t shards, size_t keys)
      : ops(shards, std::vector<std::vector<HistoryOp>>(keys)),
        abandoned(shards, std::vector<size_t>(keys)),
        last_seen(shards, std::vector<int64_t>(keys)) {}
  /// The first of them that is not linearizable, in words; empty: all are.
  [[nodiscard]] std::string trouble() const;
};

class ClientWorld {
 public:
  virtual ~ClientWorld() = default;
  virtual void to_node(size_t client, uint64_t node, const ClientRequest& request) = 0;
};

class SimClient {
 public:
  SimClient(SimKernel& kernel, const ClientOptions& options, ClientWorld& world, Histories& histories, size_t number)
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
  const ClientOptions& options_;
  ClientWorld& world_;
  Histories& histories_;
  const size_t number_;
  std::vector<uint64_t> hints_;

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
