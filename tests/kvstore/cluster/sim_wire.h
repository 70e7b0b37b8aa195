// SimWire: the network between the RPC endpoints of the simulation, in the kernel's time.
//
//    node or client --- poll() ---> endpoint --- packets ---> rpc::SimNetwork
//         ^                                                        |
//         +--- arrived() <--- event in the kernel's queue <--------+  when the next packet is due
//
// The network has a clock and a queue of its own. Whoever is about to use an endpoint calls enter(), which brings that
// clock to the kernel's time. Afterwards leave() plans the event at which the next packet arrives.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_SIM_WIRE_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_SIM_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "rpc/transport/sealed/packet_protection.h"
#include "rpc/transport/sim/sim_network.h"
#include "tests/kvstore/replication/sim_network.h"
#include "tests/rpc/crypto/nonce_watch.h"

namespace skua::kv::sim {

class SimWire {
 public:
  SimWire(SimKernel& kernel, const NetworkOptions& options, rpc::PacketProtection packets);

  /// An endpoint's transport. `arrived` runs when there is something for poll(). Before the transport is destroyed:
  /// detach().
  [[nodiscard]] std::shared_ptr<rpc::SimTransport> attach(Address address, const rpc::EndpointIdentity& identity,
                                                          std::function<void()> arrived);
  void detach(Address address) { ends_.erase(address); }
  /// What its endpoint uses: the transport, sealed if the packets of this world are. Keys change every few frames. A
  /// nonce that is used twice breaks the promise of sealing.
  [[nodiscard]] std::shared_ptr<rpc::Transport> protect(const std::shared_ptr<rpc::SimTransport>& wire);

  void enter();
  void leave();

  /// The clock of all endpoints.
  [[nodiscard]] const Clock& clock() const { return network_.clock(); }
  /// A time of that clock, as the kernel's time.
  [[nodiscard]] static TimeNs kernel_time(TimeNs endpoint_time) {
    return endpoint_time == kTimeNever ? kTimeNever : endpoint_time - kClockAheadNs;
  }

  void cut(Address from, Address to, TimeNs until) { network_.block(name(from), name(to), until + kClockAheadNs); }
  void clog(Address from, Address to, TimeNs until) { network_.hold_back(name(from), name(to), until + kClockAheadNs); }
  /// From now on the network does what a network should.
  void heal();

 private:
  struct End {
    rpc::SimTransport* transport = nullptr;
    std::function<void()> arrived;
  };
  /// The clock of a SimNetwork begins at one second.
  static constexpr DurationNs kClockAheadNs = kSecond;
  /// No transport has the address 0.
  [[nodiscard]] static uint32_t name(Address address) { return static_cast<uint32_t>(address) + 1; }

  SimKernel& kernel_;
  const NetworkOptions& options_;
  const rpc::PacketProtection packets_;
  rpc::SimNetwork network_;
  std::map<Address, End> ends_;
  rpc::NonceWatch nonces_;       // of all frames that were ever sealed
  TimeNs planned_ = kTimeNever;  // by the kernel's time
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_SIM_WIRE_H_
