#include "kvstore/client/dpdk.h"

#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"

namespace skua::kv {
namespace {

// Range of random UDP ports: above the ports of servers, below the end of the range that kernels hand out.
constexpr uint32_t kPortMin = 20'000;
constexpr uint32_t kPortMax = 60'000;

/// The fabric and the list of its free lanes. Thread: any.
class Lanes {
 public:
  Lanes(std::unique_ptr<rpc::DpdkFabric> fabric, uint16_t count) : fabric_(std::move(fabric)), count_(count) {
    for (uint16_t lane = count; lane > 0; --lane) free_.push_back(static_cast<uint16_t>(lane - 1));
  }

  /// A transport on a free lane. It keeps `self` alive, and gives the lane back when it is destroyed.
  static absl::StatusOr<std::shared_ptr<rpc::Transport>> make(const std::shared_ptr<Lanes>& self,
                                                              const rpc::EndpointIdentity& identity) {
    const std::lock_guard lock(self->mutex_);
    if (self->free_.empty()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("all ", self->count_, " DPDK clients that this program asked for are in use"));
    }
    const uint16_t lane = self->free_.back();
    absl::StatusOr<std::unique_ptr<rpc::Transport>> made = self->fabric_->make_transport(lane, identity);
    if (!made.ok()) return made.status();
    self->free_.pop_back();
    return std::shared_ptr<rpc::Transport>(made->release(), [self, lane](rpc::Transport* transport) {
      delete transport;  // NOLINT(cppcoreguidelines-owning-memory): this is the deleter
      const std::lock_guard back(self->mutex_);
      self->free_.push_back(lane);
    });
  }

 private:
  const std::unique_ptr<rpc::DpdkFabric> fabric_;
  const uint16_t count_;
  std::mutex mutex_;
  std::vector<uint16_t> free_;
};

}  // namespace

rpc::DpdkSettings dpdk_client_settings() {
  rpc::DpdkSettings settings;
  settings.udp_port = 0;
  return settings;
}

absl::StatusOr<TransportMaker> dpdk_transports(const rpc::DpdkSettings& given, uint16_t clients_max) {
  rpc::DpdkSettings settings = given;
  if (settings.udp_port == 0) {
    std::random_device device;
    settings.udp_port = static_cast<uint16_t>(kPortMin + device() % (kPortMax - kPortMin));
  }
  absl::StatusOr<rpc::DpdkOptions> options = settings.to_options(clients_max);
  if (!options.ok()) return options.status();
  absl::StatusOr<std::unique_ptr<rpc::DpdkFabric>> fabric = rpc::DpdkFabric::start(*options);
  if (!fabric.ok()) return fabric.status();
  auto lanes = std::make_shared<Lanes>(*std::move(fabric), clients_max);
  return TransportMaker([lanes](const rpc::EndpointIdentity& self) { return Lanes::make(lanes, self); });
}

}  // namespace skua::kv
