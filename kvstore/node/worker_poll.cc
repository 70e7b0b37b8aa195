#include "kvstore/node/worker_poll.h"

#include <algorithm>
#include <chrono>

namespace skua::kv {

WorkerAnswers WorkerPoll::ask(const std::vector<AskFn>& workers) {
  const std::lock_guard lock(mutex_);
  asked_.resize(std::max(asked_.size(), workers.size()));
  for (size_t i = 0; i < workers.size(); ++i) {
    if (!asked_[i].valid()) asked_[i] = workers[i]();
  }
  WorkerAnswers answers;
  // One limit for all: however many are silent, a poll takes no longer.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns_);
  for (size_t i = 0; i < workers.size(); ++i) {
    std::future<WorkerStats>& asked = asked_[i];
    bool has_answer = asked.valid() && asked.wait_until(limit) == std::future_status::ready;
    try {
      if (has_answer) answers.stats.push_back(asked.get());
    } catch (const std::future_error&) {
      has_answer = false;  // the worker stopped and will not answer
    }
    if (!has_answer) answers.silent.push_back(static_cast<uint32_t>(i));
  }
  return answers;
}

}  // namespace skua::kv
