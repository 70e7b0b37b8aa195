// The network between nodes, managers and clients: loses, repeats, delays and reorders, is cut one way or both, and
// clogs (holds back, then delivers all at once).
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SIM_NETWORK_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SIM_NETWORK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

/// Of a node, a manager or a client.
using Address = size_t;

struct NetworkOptions {
  DurationNs latency_ns = 100 * kMicrosecond;
  DurationNs jitter_ns = 200 * kMicrosecond;
  double loss = 0;
  double duplicate = 0;
  double delay = 0;  // share of messages that take long
  DurationNs delay_ns = 0;
  bool ordered = false;  // between two processes
};

class SimNetwork {
 public:
  SimNetwork(SimKernel& kernel, const NetworkOptions& options, size_t addresses)
      : kernel_(kernel), options_(options), count_(addresses), links_(addresses * addresses) {}

  /// `deliver` may run never, once or several times.
  void send(Address from, Address to, std::function<void()> deliver);
  void cut(Address from, Address to, TimeNs until) { link(from, to).cut_until = until; }
  void clog(Address from, Address to, TimeNs until) { link(from, to).clogged_until = until; }
  /// From now on it does what a network should.
  void heal();

 private:
  struct Link {
    TimeNs cut_until = 0;
    TimeNs clogged_until = 0;
    TimeNs last_arrival = 0;
  };
  Link& link(Address from, Address to) { return links_[from * count_ + to]; }
  void schedule(Link& link, std::function<void()> deliver);

  SimKernel& kernel_;
  const NetworkOptions& options_;
  const size_t count_;
  bool healed_ = false;
  std::vector<Link> links_;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SIM_NETWORK_H_
