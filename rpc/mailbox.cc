#include "rpc/mailbox.h"

namespace skua::rpc {

bool EndpointMailbox::post(absl::AnyInvocable<void()>&& task) {
  if (closed_.load(std::memory_order_acquire) || !ring_.try_push(std::move(task))) return false;
  if (sleeping_.exchange(false, std::memory_order_acq_rel)) wake();
  return true;
}

bool EndpointMailbox::post_waiting(absl::AnyInvocable<void()>&& task) {
  while (!post(std::move(task))) {
    if (closed_.load(std::memory_order_acquire)) return false;
    std::this_thread::yield();
  }
  return true;
}

void EndpointMailbox::wake() {
  std::lock_guard lock(transport_mutex_);
  if (transport_ != nullptr) transport_->wake();
}

void EndpointMailbox::close() {
  closed_.store(true, std::memory_order_release);
  endpoint_ = nullptr;
  std::lock_guard lock(transport_mutex_);
  transport_ = nullptr;
}

}  // namespace skua::rpc
