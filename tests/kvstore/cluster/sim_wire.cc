#include "tests/kvstore/cluster/sim_wire.h"

#include <algorithm>
#include <utility>

#include "rpc/transport/sealed/sealed_transport.h"

namespace skua::kv::sim {
namespace {

/// The least time between two packets that arrive in any order.
constexpr DurationNs kJitterMin = kMicrosecond;

constexpr uint64_t kFramesPerKey = 4;

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

SimWire::SimWire(SimKernel& kernel, const NetworkOptions& options, rpc::PacketProtection packets)
    : kernel_(kernel), options_(options), packets_(packets), network_(kernel.rng.next()), nonces_([&kernel] {
        kernel.break_promise("two frames were sealed under one key with one nonce");
      }) {
  network_.set_faults(faults_of(options_, false));
}

std::shared_ptr<rpc::SimTransport> SimWire::attach(Address address, const rpc::EndpointIdentity& identity,
                                                   std::function<void()> arrived) {
  rpc::SimTransportOptions options;
  options.latency_ns = options_.latency_ns;
  options.rx_ring = 256;
  std::shared_ptr<rpc::SimTransport> transport = network_.attach(name(address), identity, options);
  ends_[address] = {transport.get(), std::move(arrived)};
  return transport;
}

std::shared_ptr<rpc::Transport> SimWire::protect(const std::shared_ptr<rpc::SimTransport>& wire) {
  using rpc::PacketProtection;
  if (packets_ == PacketProtection::kOff) return wire;
  rpc::SealedOptions options;
  options.mode = packets_ == PacketProtection::kEncrypt ? rpc::SealMode::kEncrypt : rpc::SealMode::kAuthenticate;
  options.rotation.frames = kFramesPerKey;
  options.random = [rng = Rng(kernel_.rng.next())](MutableByteSpan bytes) mutable {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  };
  options.make_aead = nonces_.maker();
  return std::make_shared<rpc::SealedTransport>(wire, network_.clock(), std::move(options));
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
