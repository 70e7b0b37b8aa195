#include "tests/kvstore/cluster/sim_wire.h"

#include <algorithm>
#include <utility>

namespace skua::kv::sim {
namespace {

/// The least time between two packets that arrive in any order.
constexpr DurationNs kJitterMin = kMicrosecond;

rpc::SimFaults faults_of(const NetworkOptions& options, bool healed) {
  rpc::SimFaults faults;
  faults.reorder = options.ordered ? 0 : 1;
  faults.reorder_max_ns = std::max(options.jitter_ns, kJitterMin);
  if (healed) return faults;
  faults.loss = options.loss;
  faults.duplicate = options.duplicate;
  faults.clog = options.delay;
  faults.clog_max_ns = std::max(options.delay_ns, kJitterMin);
  return faults;
}

}  // namespace

SimWire::SimWire(SimKernel& kernel, const NetworkOptions& options)
    : kernel_(kernel), options_(options), network_(kernel.rng.next()) {
  network_.set_faults(faults_of(options_, false));
}

std::unique_ptr<rpc::SimTransport> SimWire::attach(Address address, const rpc::EndpointIdentity& identity,
                                                   std::function<void()> arrived) {
  rpc::SimTransportOptions options;
  options.latency_ns = options_.latency_ns;
  options.rx_ring = 256;
  auto transport = network_.attach(name(address), identity, options);
  ends_[address] = {transport.get(), std::move(arrived)};
  return transport;
}

void SimWire::enter() {
  network_.advance_to(kernel_.now() + kClockAheadNs);
  for (auto& [address, end] : ends_) {
    if (end.transport->has_received()) end.arrived();
  }
}

void SimWire::leave() {
  const TimeNs next = kernel_time(network_.next_event_ns());
  if (next >= planned_) return;
  planned_ = next;
  kernel_.queue.at(next, [this, next] {
    if (planned_ != next) return;
    planned_ = kTimeNever;
    enter();
    leave();
  });
}

void SimWire::heal() {
  network_.heal();
  network_.set_faults(faults_of(options_, true));
}

}  // namespace skua::kv::sim
