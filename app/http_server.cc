#include "app/http_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/http_listener.h"
#include "app/http_page_thread.h"

namespace skua::app {
namespace {

/// No connection is accepted for so long when the system has no descriptor or no memory for one.
constexpr DurationNs kAcceptPauseNs = 100 * kMillisecond;
constexpr size_t kReadBytes = 4096;

const char* reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Unknown";
  }
}

std::string reply_bytes(const HttpReply& reply, bool has_body) {
  return absl::StrCat("HTTP/1.1 ", reply.status, " ", reason_of(reply.status), "\r\nContent-Type: ", reply.content_type,
                      "\r\nContent-Length: ", reply.body.size(), "\r\nCache-Control: no-store\r\nConnection: close\r\n",
                      reply.status == 405 ? "Allow: GET, HEAD\r\n" : "", "\r\n", has_body ? reply.body : std::string());
}

struct Connection {
  enum class State {
    kReading,    // the head of the request
    kWaiting,    // for its page
    kWriting,    // the reply
    kLingering,  // The reply is sent. What the client still sends is dropped: a close now could destroy the reply.
  };

  uint64_t id = 0;
  OwnedFd socket{};  // not open: the connection has ended
  TimeNs deadline_ns = 0;
  State state = State::kReading;
  bool wants_body = true;
  std::string received{};
  std::string reply{};
  size_t sent_bytes = 0;
};

