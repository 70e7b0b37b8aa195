// RcPair: one connected queue pair between two processes, which endpoints of this process share.
//
//    endpoint 1 --+                              post(), bind(): from any of their threads, one at a time
//    endpoint 2 --+-- RcPair -- RcQueue          completions: rc_hub.h hands them to whoever posted, into an inbox
//    endpoint 3 --+      |
//                        +-- the windows that are bound by it
//
// Any error ends it for all: end() takes the queue pair and the windows that are bound by it from the device, and pokes
// every user, who completes what was in flight as failed. A pair that ended is never used again. Each user has a share
// of the queue's length that is its own, so none waits for another.
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

/// What is brought to an endpoint from other threads. Thread: put(), poke(): any; the rest: the endpoint's.
class RcInbox {
 public:
  /// `wake`: ends the endpoint's sleep, from any thread.
  RcInbox(std::function<void()> wake, size_t completions_max);

  void put(const ibv_wc& completion);
  /// Look at your pairs.
  void poke();
  [[nodiscard]] bool has_mail() const { return has_mail_.load(std::memory_order_acquire); }
  /// What is there, in place of what `out` held. True: somebody poked.
  bool take(std::vector<ibv_wc>& out);
  /// Between true and false put() and poke() call `wake`. To be followed by a look at has_mail().
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

/// How READs get on between this process and another one, over all pairs that they have had. Thread: any.
class PeerProgress {
 public:
  struct Counts {
    uint64_t reads = 0;
    uint64_t read_bytes = 0;
    uint64_t stalls = 0;
  };

  void on_post(TimeNs now);
  /// `bytes`: what it brought; 0: it failed.
  void on_end(uint32_t bytes, TimeNs now);
  /// READs do not get on: they are held back from now on. True once for each stall.
  bool give_up_stalled(TimeNs now);
  /// Was ever held back: only then is_held() needs to be asked.
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
  /// Of each user, on their way to the device.
  static constexpr uint32_t kUserDepth = 16;

  RcPair(uint64_t process, std::unique_ptr<RcQueue> queue, std::shared_ptr<PeerProgress> progress, TimeNs now)
      : process_(process), begun_ns_(now), queue_(std::move(queue)), progress_(std::move(progress)) {}
  ~RcPair() { end(); }
  RcPair(const RcPair&) = delete;
  RcPair& operator=(const RcPair&) = delete;

  /// The other one.
  [[nodiscard]] uint64_t process() const { return process_; }
  [[nodiscard]] TimeNs begun_ns() const { return begun_ns_; }
  [[nodiscard]] PeerProgress& progress() { return *progress_; }

  /// `user` is poked when the pair ends, until leave(). An endpoint joins once for each peer. False: too many have.
  bool join(RcInbox& user);
  /// How many are left.
  size_t leave(RcInbox& user);
  [[nodiscard]] size_t users() const;

  [[nodiscard]] bool is_over() const { return over_.load(std::memory_order_acquire); }
  /// What peers must know of it; false: it is over.
  bool describe(uint32_t& qp_number, uint32_t& psn, uint8_t& reads_served) const;
  bool connect(const RcQueue::Remote& remote);
  /// False: refused, or the pair is over.
  bool post(ibv_send_wr* first);
  enum class Bind : uint8_t { kPosted, kRefused, kOver };
  /// post() of a request that binds `window`, which is the pair's until let_go() or close(), but for kOver.
  Bind bind(ibv_send_wr* request, ibv_mw* window);
  /// The window is bound under `key`: the next request to bind it has to know.
  void on_bound(ibv_mw* window, uint32_t key);
  /// Invalidated: the window is its owner's alone. False: it is none any more, because the pair ended.
  bool let_go(ibv_mw* window);
  /// When this returns nobody reads by the window, which is none any more.
  void close(ibv_mw* window);
  /// Asks the device.
  [[nodiscard]] bool in_error() const;
  /// When this returns the device uses no memory for the pair, neither here nor for the peer.
  void end();
  void fail_for_test();

 private:
  /// Under the mutex.
  bool forget(ibv_mw* window);

  const uint64_t process_;
  const TimeNs begun_ns_;
  mutable std::mutex mutex_;
  std::unique_ptr<RcQueue> queue_;  // null: over
  std::vector<ibv_mw*> bound_;
  std::vector<RcInbox*> users_;
  std::atomic<bool> over_ = false;
  const std::shared_ptr<PeerProgress> progress_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_RC_PAIR_H_
