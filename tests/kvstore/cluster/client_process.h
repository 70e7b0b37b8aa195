// A client's process: it carries the requests of a SimClient to nodes in the service's own encoding, over sessions of
// the RPC engine, and learns epochs from shard maps and from what nodes answer.
//
//    SimClient --- send(node, request) ---> Endpoint --- session ---> the node's ShardServer
//        ^                                      |
//        +------- answered(reply) <-------------+   OK; or not done, with the node to try next
//
// A session is opened by an offer and its answer, as through the nodes' bootstrap service. A session on which a call
// failed is closed, and the next request opens another.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CLIENT_PROCESS_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CLIENT_PROCESS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kvstore/codec/reply.h"
#include "rpc/endpoint.h"
#include "tests/kvstore/cluster/cluster_options.h"
#include "tests/kvstore/cluster/control_process.h"
#include "tests/kvstore/cluster/sim_wire.h"
#include "tests/kvstore/replication/oracle.h"

namespace skua::kv::sim {

/// What is around a client's process.
class ClientSurroundings {
 public:
  virtual ~ClientSurroundings() = default;
  /// nullopt: the node is down.
  [[nodiscard]] virtual std::optional<rpc::Descriptor> descriptor_of(uint64_t node) const = 0;
  /// Brings the offer to the node's worker, and the worker's answer back. Either may be lost.
  virtual void offer_session(size_t client, uint64_t node, const std::string& offer,
                             std::function<void(const std::string& answer)> done) = 0;
  virtual void answered(size_t client, const ClientReply& reply) = 0;
};

class ClientProcess {
 public:
  ClientProcess(SimKernel& kernel, Oracle& oracle, SimWire& wire, const ClusterSimOptions& options,
                ClientSurroundings& world, size_t number, Address address);
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  void on_map(const MapPtr& map);
  void send(uint64_t node, const ClientRequest& request);

 private:
  /// A request under way.
  struct Sent {
    uint64_t node = 0;
    ClientRequest request;
    uint64_t shown_before = 0;  // of a GET: the version that clients had been shown when the request was sent
    rpc::SessionId session;
  };

  [[nodiscard]] std::optional<rpc::SessionId> session_to(uint64_t node);
  void give_up(uint64_t node, rpc::SessionId session);
  [[nodiscard]] rpc::MessagePtr encode(const ClientRequest& request);
  void on_result(const Sent& sent, const rpc::CallResult& result);
  void on_get(const Sent& sent, const GetReply& reply);
  void on_write(const Sent& sent, const WriteReply& reply, int64_t result);
  void redirect(const Sent& sent, const ReplyHead& head);
  void kick();
  void poll();

  SimKernel& kernel_;
  Oracle& oracle_;
  SimWire& wire_;
  const ClusterSimOptions& options_;
  ClientSurroundings& world_;
  const size_t number_;
  const Address address_;
  std::shared_ptr<rpc::SimTransport> transport_;
  std::shared_ptr<rpc::Transport> protected_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
  std::map<uint64_t, rpc::SessionId> sessions_;  // by node
  std::vector<uint64_t> epochs_;                 // by shard
  std::vector<uint64_t> primaries_;              // by shard: the number of a node; 0: not known
  uint64_t map_revision_ = 0;
  bool poll_scheduled_ = false;
  TimeNs timer_at_ = kTimeNever;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CLIENT_PROCESS_H_
