#include "rpc/mailbox.h"

namespace skua::rpc {

bool EndpointMailbox::post(absl::AnyInvocable<void()>&& task) {
  posting_.fetch_add(1, std::memory_order_seq_cst);
  const bool pushed = !closed_.load(std::memory_order_seq_cst) && ring_.try_push(std::move(task));
  posting_.fetch_sub(1, std::memory_order_release);
  if (pushed && sleeping_.exchange(false, std::memory_order_acq_rel)) wake();
  return pushed;
}

bool EndpointMailbox::post_waiting(absl::AnyInvocable<void()>&& task) {
  while (!post(std::move(task))) {  // NOLINT(bugprone-use-after-move): untouched while refused
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
  closed_.store(true, std::memory_order_seq_cst);
  while (posting_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  std::lock_guard lock(transport_mutex_);
  transport_ = nullptr;
}

void EndpointMailbox::detach() {
  answers_ = nullptr;
  const int64_t held = held_.fetch_add(held_here_, std::memory_order_acq_rel) + held_here_;
  if (held == 0) self_.reset();
}

}  // namespace skua::rpc
