// WorkerPoll: asks all workers for their counters at once, and goes on without those that stay silent.
//
// A worker that does not answer keeps one question, whatever the number of those who ask: the next poll waits for the
// answer to that question. So a silent worker's mailbox does not fill with questions.
#ifndef SKUA_KVSTORE_NODE_WORKER_POLL_H_
#define SKUA_KVSTORE_NODE_WORKER_POLL_H_

#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <vector>

#include "kvstore/service/stats.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Who answered a poll.
struct WorkerAnswers {
  std::vector<WorkerStats> stats;
  std::vector<uint32_t> silent;
};

/// Thread: any. Polls of several threads come one after another.
class WorkerPoll {
 public:
  /// Puts the question to one worker. A future without a state (valid() is false): the worker takes no question now.
  using AskFn = std::function<std::future<WorkerStats>()>;

  explicit WorkerPoll(DurationNs timeout_ns) : timeout_ns_(timeout_ns) {}

  /// Asks the workers, in the order of their indices, and waits until all have answered, for timeout_ns at most. The
  /// same number of workers each time, or more.
  [[nodiscard]] WorkerAnswers ask(const std::vector<AskFn>& workers);

 private:
  const DurationNs timeout_ns_;
  std::mutex mutex_;
  /// Questions without an answer yet. Protected by mutex_.
  std::vector<std::future<WorkerStats>> asked_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_WORKER_POLL_H_
