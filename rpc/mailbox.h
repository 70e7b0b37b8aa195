// EndpointMailbox: how other threads reach an endpoint.
//
// A producer pushes a task, and wakes the endpoint's transport only if the endpoint sleeps or is about to. One atomic
// flag decides this; both sides exchange it. If the sleeper's exchange comes first, the producer sees `true` and wakes
// the sleeper. If the producer's exchange comes first, the sleeper reads the producer's value, so it also sees the
// pushed task and does not sleep.
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

class Answers;

class EndpointMailbox final : public Mailbox {
 public:
  /// `answers` takes what reply tokens answer; null: nobody does. It need not exist yet.
  EndpointMailbox(Answers* answers, Transport& transport, size_t capacity)
      : answers_(answers), transport_(&transport), ring_(capacity) {}

  bool post(absl::AnyInvocable<void()>&& task) override;
  bool post_waiting(absl::AnyInvocable<void()>&& task) override;

  // The endpoint's side.
  [[nodiscard]] bool take(absl::AnyInvocable<void()>& task) { return ring_.try_pop(task); }
  [[nodiscard]] bool empty() const { return ring_.empty(); }
  /// True: the endpoint may sleep now. Call end_sleep() afterwards in both cases.
  [[nodiscard]] bool begin_sleep() {
    sleeping_.exchange(true, std::memory_order_acq_rel);
    return ring_.empty();
  }
  void end_sleep() { sleeping_.store(false, std::memory_order_relaxed); }
  void set_owner() { owner_.store(this_thread_mark(), std::memory_order_relaxed); }
  [[nodiscard]] bool on_owner_thread() const { return owner_.load(std::memory_order_relaxed) == this_thread_mark(); }

  /// A reply token holds the mailbox from hold() to let_go(); the mailbox outlives all tokens. Thread: the endpoint's.
  void hold() { ++held_here_; }
  /// Thread: any. On the endpoint's thread this takes no atomic operation: holds that end there are counted apart from
  /// all others. detach() adds the two counts (biased reference counting).
  void let_go() {
    if (on_owner_thread() && answers_ != nullptr) {
      --held_here_;
    } else if (held_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      self_.reset();
    }
  }
  /// As let_go(). The caller knows that this is the endpoint's thread, and that the endpoint lives.
  void let_go_here() { --held_here_; }
  /// What takes the tokens' answers; null after detach(). Thread: the endpoint's.
  [[nodiscard]] Answers* answers() const { return answers_; }
  void wake();
  /// No task is accepted from now on. When close() returns, no push is under way either, so take() yields the last
  /// tasks that there will be. Thread: the endpoint's.
  void close();
  /// The endpoint goes away: answers that arrive from now on are discarded. Call it after close(). Thread: the
  /// endpoint's.
  void detach();
  /// Keeps the mailbox alive while tokens hold it. Call it once, after the mailbox was made.
  void keep_alive(std::shared_ptr<EndpointMailbox> self) { self_ = std::move(self); }

 private:
  Answers* answers_;
  std::mutex transport_mutex_;  // only taken to wake a sleeper and to close
  Transport* transport_;
  std::atomic<bool> closed_{false};
  std::atomic<uint32_t> posting_{0};  // producers between their read of closed_ and the end of their push
  std::atomic<bool> sleeping_{false};
  std::atomic<const void*> owner_{this_thread_mark()};
  int64_t held_here_ = 0;         // holds that began, minus holds that ended on the endpoint's thread
  std::atomic<int64_t> held_{0};  // minus the holds that ended elsewhere; after detach() the sum of both counts
  std::shared_ptr<EndpointMailbox> self_;
  MpscRing<absl::AnyInvocable<void()>> ring_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MAILBOX_H_
