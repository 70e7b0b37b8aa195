// A world of a few endpoints under one seed: the engine as it runs in production, over the
// simulated network.
//
// A run has two phases. Safety: a random subset of faults (loss, duplication, reordering,
// corruption, late completion, partial bursts, partitions, crashes) while every node calls every
// other in all ways the engine knows. Liveness: the faults stop, and everything must come to an
// end. What must hold:
//
//   - every accepted call completes exactly once, not after its deadline
//   - bytes arrive as they were sent, and stay so as long as a lease is held
//   - a handler runs at most once per call, and not at all if the caller was told so
//   - a call answered OK ran its handler exactly once
//   - memory given to the wire does not change before it is given back
//   - bundles echo their receiver's own time stamps, and end where their records do
//   - small calls go in bundles once their sessions have had time to join
//   - sealed packets: no nonce is used twice under a key, and nothing goes in the clear
//   - at rest: no calls, handlers, lent buffers, assembly buffers, messages; all credits back
#ifndef SKUA_TESTS_SIM_RPC_WORLD_H_
#define SKUA_TESTS_SIM_RPC_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc::sim {

struct WorldOptions {
  uint64_t seed = 1;
  uint32_t node_count = 3;
  uint32_t call_count = 300;
  /// Large messages are up to this.
  uint32_t message_max_bytes = 64u << 10;
  /// One call in this many is large.
  uint32_t large_one_in = 20;
  /// Upper bound of each packet fault's probability; each seed draws its own below it, or none.
  double fault_max = 0.3;
  /// If not negative: exactly this loss and no other fault, no crashes (soak runs).
  double fixed_loss = -1;
  bool crashes = true;
  /// Nodes renew their sessions all the time while large messages that the receiver reads are under way, and the memory
  /// that they get back is used for the next message at once. Packets are lost and late; nodes do not crash.
  bool memory_taken_back = false;
  /// Packets go by connections, as over TCP, which break: each packet that would be lost is one that breaks its
  /// connection.
  bool connections = false;
  /// Packets are sealed: encrypted, or only authenticated, as the seed says. Each fourth frame has a new key. Sessions
  /// are opened beside the packets. What is in bundles is not seen then.
  bool sealed = false;
  uint32_t concurrent_max = 32;
  /// Whether all nodes speak version 2 of the protocol; unset: each seed draws it, mostly all, sometimes some or none.
  std::optional<bool> bundles;
  /// Every node's; unset: each node draws its own, and knobs that make it bite.
  std::optional<CongestionControl> congestion;
};

struct WorldResult {
  /// The first broken promises, in words; empty: all held.
  std::vector<std::string> violations;
  uint64_t trace_hash = 0;
  uint64_t calls = 0;
  uint64_t ok = 0;
  uint64_t retransmits = 0;
  uint64_t bytes_verified = 0;
  DurationNs virtual_ns = 0;
  /// Until the last call of the safety phase completed.
  DurationNs busy_ns = 0;
  std::map<std::string, uint64_t> outcomes;
  std::map<std::string, uint64_t> coverage;
  std::string faults;
};

/// Runs one world to its end. Deterministic in `options`.
[[nodiscard]] WorldResult run_world(const WorldOptions& options);

}  // namespace skua::rpc::sim

#endif  // SKUA_TESTS_SIM_RPC_WORLD_H_
