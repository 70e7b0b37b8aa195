#include "rpc/transport/verbs/device.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "rpc/transport/one_sided.h"

namespace skua::rpc::verbs {
namespace {

constexpr size_t kGidsMax = 256;

uint32_t bytes_of(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

Network network_of(uint32_t gid_type) {
  switch (gid_type) {
    case IBV_GID_TYPE_IB: return Network::kInfiniBand;
    case IBV_GID_TYPE_ROCE_V1: return Network::kRoceV1;
    default: return Network::kRoceV2;
  }
}

void list_ports_of(ibv_context* context, const std::string& name, std::vector<PortInfo>& out) {
  ibv_device_attr limits;
  if (ibv_query_device(context, &limits) != 0) return;
  std::vector<ibv_gid_entry> gids(kGidsMax);
  const ssize_t gid_count = ibv_query_gid_table(context, gids.data(), gids.size(), 0);
  for (uint8_t number = 1; number <= limits.phys_port_cnt; ++number) {
    PortInfo& port = out.emplace_back();
    port.device = name;
    port.port = number;
    ibv_port_attr attributes;
    if (const int error = ibv_query_port(context, number, &attributes); error != 0) {
      port.state = std::generic_category().message(error);
      continue;
    }
    port.active = attributes.state == IBV_PORT_ACTIVE;
    port.state = ibv_port_state_str(attributes.state);
    port.mtu_bytes = bytes_of(attributes.active_mtu);
    port.lid = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? uint16_t{0} : attributes.lid;
    for (ssize_t i = 0; i < gid_count; ++i) {
      const ibv_gid_entry& entry = gids[static_cast<size_t>(i)];
      if (entry.port_num != number) continue;
      GidInfo& gid = port.gids.emplace_back();
      gid.index = entry.gid_index;
      gid.network = network_of(entry.gid_type);
      std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), gid.gid.bytes.begin());
    }
  }
}

/// Owns libibverbs' device list. A device that was opened stays open after the list is freed.
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  [[nodiscard]] std::span<ibv_device*> devices() const {
    return {list_, list_ == nullptr ? 0 : static_cast<size_t>(count_)};
  }

 private:
  int count_ = 0;
  ibv_device** list_;
};

}  // namespace

absl::Status failed(const std::string& device, const char* what, int error) {
  const std::string text = absl::StrCat(device, ": ", what, ": ", std::generic_category().message(error));
  return error == ENOMEM ? absl::ResourceExhaustedError(text) : absl::UnavailableError(text);
}

std::vector<PortInfo> list_ports() {
  std::vector<PortInfo> out;
  const DeviceList list;
  for (ibv_device* device : list.devices()) {
    const std::string name = ibv_get_device_name(device);
    ibv_context* context = ibv_open_device(device);
    if (context == nullptr) {
      PortInfo& port = out.emplace_back();
      port.device = name;
      port.state = absl::StrCat("cannot be opened: ", std::generic_category().message(errno));
      continue;
    }
    list_ports_of(context, name, out);
    ibv_close_device(context);
  }
  return out;
}

