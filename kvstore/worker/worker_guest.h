// WorkerGuest: another event loop on a worker's thread (rpc/base/hosted_loop.h). Worker and loop have turns one after
// the other, and sleep together, in the loop's turn.
//
// With a hosted loop the worker never spins, because the loop could not run meanwhile. With `busy` polling neither
// sleeps: worker and loop poll in turn.
#ifndef SKUA_KVSTORE_WORKER_WORKER_GUEST_H_
#define SKUA_KVSTORE_WORKER_WORKER_GUEST_H_

#include <cstddef>
#include <future>
#include <utility>

#include "rpc/base/clock.h"
#include "rpc/base/hosted_loop.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Thread: the endpoint's. The transport of the endpoint has a descriptor to sleep on (Endpoint::wait_fd()).
class WorkerGuest final : public HostWait {
 public:
  /// `endpoint` outlives the object, and `loop` lives until `ended` is set, after its last turn. `sleeps`: false:
  /// never.
  WorkerGuest(rpc::Endpoint& endpoint, HostedLoop& loop, bool sleeps, std::promise<void> ended)
      : endpoint_(endpoint), loop_(loop), sleeps_(sleeps), ended_(std::move(ended)) {
    loop_.begin(this);
  }

  /// The loop's turn, after one of the endpoint's, which returned `polled`. It sleeps for `max_wait_ns` at most. False:
  /// the loop has ended, and the object has no further use.
  [[nodiscard]] bool turn(DurationNs max_wait_ns, size_t polled) {
    max_wait_ns_ = max_wait_ns;
    polled_ = polled;
    if (loop_.turn()) return true;
    ended_.set_value();
    return false;
  }

  // HostWait, for the loop
  [[nodiscard]] int fd() const override { return endpoint_.wait_fd(); }
  [[nodiscard]] DurationNs begin() override { return sleeps_ ? endpoint_.begin_wait(max_wait_ns_, polled_) : 0; }
  void end() override { endpoint_.end_wait(); }

 private:
  rpc::Endpoint& endpoint_;
  HostedLoop& loop_;
  const bool sleeps_;
  std::promise<void> ended_;
  DurationNs max_wait_ns_ = 0;
  size_t polled_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_WORKER_WORKER_GUEST_H_
