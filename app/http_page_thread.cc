#include "app/http_page_thread.h"

#include <utility>

namespace skua::app {

HttpPageThread::HttpPageThread(std::function<void()> made) : on_made_(std::move(made)), thread_([this] { run(); }) {}

HttpPageThread::~HttpPageThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HttpPageThread::ask(uint64_t connection, std::function<HttpReply()> make) {
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back({.connection = connection, .make = std::move(make)});
  }
  changed_.notify_all();
}

void HttpPageThread::forget(uint64_t connection) {
  const std::lock_guard lock(mutex_);
  std::erase_if(asked_, [&](const Asked& asked) { return asked.connection == connection; });
  std::erase_if(made_, [&](const Made& made) { return made.connection == connection; });
}

std::vector<HttpPageThread::Made> HttpPageThread::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(made_, {});
}

void HttpPageThread::run() {
  while (true) {
    Asked asked;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ended_ || !asked_.empty(); });
      if (is_ended_) return;
      asked = std::move(asked_.front());
      asked_.pop_front();
    }
    HttpReply reply = asked.make();
    {
      const std::lock_guard lock(mutex_);
      made_.push_back({.connection = asked.connection, .reply = std::move(reply)});
    }
    on_made_();
  }
}

}  // namespace skua::app
