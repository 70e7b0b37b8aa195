#include "tests/conformance/fabric.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "rpc/base/check.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/transport/faulty/faulty_transport.h"
#include "rpc/transport/sealed/sealed_transport.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "rpc/transport/verbs/verbs_fabric.h"

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
  explicit SimFabric(const SimFaults& faults, bool one_sided = false) : network_(7) {
    network_.set_faults(faults);
    options_.one_sided = one_sided;
  }

  std::unique_ptr<Transport> make_transport(uint32_t host) override {
    return network_.attach(host + 1, identity_of(host, ++incarnations_[host]), options_);
  }
  const Clock& clock() const override { return network_.clock(); }
  void let_time_pass(TimeNs next_timer_ns) override {
    const TimeNs next = std::min(network_.next_event_ns(), next_timer_ns);
    network_.advance_to(next == kTimeNever ? network_.now_ns() + kMillisecond : std::max(next, network_.now_ns()));
  }

 private:
  SimNetwork network_;
  SimTransportOptions options_;
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

/// Another fabric, sealed. Keys change often.
class SealedFabric : public Fabric {
 public:
  explicit SealedFabric(std::unique_ptr<Fabric> wires) : wires_(std::move(wires)) {}

  std::unique_ptr<Transport> make_transport(uint32_t host) override {
    SealedOptions options;
    options.mode = host % 2 == 0 ? SealMode::kEncrypt : SealMode::kAuthenticate;
    options.rotation.frames = 16;
    return std::make_unique<SealedTransport>(wires_->make_transport(host), wires_->clock(), options);
  }
  const Clock& clock() const override { return wires_->clock(); }
  void let_time_pass(TimeNs next_timer_ns) override { wires_->let_time_pass(next_timer_ns); }

 private:
  const std::unique_ptr<Fabric> wires_;
};

FabricKind sealed(const FabricKind& kind) {
  return {"Sealed" + kind.name, [kind](std::string& why_not) -> std::unique_ptr<Fabric> {
            std::unique_ptr<Fabric> wires = kind.make(why_not);
            return wires == nullptr ? nullptr : std::make_unique<SealedFabric>(std::move(wires));
          }};
}

constexpr uint16_t kDpdkHosts = 8;

/// The EAL starts once in a process, so all tests share one port: net_ring gives back what it is handed, mbufs and all,
/// so that a packet is done when its receiver lets go.
const absl::StatusOr<std::unique_ptr<DpdkFabric>>& dpdk_ring() {
  static const auto fabric = [] {
    DpdkOptions options;
    const char* address =
        std::getenv("SKUA_CONFORMANCE_DPDK_ADDRESS");  // NOLINT(concurrency-mt-unsafe): one thread yet
    options.ports = {{"net_ring0", address == nullptr ? "10.77.0.1/24" : address, ""}};
    options.lanes = kDpdkHosts;
    options.huge_pages = false;
    options.mbuf_count = 8191;
    return DpdkFabric::start(options);
  }();
  return fabric;
}

class DpdkRingFabric : public Fabric {
 public:
  explicit DpdkRingFabric(const FaultOptions& faults) : faults_(faults) {}

  std::unique_ptr<Transport> make_transport(uint32_t host) override {
    SKUA_CHECK(host < kDpdkHosts, "more hosts than lanes");
    // Packets of earlier tests may still wait in the shared ring: every life is a later one.
    static uint64_t incarnation = 0;
    auto transport = (*dpdk_ring())->make_transport(static_cast<uint16_t>(host), identity_of(host, ++incarnation));
    SKUA_CHECK(transport.ok(), std::string(transport.status().message()).c_str());
    if (faults_.loss == 0) return *std::move(transport);
    return std::make_unique<FaultyTransport>(*std::move(transport), faults_);
  }
  const Clock& clock() const override { return clock_; }
  void let_time_pass(TimeNs) override {}

 private:
  const FaultOptions faults_;
  SteadyClock clock_;
};

FabricKind dpdk_kind(const char* name, const FaultOptions& faults) {
  return {name, [faults](std::string& why_not) -> std::unique_ptr<Fabric> {
            if (dpdk_ring().ok()) return std::make_unique<DpdkRingFabric>(faults);
            why_not = std::string(dpdk_ring().status().message());
            return nullptr;
          }};
}

/// Which process a host is of.
enum class VerbsProcesses : uint8_t { kOneForAll, kOneForEach };

