#include "kvstore/node/worker_poll.h"

#include <algorithm>
#include <chrono>

namespace skua::kv {

namespace {

/// False: the worker stopped and will not answer.
bool take(std::future<WorkerStats>& asked, WorkerAnswers& answers) {
  try {
    answers.stats.push_back(asked.get());
    return true;
  } catch (const std::future_error&) {
    return false;
  }
}

}  // namespace

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
    const bool has_answer = asked.valid() && asked.wait_until(limit) == std::future_status::ready;
    if (!has_answer || !take(asked, answers)) answers.silent.push_back(static_cast<uint32_t>(i));
  }
  return answers;
}

}  // namespace skua::kv