short events_of(const Connection& connection) {
  switch (connection.state) {
    case Connection::State::kWaiting: return 0;
    case Connection::State::kWriting: return POLLOUT;
    default: return POLLIN;
  }
}

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(HttpServerOptions options, HttpListener listener, OwnedFd wake_event)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        wake_(std::move(wake_event)),
        pages_([this] { wake(); }),
        thread_([this] { run(); }) {}

  ~HttpServerImpl() override {
    is_ended_ = true;
    wake();
    thread_.join();
  }

  std::string address() const override { return shown(listener_.address); }

 private:
  void wake() {
    const uint64_t one = 1;
    static_cast<void>(!::write(wake_.get(), &one, sizeof one));  // full: the thread is woken already
  }

  void run() {
    while (!is_ended_) {
      wait();
      give_pages();
      for (size_t i = 0; i < connections_.size(); ++i) serve(connections_[i], polled_[i + 2].revents);
      end_late();
      std::erase_if(connections_, [](const Connection& connection) { return !connection.socket.is_open(); });
      if ((polled_[1].revents & POLLIN) != 0) accept_all();
    }
    connections_.clear();
  }

  /// Until a socket can go on, a page is made, a time is over, or the server ends.
  void wait() {
    const TimeNs now = clock_.now_ns();
    TimeNs until = kTimeNever;
    const bool is_accepting = now >= accept_again_ns_;
    if (!is_accepting) until = accept_again_ns_;
    polled_.assign({{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                    {.fd = is_accepting ? listener_.socket.get() : -1, .events = POLLIN, .revents = 0}});
    for (const Connection& connection : connections_) {
      polled_.push_back({.fd = connection.socket.get(), .events = events_of(connection), .revents = 0});
      until = std::min(until, connection.deadline_ns);
    }
    const DurationNs left = until == kTimeNever ? 0 : std::max<DurationNs>(0, until - now);
    const int timeout_ms = until == kTimeNever ? -1 : static_cast<int>((left + kMillisecond - 1) / kMillisecond);
    if (::poll(polled_.data(), polled_.size(), timeout_ms) < 0) {
      for (pollfd& polled : polled_) polled.revents = 0;
    }
    uint64_t ignored = 0;
    static_cast<void>(!::read(wake_.get(), &ignored, sizeof ignored));
  }

  void give_pages() {
    for (const HttpPageThread::Made& made : pages_.take()) {
      const auto asker = std::ranges::find(connections_, made.connection, &Connection::id);
      if (asker != connections_.end()) begin_reply(*asker, made.reply);
    }
  }

  void serve(Connection& connection, short events) {
    if (events == 0 || !connection.socket.is_open()) return;
    switch (connection.state) {
      case Connection::State::kReading: return read(connection);
      case Connection::State::kWaiting: return end(connection);  // only errors are polled for
      case Connection::State::kWriting: return write(connection);
      case Connection::State::kLingering: return drop_bytes(connection);
    }
  }

  void end(Connection& connection) {
    if (connection.state == Connection::State::kWaiting) pages_.forget(connection.id);
    connection.socket = OwnedFd();
  }

  void end_late() {
    const TimeNs now = clock_.now_ns();
    for (Connection& connection : connections_) {
      if (now >= connection.deadline_ns) end(connection);
    }
  }

  /// Empty: nothing is there now, or the connection has ended.
  std::string_view receive(Connection& connection, size_t bytes_max) {
    const ssize_t got = ::recv(connection.socket.get(), buffer_.data(), std::min(buffer_.size(), bytes_max), 0);
    if (got > 0) return {buffer_.data(), static_cast<size_t>(got)};
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) end(connection);
    return {};
  }

  void read(Connection& connection) {
    const size_t before = connection.received.size();
    connection.received += receive(connection, kHttpHeadBytesMax - before);
    if (!connection.socket.is_open()) return;
    if (const std::optional<size_t> head = http_head_bytes(connection.received, before)) {
      answer(connection, std::string_view(connection.received).substr(0, *head));
    } else if (connection.received.size() == kHttpHeadBytesMax) {
      begin_reply(connection, {.status = 431, .body = "the request is too long\n"});
    }
  }

  void answer(Connection& connection, std::string_view head) {
    absl::StatusOr<HttpRequest> request = parse_http_request(head);
    if (!request.ok()) {
      return begin_reply(connection, {.status = 400, .body = absl::StrCat(request.status().message(), "\n")});
    }
    connection.wants_body = request->method != HttpMethod::kHead;
    if (listener_.is_loopback && !is_address_or_localhost(request->host)) {
      return begin_reply(connection, {.status = 421, .body = "ask by an IP address or localhost\n"});
    }
    const auto page = options_.pages.find(request->path);
    if (page == options_.pages.end()) {
      std::string known;
      for (const auto& [path, ignored] : options_.pages) absl::StrAppend(&known, " ", path);
      return begin_reply(connection,
                         {.status = 404, .body = absl::StrCat("there is no such page; there are:", known, "\n")});
    }
    if (request->method == HttpMethod::kOther) {
      return begin_reply(connection, {.status = 405, .body = "only GET and HEAD are served\n"});
    }
    connection.state = Connection::State::kWaiting;
    pages_.ask(connection.id, [&make = page->second, asked = *std::move(request)] { return make(asked); });
  }

  void begin_reply(Connection& connection, const HttpReply& reply) {
    connection.reply = reply_bytes(reply, connection.wants_body);
    connection.received = std::string();
    connection.state = Connection::State::kWriting;
    write(connection);
  }

  void write(Connection& connection) {
    const std::string_view rest = std::string_view(connection.reply).substr(connection.sent_bytes);
    const ssize_t sent = ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) end(connection);
      return;
    }
    connection.sent_bytes += static_cast<size_t>(sent);
    if (connection.sent_bytes < connection.reply.size()) return;
    connection.reply = std::string();
    connection.state = Connection::State::kLingering;
    if (::shutdown(connection.socket.get(), SHUT_WR) != 0) end(connection);
  }

  void drop_bytes(Connection& connection) { static_cast<void>(receive(connection, kReadBytes)); }

  /// At most as many as there may be: who connects again and again does not keep this thread here.
  void accept_all() {
    for (size_t i = 0; i < kHttpConnectionsMax; ++i) {
      OwnedFd socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const int error = errno;
      if (socket.is_open()) {
        if (!make_room()) continue;
        connections_.push_back(
            {.id = ++last_id_, .socket = std::move(socket), .deadline_ns = clock_.now_ns() + options_.deadline_ns});
      } else if (error != ECONNABORTED && error != EINTR) {
        if (error != EAGAIN) accept_again_ns_ = clock_.now_ns() + kAcceptPauseNs;
        return;
      }
    }
  }

  /// False: all connections wait for their pages.
  bool make_room() {
    if (connections_.size() < kHttpConnectionsMax) return true;
    const auto oldest = std::ranges::find_if(
        connections_, [](const Connection& connection) { return connection.state != Connection::State::kWaiting; });
    if (oldest == connections_.end()) return false;
    connections_.erase(oldest);
    return true;
  }

  const HttpServerOptions options_;
  const HttpListener listener_;
  const OwnedFd wake_;  // an eventfd
  const SteadyClock clock_;
  std::atomic<bool> is_ended_{false};

  // Used by thread_ only.
  std::vector<Connection> connections_;  // the oldest first
  std::vector<pollfd> polled_;           // wake_, the listener, and the connections in their order
  std::array<char, kReadBytes> buffer_{};
  uint64_t last_id_ = 0;
  TimeNs accept_again_ns_ = 0;

  HttpPageThread pages_;  // uses wake_ and the options' pages
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options) {
  absl::StatusOr<HttpListener> listener = listen_for_http(options.address);
  if (!listener.ok()) return listener.status();
  OwnedFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.is_open()) {
    return absl::UnavailableError(absl::StrCat("no eventfd for HTTP: ", std::generic_category().message(errno)));
  }
  return std::make_unique<HttpServerImpl>(std::move(options), *std::move(listener), std::move(wake));
}

}  // namespace skua::app
