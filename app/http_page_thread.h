// The thread on which an HTTP server makes its pages, one after the other.
#ifndef SKUA_APP_HTTP_PAGE_THREAD_H_
#define SKUA_APP_HTTP_PAGE_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "app/http_server.h"

namespace skua::app {

/// Thread: one, for all methods. Its bound is the caller's: one page for each connection.
class HttpPageThread {
 public:
  struct Made {
    uint64_t connection = 0;
    HttpReply reply{};
  };

  /// `made` is called on the page thread: take() has something.
  explicit HttpPageThread(std::function<void()> made);
  /// Waits for the page that is being made; those in line are not made.
  ~HttpPageThread();
  HttpPageThread(const HttpPageThread&) = delete;
  HttpPageThread& operator=(const HttpPageThread&) = delete;

  /// `make` runs on the page thread.
  void ask(uint64_t connection, std::function<HttpReply()> make);
  /// The connection has ended: its page is not made, or not given out.
  void forget(uint64_t connection);
  [[nodiscard]] std::vector<Made> take();

 private:
  struct Asked {
    uint64_t connection = 0;
    std::function<HttpReply()> make{};
  };

  void run();

  const std::function<void()> on_made_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Asked> asked_;  // protected by mutex_
  std::vector<Made> made_;   // protected by mutex_
  bool is_ended_ = false;    // protected by mutex_
  std::thread thread_;
};

}  // namespace skua::app

#endif  // SKUA_APP_HTTP_PAGE_THREAD_H_
