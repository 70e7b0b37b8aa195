#include "rpc/transport/verbs/completion_channel.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "rpc/base/check.h"

namespace skua::rpc::verbs {
namespace {

/// Acknowledging events takes a lock, so it is done for several events at once.
constexpr unsigned kEventsUnacknowledgedMax = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<CompletionChannel>> CompletionChannel::create(Device& device) {
  std::unique_ptr<CompletionChannel> out(new CompletionChannel(device));
  out->channel_ = ibv_create_comp_channel(device.context());
  if (out->channel_ == nullptr) return failed(device.name(), "ibv_create_comp_channel", errno);
  fcntl(out->fd(), F_SETFL, fcntl(out->fd(), F_GETFL) | O_NONBLOCK);
  return out;
}

CompletionChannel::~CompletionChannel() {
  SKUA_CHECK(queues_.empty(), "a completion queue outlives its channel");
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

absl::StatusOr<ibv_cq*> CompletionChannel::make_queue(size_t entries) {
  ibv_cq* queue = ibv_create_cq(device_.context(), static_cast<int>(entries), nullptr, channel_, 0);
  if (queue == nullptr) return failed(device_.name(), "ibv_create_cq", errno);
  queues_.push_back({queue, 0});
  armed_ = false;
  return queue;
}

void CompletionChannel::destroy(ibv_cq* queue) {
  std::erase_if(queues_, [&](const Queue& entry) {
    if (entry.queue != queue) return false;
    if (entry.events > 0) ibv_ack_cq_events(queue, entry.events);
    ibv_destroy_cq(queue);
    return true;
  });
}

bool CompletionChannel::arm() {
  if (armed_) return true;
  armed_ = true;
  bool ok = true;
  for (const Queue& entry : queues_) ok = ibv_req_notify_cq(entry.queue, 0) == 0 && ok;
  return ok;
}

void CompletionChannel::disarm() {
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (ibv_get_cq_event(channel_, &queue, &unused) == 0) {
    armed_ = false;
    for (Queue& entry : queues_) {
      if (entry.queue == queue && ++entry.events >= kEventsUnacknowledgedMax) {
        ibv_ack_cq_events(queue, std::exchange(entry.events, 0));
      }
    }
  }
}

}  // namespace skua::rpc::verbs
