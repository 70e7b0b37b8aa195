// A cluster for tests of the client: nodes that are endpoints with a small key-value store behind them, and a control
// plane that is a struct. A test scripts the answers it wants and leaves the rest to the store.
#ifndef SKUA_TESTS_KVSTORE_CLIENT_FAKE_CLUSTER_H_
#define SKUA_TESTS_KVSTORE_CLIENT_FAKE_CLUSTER_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kvstore/client/cluster_access.h"
#include "kvstore/codec/batch.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/types/features.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// What a node keeps on its "disk": survives restarts.
struct FakeStore {
  struct Entry {
    std::string value;
    uint64_t version = 0;
    uint64_t ttl_ms = 0;  // no time passes
    RecordMark mark{};
  };
  /// What it has answered to a client's writes in one shard.
  struct Answers {
    uint64_t first_incomplete = 0;
    std::map<uint64_t, std::string> by_seq;
  };
  std::map<std::string, Entry> entries;
  std::map<std::pair<uint64_t, uint32_t>, Answers> answers;  // by client and shard
  uint64_t next_version = 1;
};

/// One worker of one node: an endpoint that answers the key-value protocol for the shards it owns.
class FakeNode {
 public:
  /// Looks at a request before the store does. True: it was answered (or swallowed).
  using Script = std::function<bool(rpc::IncomingCall& call)>;

  FakeNode(std::string uuid, uint64_t incarnation, std::unique_ptr<rpc::Transport> transport, const Clock& clock,
           std::shared_ptr<FakeStore> store);

  [[nodiscard]] rpc::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] const std::string& uuid() const { return uuid_; }
  [[nodiscard]] uint64_t incarnation() const { return incarnation_; }
  [[nodiscard]] std::string grpc_address() const { return uuid_ + ":7401"; }

  /// The epoch of each shard it believes to own, and where the table's keys are.
  std::map<uint32_t, uint64_t> owned;
  KeyPlacement placement{1};
  uint64_t map_revision = 1;
  Features features = kNodeFeatures;  // what it says that it knows
  std::set<std::string> cold_keys{};  // those that a MULTI_GET of what memory has leaves out
  Script script;
  /// Looks at a write that was executed, before it is answered. True: the answer is lost, or was another.
  Script before_answer;
  uint64_t requests = 0;
  /// Of the writes that came, and how many of them were executed.
  std::vector<RequestId> ids;
  uint64_t executed = 0;

  static void reply_error(rpc::IncomingCall& call, KvStatus status, std::string_view text, uint64_t version = 0);

 private:
  void serve(rpc::IncomingCall call);
  void get(rpc::IncomingCall& call);
  void write(rpc::IncomingCall& call, uint32_t shard);
  void batch(rpc::IncomingCall& call);
  MutationResult apply(const Mutation& op);
  void answer_write(rpc::IncomingCall& call, std::string bytes);
  void multi_get(rpc::IncomingCall& call);
  void scan(rpc::IncomingCall& call);

  const std::string uuid_;
  const uint64_t incarnation_;
  const std::shared_ptr<FakeStore> store_;
  const std::unique_ptr<rpc::Transport> transport_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
};

/// The control plane and the nodes' bootstrap services, as the client sees them. Thread: any.
class FakeControl {
 public:
  /// Publishes a map in which table "t" has these owners (indices into `nodes`), one per shard.
  void publish(const std::vector<FakeNode*>& nodes, const std::vector<uint32_t>& owners, uint64_t epoch);
  void publish(control::ShardMap map);
  [[nodiscard]] uint64_t revision();

  /// Nodes that answer bootstrap calls, by their grpc_address.
  void attach(FakeNode& node);
  void detach(const FakeNode& node);

  /// What the next bootstrap calls answer instead.
  void set_bootstrap_error(absl::Status error);
  /// Bootstrap calls to this address get no answer, as those to a process that is stopped.
  void set_silent(std::string grpc_address);
  /// What nodes say that they speak; empty: the truth.
  void set_transport_kind(std::string kind);
  /// Run on the node's own thread (tests with threads) instead of at once.
  void set_threaded() { threaded_ = true; }

  [[nodiscard]] std::unique_ptr<ClusterAccess> access();

  uint64_t describes = 0;
  uint64_t hurries = 0;

 private:
  friend class FakeAccess;

  std::mutex mutex_;
  std::shared_ptr<const control::ShardMap> map_;
  ClusterAccess::MapFn on_map_;
  std::map<std::string, FakeNode*> nodes_;
  absl::Status bootstrap_error_;
  std::string silent_;
  std::string transport_kind_;
  bool threaded_ = false;
};

/// A map of one table, "t" (id 7), with a shard for each owner.
control::ShardMap make_map(uint64_t revision, const std::vector<FakeNode*>& nodes, const std::vector<uint32_t>& owners,
                           uint64_t epoch);

}  // namespace skua::kv

#endif  // SKUA_TESTS_KVSTORE_CLIENT_FAKE_CLUSTER_H_