absl::StatusOr<std::unique_ptr<Device>> Device::open(const PortWish& wish, uint32_t mtu_bytes) {
  absl::StatusOr<PortChoice> choice = choose_port(list_ports(), wish);
  if (!choice.ok()) return choice.status();
  std::unique_ptr<Device> out(new Device);
  out->choice_ = *std::move(choice);
  const DeviceList list;
  for (ibv_device* device : list.devices()) {
    if (out->name() == ibv_get_device_name(device)) out->context_ = ibv_open_device(device);
  }
  if (out->context_ == nullptr) return failed(out->name(), "ibv_open_device", errno);
  if (const int error = ibv_query_device(out->context_, &out->limits_); error != 0) {
    return failed(out->name(), "ibv_query_device", error);
  }
  out->domain_ = ibv_alloc_pd(out->context_);
  if (out->domain_ == nullptr) return failed(out->name(), "ibv_alloc_pd", errno);
  out->remote_domain_ = ibv_alloc_pd(out->context_);
  if (out->remote_domain_ == nullptr) return failed(out->name(), "ibv_alloc_pd", errno);
  out->make_registries();
  const int flags = fcntl(out->context_->async_fd, F_GETFL);
  fcntl(out->context_->async_fd, F_SETFL, flags | O_NONBLOCK);
  const uint32_t port_mtu = out->choice_.port.mtu_bytes;
  const uint32_t wanted = mtu_bytes == 0 ? port_mtu : mtu_bytes;
  if (wanted > port_mtu || wanted < 256 || (wanted & (wanted - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("an RDMA MTU is 256, 512, 1024, 2048 or 4096, and on ", out->name(),
                                                   " at most ", port_mtu, ", not ", wanted));
  }
  out->mtu_bytes_ = static_cast<uint16_t>(wanted);
  return out;
}

void Device::make_registries() {
  const auto make = [this](ibv_pd* domain, int access) {
    return DomainRegistrar(name(), domain, access, registered_bytes_);
  };
  memory_.reset(new RegisteredMemory{make(domain_, IBV_ACCESS_LOCAL_WRITE)});
  const int for_windows = has_windows() ? IBV_ACCESS_MW_BIND : 0;
  local_memory_.reset(new RegisteredMemory{make(remote_domain_, IBV_ACCESS_LOCAL_WRITE | for_windows)});
  open_memory_ = std::make_unique<DomainRegistrar>(make(remote_domain_, 0));
}

Device::~Device() {
  memory_.reset();
  local_memory_.reset();
  if (remote_domain_ != nullptr) ibv_dealloc_pd(remote_domain_);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
  if (context_ != nullptr) ibv_close_device(context_);
}

bool Device::link_up() const {
  ibv_port_attr attributes;
  return ibv_query_port(context_, port(), &attributes) == 0 && attributes.state == IBV_PORT_ACTIVE;
}

void Device::drain_events() {
  const std::unique_lock lock(events_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  ibv_async_event event;
  while (ibv_get_async_event(context_, &event) == 0) ibv_ack_async_event(&event);
}

std::string Device::describe() const {
  return absl::StrCat(name(), " port ", static_cast<int>(port()), " (", to_string(gid().network), "): GID ",
                      gid().index, " ", gid().gid.to_string(), ", MTU ", mtu_bytes_, ", link ",
                      link_up() ? "up" : "down");
}

absl::StatusOr<Registration> Device::open_memory(MutableByteSpan region, uint8_t rights) {
  int access = 0;
  if ((rights & memory_rights::kRead) != 0) access |= IBV_ACCESS_REMOTE_READ;
  // libibverbs demands local write access for regions that peers may write.
  if ((rights & memory_rights::kWrite) != 0) access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if ((rights & memory_rights::kAtomic) != 0) {
    if (limits_.atomic_cap == IBV_ATOMIC_NONE) return absl::UnimplementedError(name() + " has no atomic operations");
    access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  }
  return open_memory_->add(region, access);
}

absl::StatusOr<Registration> DomainRegistrar::add(MutableByteSpan region) {
  return add(region, access_);
}

absl::StatusOr<Registration> DomainRegistrar::add(MutableByteSpan region, int access) {
  constexpr int kForPeers = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  ibv_mr* made = ibv_reg_mr(domain_, region.data(), region.size(), access);
  if (made != nullptr) {
    registered_bytes_ += region.size();
    return Registration{made, (access & kForPeers) != 0 ? made->rkey : made->lkey};
  }
  const int error = errno;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const uint64_t bytes_max = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  return registration_failed(device_, region.size(), registered_bytes_, error, bytes_max);
}

void DomainRegistrar::remove(const Registration& registration) {
  auto* region = static_cast<ibv_mr*>(registration.handle);
  registered_bytes_ -= region->length;
  ibv_dereg_mr(region);
}

}  // namespace skua::rpc::verbs