class VerbsTestFabric : public Fabric {
 public:
  VerbsTestFabric(std::unique_ptr<VerbsFabric> fabric, const FaultOptions& faults, VerbsProcesses processes)
      : fabric_(std::move(fabric)), faults_(faults), processes_(processes) {}

  std::unique_ptr<Transport> make_transport(uint32_t host) override {
    std::unique_ptr<VerbsFabric>& own = fabrics_[host];
    if (processes_ == VerbsProcesses::kOneForEach && own == nullptr) own = VerbsFabric::start({}).value();
    auto transport = (own != nullptr ? own : fabric_)->make_transport(identity_of(host, ++incarnations_[host]));
    SKUA_CHECK(transport.ok(), std::string(transport.status().message()).c_str());
    if (faults_.loss == 0) return *std::move(transport);
    return std::make_unique<FaultyTransport>(*std::move(transport), faults_);
  }
  const Clock& clock() const override { return clock_; }
  void let_time_pass(TimeNs) override {}

 private:
  const std::unique_ptr<VerbsFabric> fabric_;
  const FaultOptions faults_;
  const VerbsProcesses processes_;
  std::map<uint32_t, std::unique_ptr<VerbsFabric>> fabrics_;
  SteadyClock clock_;
  std::map<uint32_t, uint64_t> incarnations_;
};

FabricKind verbs_kind(const char* name, const FaultOptions& faults, VerbsProcesses processes) {
  return {name, [faults, processes](std::string& why_not) -> std::unique_ptr<Fabric> {
            absl::StatusOr<std::unique_ptr<VerbsFabric>> fabric = VerbsFabric::start({});
            if (fabric.ok()) return std::make_unique<VerbsTestFabric>(*std::move(fabric), faults, processes);
            why_not = std::string(fabric.status().message());
            return nullptr;
          }};
}

}  // namespace

absl::StatusOr<SessionId> open_session(Endpoint& from, Endpoint& to) {
  absl::StatusOr<SessionId> by_packets = from.connect(to.local_descriptor());
  if (!absl::IsFailedPrecondition(by_packets.status())) return by_packets;
  absl::StatusOr<Endpoint::Offer> offer = from.begin_connect(to.local_descriptor());
  if (!offer.ok()) return offer.status();
  const std::string answer = to.accept_offer(as_byte_span(offer->bytes), test_origin());
  if (absl::Status status = from.finish_connect(offer->session, as_byte_span(answer)); !status.ok()) return status;
  return offer->session;
}

std::vector<FabricKind> all_fabrics() {
  std::vector<FabricKind> kinds = {
      {"Sim", [](std::string&) { return std::make_unique<SimFabric>(SimFaults{}); }},
      {"SimOneSided", [](std::string&) { return std::make_unique<SimFabric>(SimFaults{}, true); }},
      {"SimOneSidedLossy",
       [](std::string&) {
         return std::make_unique<SimFabric>(SimFaults{.loss = 0.1,
                                                      .duplicate = 0.1,
                                                      .reorder = 0.2,
                                                      .late_tx = 0.5,
                                                      .one_sided_failure = 0.2,
                                                      .one_sided_max_ns = kMillisecond},
                                            true);
       }},
      {"SimLossy",
       [](std::string&) {
         return std::make_unique<SimFabric>(
             SimFaults{.loss = 0.1, .duplicate = 0.1, .corrupt = 0.05, .reorder = 0.2, .late_tx = 0.5, .tx_full = 0.2});
       }},
      {"Tcp", [](std::string&) { return std::make_unique<TcpFabric>(); }},
      dpdk_kind("DpdkRing", {}),
      dpdk_kind("DpdkRingLossy", {.loss = 0.1, .duplicate = 0.1, .seed = 7}),
  };
  if (!describe_verbs_ports().empty()) {
    kinds.push_back(verbs_kind("Verbs", {}, VerbsProcesses::kOneForAll));
    kinds.push_back(verbs_kind("VerbsShared", {}, VerbsProcesses::kOneForEach));
    kinds.push_back(verbs_kind("VerbsLossy", {.loss = 0.1, .duplicate = 0.1, .seed = 7}, VerbsProcesses::kOneForEach));
  }
  for (size_t i = 0, unsealed = kinds.size(); i < unsealed; ++i) {
    const bool is_one_sided = kinds[i].name.find("OneSided") != std::string::npos;  // sealed, there is nothing of that
    if (!is_one_sided) kinds.push_back(sealed(kinds[i]));
  }
  return kinds;
}

}  // namespace skua::rpc::conformance
