// RcPair: one connected queue pair between two processes, shared by endpoints of this process.
//
//    endpoint 1 --+                              post(), bind(): from any of their threads, one at a time
//    endpoint 2 --+-- RcPair -- RcQueue          completions: rc_hub.h brings each to the endpoint that posted it
//    endpoint 3 --+      |
//                        +-- the windows that are bound by it
//
// Any error ends the pair for all users: end() takes the queue pair and the windows bound by it from the device, and
// pokes every user. Each user then completes its operations in flight as failed. A pair that ended is never used again.
// Each user has its own share of the queue's length, so no user waits for another.
#ifndef SKUA_RPC_TRANSPORT_VERBS_RC_PAIR_H_
#define SKUA_RPC_TRANSPORT_VERBS_RC_PAIR_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/transport/verbs/rc_queue.h"
#include "rpc/transport/verbs/read_progress.h"

namespace skua::rpc::verbs {

/// Completions and pokes from other threads for one endpoint. Thread: put(), poke(): any; the rest: the endpoint's.
class RcInbox {
 public:
  /// `wake` ends the endpoint's sleep; it is called on any thread.
  RcInbox(std::function<void()> wake, size_t completions_max);

  void put(const ibv_wc& completion);
  /// Tells the endpoint to check whether its pairs have ended.
  void poke();
  [[nodiscard]] bool has_mail() const { return has_mail_.load(std::memory_order_acquire); }
  /// Replaces the contents of `out` by the completions. True: poke() was called since the last take().
  bool take(std::vector<ibv_wc>& out);
  /// After set_sleeping(true), put() and poke() call `wake`. The caller must then check has_mail() before it sleeps.
  void set_sleeping(bool sleeping) { sleeping_.store(sleeping); }

 private:
  void wake_sleeper();

  const std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<ibv_wc> completions_;
  std::atomic<bool> has_mail_ = false;
  std::atomic<bool> poked_ = false;
  std::atomic<bool> sleeping_ = false;
};

/// The progress of READs between this process and another process, over all pairs that they have had. Thread: any.
class PeerProgress {
 public:
  struct Counts {
    uint64_t reads = 0;
    uint64_t read_bytes = 0;
    uint64_t stalls = 0;
  };

  void on_post(TimeNs now);
  /// A READ ended. `bytes`: what it brought; 0: it failed.
  void on_end(uint32_t bytes, TimeNs now);
  /// True if READs have stalled; they are held back from now on. True only once per stall.
  bool give_up_stalled(TimeNs now);
  /// True if READs were ever held back. If false, is_held() need not be called.
  [[nodiscard]] bool was_held() const { return was_held_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_held(TimeNs now) const;
  [[nodiscard]] Counts counts() const;

 private:
  mutable std::mutex mutex_;
  ReadProgress progress_;
  Counts counts_;
  std::atomic<bool> was_held_ = false;
};

/// Thread: any.
class RcPair {
 public:
  static constexpr uint32_t kUsersMax = 64;
  /// The most work requests of one user that are on their way to the device.
  static constexpr uint32_t kUserDepth = 16;

  RcPair(uint64_t process, std::unique_ptr<RcQueue> queue, std::shared_ptr<PeerProgress> progress, TimeNs now)
      : process_(process), begun_ns_(now), queue_(std::move(queue)), progress_(std::move(progress)) {}
  ~RcPair() { end(); }
  RcPair(const RcPair&) = delete;
  RcPair& operator=(const RcPair&) = delete;

  /// The other process.
  [[nodiscard]] uint64_t process() const { return process_; }
  [[nodiscard]] TimeNs begun_ns() const { return begun_ns_; }
  [[nodiscard]] PeerProgress& progress() { return *progress_; }

  /// Adds a user, which is poked when the pair ends, until leave(). `user` is not owned. An endpoint joins once for
  /// each peer. False: too many users, or the pair has ended.
  bool join(RcInbox& user);
  /// Removes a user; returns how many are left.
  size_t leave(RcInbox& user);
  [[nodiscard]] size_t users() const;

  [[nodiscard]] bool is_over() const { return over_.load(std::memory_order_acquire); }
  /// What the peer must know of the queue pair. False: the pair has ended.
  bool describe(uint32_t& qp_number, uint32_t& psn, uint8_t& reads_served) const;
  bool connect(const RcQueue::Remote& remote);
  /// False: the device refused a request, or the pair has ended.
  bool post(ibv_send_wr* first);
  enum class Bind : uint8_t { kPosted, kRefused, kOver };
  /// Posts a request that binds `window`. The pair then owns the window until let_go(), close() or end(), unless the
  /// result is kOver.
  Bind bind(ibv_send_wr* request, ibv_mw* window);
  /// The window is now bound under `key`. The next request that binds it needs this key.
  void on_bound(ibv_mw* window, uint32_t key);
  /// The window was invalidated: its ownership goes back to the caller. False: the window no longer exists, because the
  /// pair ended.
  bool let_go(ibv_mw* window);
  /// Destroys the window, unless the pair's end has done so. When this returns, nobody reads through the window.
  void close(ibv_mw* window);
  /// Asks the device (a system call).
  [[nodiscard]] bool in_error() const;
  /// Ends the pair. When this returns, the device uses no memory for it, neither for this process nor for the peer.
  void end();
  void fail_for_test();

 private:
  /// Call with the mutex held.
  bool forget(ibv_mw* window);

  const uint64_t process_;
  const TimeNs begun_ns_;
  mutable std::mutex mutex_;
  std::unique_ptr<RcQueue> queue_;  // null: the pair has ended
  std::vector<ibv_mw*> bound_;
  std::vector<RcInbox*> users_;
  std::atomic<bool> over_ = false;
  const std::shared_ptr<PeerProgress> progress_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_RC_PAIR_H_
