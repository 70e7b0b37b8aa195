#include "control/security/plaintext_check.h"

#include <utility>

#include "control/security/first_words.h"

namespace skua::control {

PlaintextCheck::~PlaintextCheck() {
  stop();
}

void PlaintextCheck::ask(const std::string& address, DoneFn done) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_ && questions_.size() < kPlaintextChecksMax) {
      questions_.push_back({address, std::exchange(done, nullptr)});
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
  }
  changed_.notify_one();
  if (done) done(false);
}

void PlaintextCheck::stop() {
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  changed_.notify_one();
  if (thread.joinable()) thread.join();
}

void PlaintextCheck::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !questions_.empty(); });
    if (questions_.empty()) return;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    const bool is_asked = !stopping_;
    lock.unlock();
    question.done(is_asked && speaks_no_tls(question.address));
    lock.lock();
  }
}

}  // namespace skua::control
