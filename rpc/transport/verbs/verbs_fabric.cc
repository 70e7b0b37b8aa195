#include "rpc/transport/verbs/verbs_fabric.h"

#include <random>
#include <utility>

#include "rpc/base/rng.h"
#include "rpc/transport/verbs/address_resolver.h"
#include "rpc/transport/verbs/device.h"
#include "rpc/transport/verbs/rc_hub.h"
#include "rpc/transport/verbs/verbs_transport.h"

namespace skua::rpc {
namespace verbs {
namespace {

class Fabric final : public VerbsFabric {
 public:
  Fabric(VerbsOptions options, std::unique_ptr<Device> device)
      : options_(std::move(options)),
        device_(std::move(device)),
        resolver_(*device_, options_.traffic_class),
        hub_(*device_, Rng(seed())) {}

  absl::StatusOr<std::unique_ptr<Transport>> make_transport(const EndpointIdentity& self) override {
    if (self.uuid.is_zero()) return absl::InvalidArgumentError("an endpoint needs a uuid");
    return VerbsTransport::create(*device_, resolver_, options_, self, Rng(seed()), &hub_);
  }
  [[nodiscard]] std::string describe() const override { return device_->describe(); }

 private:
  static uint64_t seed() {
    std::random_device entropy;
    return (uint64_t{entropy()} << 32) ^ entropy();
  }

  const VerbsOptions options_;
  // Destroyed in reverse order.
  const std::unique_ptr<Device> device_;
  AddressResolver resolver_;
  RcHub hub_;
};

}  // namespace
}  // namespace verbs

absl::StatusOr<std::unique_ptr<VerbsFabric>> VerbsFabric::start(const VerbsOptions& options) {
  absl::StatusOr<std::unique_ptr<verbs::Device>> device =
      verbs::Device::open({options.device, options.gid_index}, options.mtu_bytes);
  if (!device.ok()) return device.status();
  return std::make_unique<verbs::Fabric>(options, *std::move(device));
}

std::vector<std::string> describe_verbs_ports() {
  std::vector<std::string> out;
  for (const verbs::PortInfo& port : verbs::list_ports()) out.push_back(port.describe());
  return out;
}

}  // namespace skua::rpc
