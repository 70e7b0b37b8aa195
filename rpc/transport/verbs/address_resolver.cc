#include "rpc/transport/verbs/address_resolver.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

namespace skua::rpc::verbs {
namespace {

constexpr uint8_t kHopLimit = 64;
constexpr uint32_t kFlowLabelMask = 0xfffff;

}  // namespace

AddressHandle::~AddressHandle() {
  if (ibv_ah* handle = get(); handle != nullptr) ibv_destroy_ah(handle);
}

AddressResolver::AddressResolver(Device& device, uint8_t traffic_class, MakeFn make)
    : device_(device), traffic_class_(traffic_class), make_(std::move(make)), thread_([this] { run(); }) {}

AddressResolver::~AddressResolver() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  asked_.notify_all();
  thread_.join();
}

ibv_ah_attr AddressResolver::attributes(const EndpointAddress& peer, bool with_grh) const {
  ibv_ah_attr to{};
  to.port_num = device_.port();
  to.dlid = peer.lid;
  to.is_global = with_grh ? 1 : 0;
  if (with_grh) {
    std::copy(peer.gid.bytes.begin(), peer.gid.bytes.end(), std::begin(to.grh.dgid.raw));
    to.grh.sgid_index = static_cast<uint8_t>(device_.gid().index);
    to.grh.hop_limit = kHopLimit;
    to.grh.traffic_class = traffic_class_;
    // Routers spread flows by this label. It depends on the QP number, so packets to one QP stay on one path.
    to.grh.flow_label = (peer.qp_number * 0x9e3779b1u >> 12) & kFlowLabelMask;
  }
  return to;
}

absl::StatusOr<std::shared_ptr<AddressHandle>> AddressResolver::resolve(const EndpointAddress& peer, bool with_grh,
                                                                        PeerWord word, DurationNs patience_ns) {
  Request request;
  request.attributes = attributes(peer, with_grh);
  auto handle = std::make_shared<AddressHandle>();
  request.handle = handle;
  std::unique_lock lock(mutex_);
  if (!requests_.push(word, std::move(request))) {
    return absl::ResourceExhaustedError(
        "too many RDMA addresses are being resolved already: try again in some seconds");
  }
  asked_.notify_one();
  answered_.wait_for(lock, std::chrono::nanoseconds(patience_ns), [&] { return !handle->pending(); });
  return handle;
}

void AddressResolver::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ending_ || !requests_.empty(); });
    if (ending_) return;
    std::optional<Request> request = requests_.take();
    if (!request) continue;
    lock.unlock();
    ibv_ah* made = make_(device_.domain(), &request->attributes);
    if (made != nullptr) {
      request->handle->handle_.store(made, std::memory_order_release);
    } else {
      request->handle->error_.store(errno == 0 ? EIO : errno, std::memory_order_release);
    }
    request.reset();
    lock.lock();
    answered_.notify_all();
  }
}

}  // namespace skua::rpc::verbs
