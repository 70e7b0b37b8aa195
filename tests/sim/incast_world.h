// Incast: N servers answer one client at once, through a switch whose buffer all share, while a bystander talks to the
// same client.
//
//      server 1..N --1 MiB responses--+
//                                     +--> [shared buffer] --client's link--> client --- calls all N, waits for all, again
//      bystander ---64-byte calls-----+                                       (serves the bystander)
//
// What must hold: nothing is dropped, the link is busy, and the bystander hardly notices.
#ifndef SKUA_TESTS_SIM_INCAST_WORLD_H_
#define SKUA_TESTS_SIM_INCAST_WORLD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc::sim {

struct IncastOptions {
  uint64_t seed = 1;
  uint32_t server_count = 16;
  uint32_t rounds = 8;
  uint32_t response_bytes = 1u << 20;
  uint64_t gigabits_per_s = 100;
  size_t buffer_bytes = 512u << 10;
  uint32_t payload_bytes = 1024;
  DurationNs latency_ns = 5 * kMicrosecond;
  DurationNs bystander_every_ns = 10 * kMicrosecond;
  ProtocolOptions protocol;
};

struct IncastResult {
  uint64_t tail_dropped = 0;
  uint64_t ring_overflowed = 0;
  uint64_t retransmits = 0;
  /// Most that has stood in the switch at once.
  size_t switch_peak_bytes = 0;
  /// Of response payload, as a part of what the client's link carries.
  double link_use = 0;
  double goodput_gigabits_per_s = 0;
  uint64_t bystander_calls = 0;
  DurationNs bystander_p50_ns = 0;
  DurationNs bystander_p99_ns = 0;
  /// Calls that failed or brought other bytes; empty: none.
  std::vector<std::string> violations;
};

/// Deterministic in `options`. With no servers the bystander is alone, for as long as `rounds` milliseconds.
[[nodiscard]] IncastResult run_incast(const IncastOptions& options);

}  // namespace skua::rpc::sim

#endif  // SKUA_TESTS_SIM_INCAST_WORLD_H_
