// EndpointMailbox: how other threads reach an endpoint.
//
// Producers push a task and, only if the endpoint sleeps (or is about to), wake its transport. Who
// does what is settled by one atomic flag that both sides exchange: either the sleeper's exchange
// comes first and the producer sees `true` and wakes it, or the producer's comes first and the
// sleeper, reading it, also sees the pushed task and does not sleep.
#ifndef SKUA_RPC_MAILBOX_H_
#define SKUA_RPC_MAILBOX_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "rpc/base/mpsc_ring.h"
#include "rpc/base/thread_mark.h"
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
  [[nodiscard]] bool empty() const { return ring_.empty(); }
  /// True if the endpoint may sleep now; call end_sleep() afterwards in any case.
  [[nodiscard]] bool begin_sleep() {
    sleeping_.exchange(true, std::memory_order_acq_rel);
    return ring_.empty();
  }
  void end_sleep() { sleeping_.store(false, std::memory_order_relaxed); }
  void set_owner() { owner_.store(this_thread_mark(), std::memory_order_relaxed); }
  [[nodiscard]] bool on_owner_thread() const { return owner_.load(std::memory_order_relaxed) == this_thread_mark(); }

  /// A reply token refers to this mailbox until it lets go; the mailbox outlives all of them. Thread: the endpoint's.
  void hold() { ++held_here_; }
  /// Thread: any. On the endpoint's own it costs no atomic operation: those are counted apart from all others, and the two counts
  /// are put together when the endpoint goes away (biased reference counting).
  void let_go() {
    if (on_owner_thread() && endpoint_ != nullptr) {
      --held_here_;
    } else if (held_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      self_.reset();
    }
  }
  /// The same where it is known that this is the endpoint's thread, and that the endpoint lives.
  void let_go_here() { --held_here_; }
  /// Null once closed. Thread: the endpoint's.
  [[nodiscard]] EndpointImpl* endpoint() const { return endpoint_; }
  void wake();
  /// No task is accepted from now on, and none is being pushed when it returns: what take() yields then is all there will
  /// ever be. Thread: the endpoint's.
  void close();
  /// The endpoint goes away: answers that arrive from now on are discarded. After close(). Thread: the endpoint's.
  void detach();
  /// Keeps the mailbox while tokens are out. Once, after it was made.
  void keep_alive(std::shared_ptr<EndpointMailbox> self) { self_ = std::move(self); }

 private:
  EndpointImpl* endpoint_;
  std::mutex transport_mutex_;  // only taken to wake a sleeper and to close
  Transport* transport_;
  std::atomic<bool> closed_{false};
  std::atomic<uint32_t> posting_{0};  // producers between their look at closed_ and the end of their push
  std::atomic<bool> sleeping_{false};
  std::atomic<const void*> owner_{this_thread_mark()};
  int64_t held_here_ = 0;         // taken by the endpoint's thread, less what it let go
  std::atomic<int64_t> held_{0};  // less what others let go; the sum of both once the endpoint is gone
  std::shared_ptr<EndpointMailbox> self_;
  MpscRing<absl::AnyInvocable<void()>> ring_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MAILBOX_H_
