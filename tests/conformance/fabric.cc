#include "tests/conformance/fabric.h"

#include <algorithm>
#include <map>

#include "rpc/base/check.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::rpc::conformance {
namespace {

EndpointIdentity identity_of(uint32_t host, uint64_t incarnation) {
  EndpointIdentity identity;
  identity.uuid.bytes = {0x5c, 0, 0, static_cast<uint8_t>(host + 1)};
  identity.incarnation = incarnation;
  identity.cluster_id.bytes = {0xc1};
  return identity;
}

class SimFabric : public Fabric {
 public:
  explicit SimFabric(const SimFaults& faults) : network_(7) { network_.set_faults(faults); }

  std::unique_ptr<Transport> make_transport(uint32_t host) override {
    return network_.attach(host, identity_of(host, ++incarnations_[host]), {});
  }
  const Clock& clock() const override { return network_.clock(); }
  void let_time_pass(TimeNs next_timer_ns) override {
    const TimeNs next = std::min(network_.next_event_ns(), next_timer_ns);
    network_.advance_to(next == kTimeNever ? network_.now_ns() + kMillisecond : std::max(next, network_.now_ns()));
  }

 private:
  SimNetwork network_;
  std::map<uint32_t, uint64_t> incarnations_;
};

class TcpFabric : public Fabric {
 public:
  std::unique_ptr<Transport> make_transport(uint32_t host) override {
    TcpOptions options;
    options.listen_ip = "127.0.0.1";
    options.self = identity_of(host, ++incarnations_[host]);
    absl::StatusOr<std::unique_ptr<TcpTransport>> transport = TcpTransport::create(options);
    SKUA_CHECK(transport.ok(), std::string(transport.status().message()).c_str());
    return *std::move(transport);
  }
  const Clock& clock() const override { return clock_; }
  void let_time_pass(TimeNs) override {}

 private:
  SteadyClock clock_;
  std::map<uint32_t, uint64_t> incarnations_;
};

}  // namespace

std::vector<FabricKind> all_fabrics() {
  return {
      {"Sim", [](std::string&) { return std::make_unique<SimFabric>(SimFaults{}); }},
      {"SimLossy",
       [](std::string&) {
         return std::make_unique<SimFabric>(
             SimFaults{.loss = 0.1, .duplicate = 0.1, .corrupt = 0.05, .reorder = 0.2, .late_tx = 0.5, .tx_full = 0.2});
       }},
      {"Tcp", [](std::string&) { return std::make_unique<TcpFabric>(); }},
  };
}

}  // namespace skua::rpc::conformance
