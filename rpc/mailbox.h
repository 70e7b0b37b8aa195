// EndpointMailbox: how other threads reach an endpoint.
//
// Producers push a task and, only if the endpoint sleeps (or is about to), wake its transport. Who
// does what is settled by one atomic flag that both sides exchange: either the sleeper's exchange
// comes first and the producer sees `true` and wakes it, or the producer's comes first and the
// sleeper, reading it, also sees the pushed task and does not sleep.
#ifndef SKUA_RPC_MAILBOX_H_
#define SKUA_RPC_MAILBOX_H_

#include <atomic>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "rpc/base/mpsc_ring.h"
#include "rpc/endpoint.h"

namespace skua::rpc {

class EndpointMailbox final : public Mailbox {
 public:
  EndpointMailbox(EndpointImpl& endpoint, Transport& transport, size_t capacity)
      : endpoint_(&endpoint), transport_(&transport), ring_(capacity) {}

  bool post(absl::AnyInvocable<void()>&& task) override;
  bool post_waiting(absl::AnyInvocable<void()>&& task) override;

  // The endpoint's side.
  [[nodiscard]] bool take(absl::AnyInvocable<void()>& task) { return ring_.try_pop(task); }
  /// True if the endpoint may sleep now; call end_sleep() afterwards in any case.
  [[nodiscard]] bool begin_sleep() {
    sleeping_.exchange(true, std::memory_order_acq_rel);
    return ring_.empty();
  }
  void end_sleep() { sleeping_.store(false, std::memory_order_relaxed); }
  void set_owner(std::thread::id owner) { owner_.store(owner, std::memory_order_relaxed); }
  [[nodiscard]] bool on_owner_thread() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  /// Null once closed. Thread: the endpoint's.
  [[nodiscard]] EndpointImpl* endpoint() const { return endpoint_; }
  void wake();
  /// No task is accepted from now on, and none is being pushed when it returns: what take() yields then is all there will
  /// ever be. Thread: the endpoint's.
  void close();
  /// The endpoint goes away: answers that arrive from now on are discarded. After close(). Thread: the endpoint's.
  void detach() { endpoint_ = nullptr; }

 private:
  EndpointImpl* endpoint_;
  std::mutex transport_mutex_;  // only taken to wake a sleeper and to close
  Transport* transport_;
  std::atomic<bool> closed_{false};
  std::atomic<uint32_t> posting_{0};  // producers between their look at closed_ and the end of their push
  std::atomic<bool> sleeping_{false};
  std::atomic<std::thread::id> owner_{std::this_thread::get_id()};
  MpscRing<absl::AnyInvocable<void()>> ring_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MAILBOX_H_
