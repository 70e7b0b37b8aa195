// The only source that sees cpp-httplib.
#include "app/http_server.h"

#include <httplib.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace skua::app {
namespace {

constexpr size_t kRequestBodyMax = 4096;
// Also for the first byte of a request.
constexpr std::chrono::seconds kReadTimeout{2};
constexpr std::chrono::seconds kWriteTimeout{5};

/// Threads that handle connections. When the queue is full, enqueue() waits, and so nothing is accepted.
class BoundedPool final : public httplib::TaskQueue {
 public:
  BoundedPool() {
    for (size_t i = 0; i < kHttpThreads; ++i) threads_.emplace_back([this] { run(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.size() < kHttpConnectionsMax; });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      is_ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  /// Tasks that are queued when the pool is shut down are run: each closes its connection.
  void run() {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_ended_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      changed_.notify_all();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // protected by mutex_
  bool is_ended_ = false;                    // protected by mutex_
  std::vector<std::thread> threads_;
};

class HttpServerImpl final : public HttpServer {
 public:
  explicit HttpServerImpl(std::map<std::string, HttpPage> pages) : pages_(std::move(pages)) {
    server_.new_task_queue = [] { return new BoundedPool; };
    // Not SO_REUSEPORT, as is the library's habit: two programs would share a port, unnoticed.
    server_.set_socket_options([](int socket) {
      const int on = 1;
      static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    });
    // A connection that is kept would keep a thread.
    server_.set_keep_alive_max_count(1);
    server_.set_keep_alive_timeout(kReadTimeout.count());
    server_.set_read_timeout(kReadTimeout);
    server_.set_write_timeout(kWriteTimeout);
    server_.set_payload_max_length(kRequestBodyMax);
    // All requests are answered here, before the library looks for a handler or a file.
    server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  ~HttpServerImpl() override {
    // The library's stop() does nothing before the loop runs.
    while (thread_.joinable() && !server_.is_running() && !has_ended_) std::this_thread::yield();
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status listen(const Address& address) {
    host_ = address.host;
    const bool is_bound = address.port == 0 ? (port_ = server_.bind_to_any_port(host_)) > 0
                                            : server_.bind_to_port(host_, port_ = address.port);
    if (!is_bound) {
      const int error = errno;
      const std::string why = std::generic_category().message(error);
      const std::string text = absl::StrCat("cannot listen for HTTP on ", this->address(), ": ", why,
                                            "; give another address or port, or stop who has it (ss -ltnp)");
      return error == EADDRINUSE ? absl::AlreadyExistsError(text) : absl::UnavailableError(text);
    }
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      has_ended_ = true;
    });
    return absl::OkStatus();
  }

  std::string address() const override {
    return host_.find(':') == std::string::npos ? absl::StrCat(host_, ":", port_)
                                                : absl::StrCat("[", host_, "]:", port_);
  }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) const {
    const HttpReply reply = reply_to(request);
    response.status = reply.status;
    response.set_content(reply.body, reply.content_type);
  }

  HttpReply reply_to(const httplib::Request& request) const {
    const auto page = pages_.find(request.path);
    if (page == pages_.end()) {
      std::string known;
      for (const auto& [path, ignored] : pages_) absl::StrAppend(&known, " ", path);
      return {.status = 404, .body = absl::StrCat("there is no such page; there are:", known, "\n")};
    }
    if (request.method != "GET" && request.method != "HEAD") return {.status = 405, .body = "only GET is served\n"};
    HttpRequest asked{.parameters = {}, .accept = request.get_header_value("Accept")};
    for (const auto& [name, value] : request.params) asked.parameters[name] = value;
    return page->second(asked);
  }

  const std::map<std::string, HttpPage> pages_;
  std::string host_;
  int port_ = 0;
  httplib::Server server_;
  std::atomic<bool> has_ended_{false};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const Address& address,
                                                              std::map<std::string, HttpPage> pages) {
  auto server = std::make_unique<HttpServerImpl>(std::move(pages));
  if (absl::Status status = server->listen(address); !status.ok()) return status;
  return server;
}

}  // namespace skua::app
