// What YCSB's driver and the kernel's TCP leave of reads: a store without anything that could be left out, driven by
// the driver of skua-ycsb. The server is one thread with a hash table. A session of the client is a socket and a ring
// of what waits. There is no routing, no retry, no deadline, no flow control, no other kind of request and no error.
//
//   ycsb_floor serve 18565 &
//   ycsb_floor load bare -p bare.port=18565 -P ycsb/workloads/workloadc -p fieldcount=1 -p recordcount=100000
//   ycsb_floor run bare -p bare.port=18565 -P ycsb/workloads/workloadc -p fieldcount=1 ... -threads 4 -inflight 16
//
// A request and an answer, numbers in the machine's order:
//
//   | u16 key bytes | u16 value bytes | key | value |    value bytes 0: asks for the key's value, else stores it
//   | u32 value bytes | value |                          also after a store, without value
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/status.h"
#include "ycsb/bindings/binding.h"
#include "ycsb/bindings/receive_buffer.h"
#include "ycsb/bindings/rows.h"
#include "ycsb/bindings/send_buffer.h"
#include "ycsb/driver/driver.h"

namespace {

namespace ycsb = skua::ycsb;

struct RequestHead {
  uint16_t key_bytes;
  uint16_t value_bytes;
};

template <typename T>
void append_raw(ycsb::SendBuffer& out, const T& value) {
  out.append({reinterpret_cast<const char*>(&value), sizeof value});
}

/// The object at the front; nothing: it has not come as a whole.
template <typename T>
std::optional<T> peek(std::string_view bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::copy_n(bytes.begin(), sizeof value, reinterpret_cast<char*>(&value));
  return value;
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void send_without_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// --- The server

class Server {
 public:
  /// False: the port is taken.
  bool listen(uint16_t port) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = loopback(port);
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
    return ::listen(listener_, 64) == 0;
  }

  [[noreturn]] void run() {
    const int epoll = epoll_create1(0);
    const auto watch = [epoll](int fd) {
      epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
      epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    };
    watch(listener_);
    std::array<epoll_event, 64> events;
    for (;;) {
      const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        if (fd != listener_) {
          if (!serve(fd)) close(fd);
        } else if (const int accepted = accept(listener_, nullptr, nullptr); accepted >= 0) {
          send_without_delay(accepted);
          received_.erase(accepted);
          watch(accepted);
        }
      }
    }
  }

 private:
  /// Takes what has come and answers all of it in one system call. False: the connection is over.
  bool serve(int fd) {
    ycsb::ReceiveBuffer& in = received_[fd];
    const std::span<char> room = in.room(1);
    const ssize_t got = recv(fd, room.data(), room.size(), 0);
    if (got <= 0) return false;
    in.received(static_cast<size_t>(got));
    look_ahead(in.unparsed());
    while (answer(in)) {
    }
    const std::string_view bytes = out_.unsent();
    const bool is_sent = bytes.empty() || send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == ssize_t(bytes.size());
    out_.mark_sent(bytes.size());
    return is_sent;
  }

  /// The next request as a whole; nothing: it has not come.
  static std::optional<RequestHead> whole_request(std::string_view bytes) {
    const std::optional<RequestHead> head = peek<RequestHead>(bytes);
    const bool is_whole = head.has_value() && bytes.size() >= sizeof *head + head->key_bytes + head->value_bytes;
    return is_whole ? head : std::nullopt;
  }

  /// Fetches what the lookups of all requests need, side by side.
  void look_ahead(std::string_view bytes) const {
    while (const std::optional<RequestHead> head = whole_request(bytes)) {
      values_.prefetch(skua::absl_view(bytes.substr(sizeof *head, head->key_bytes)));
      bytes.remove_prefix(sizeof *head + head->key_bytes + head->value_bytes);
    }
  }

  bool answer(ycsb::ReceiveBuffer& in) {
    const std::string_view bytes = in.unparsed();
    const std::optional<RequestHead> head = whole_request(bytes);
    if (!head.has_value()) return false;
    const std::string_view key = bytes.substr(sizeof *head, head->key_bytes);
    std::string_view answer;
    if (head->value_bytes > 0) {
      values_[skua::absl_view(key)] = bytes.substr(sizeof *head + head->key_bytes, head->value_bytes);
    } else if (const auto found = values_.find(skua::absl_view(key)); found != values_.end()) {
      answer = found->second;
    }
    append_raw(out_, static_cast<uint32_t>(answer.size()));
    out_.append(answer);
    in.consume(sizeof *head + head->key_bytes + head->value_bytes);
    return true;
  }

  int listener_ = -1;
  absl::flat_hash_map<std::string, std::string> values_;
  absl::flat_hash_map<int, ycsb::ReceiveBuffer> received_;
  ycsb::SendBuffer out_;
};

// --- The client

struct BarePending {
  const ycsb::Operation* op = nullptr;
  ycsb::CompletionFn done;
};

/// Two system calls for what is in flight: one sends, and one sleeps (for a second at most) and receives.
class BareSession final : public ycsb::BindingSession {
 public:
  BareSession(int fd, const ycsb::Schema& schema, size_t in_flight_max)
      : fd_(fd), rows_(schema), pending_(std::bit_ceil(in_flight_max)) {}
  ~BareSession() override { close(fd_); }

  void submit(const ycsb::Operation& op, ycsb::CompletionFn done) override {
    const bool is_read = op.kind == ycsb::OpKind::kRead;
    if (!is_read && op.kind != ycsb::OpKind::kInsert) return done(ycsb::OpResult(ycsb::Status::kNotImplemented));
    if (!is_read) rows_.encode(op);
    const std::string_view value = is_read ? std::string_view{} : rows_.encoded();
    append_raw(out_, RequestHead{static_cast<uint16_t>(op.key.size()), static_cast<uint16_t>(value.size())});
    out_.append(op.key);
    out_.append(value);
    pending_[tail_++ & (pending_.size() - 1)] = {.op = &op, .done = done};
  }

  absl::Status poll(skua::DurationNs timeout) override {
    const std::string_view bytes = out_.unsent();
    if (!bytes.empty() && send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
      return absl::UnavailableError("the bare store took no bytes: is it still there?");
    }
    out_.mark_sent(bytes.size());
    if (head_ == tail_) return absl::OkStatus();
    const std::span<char> room = in_.room(1);
    const ssize_t got = recv(fd_, room.data(), room.size(), timeout > 0 ? 0 : MSG_DONTWAIT);
    if (got == 0) return absl::UnavailableError("the bare store is gone");
    if (got > 0) in_.received(static_cast<size_t>(got));
    return take_answers();
  }

 private:
  absl::Status take_answers() {
    for (;;) {
      const std::string_view bytes = in_.unparsed();
      const std::optional<uint32_t> size = peek<uint32_t>(bytes);
      if (!size.has_value() || bytes.size() < sizeof *size + *size) return absl::OkStatus();
      const BarePending answered = pending_[head_++ & (pending_.size() - 1)];
      if (answered.op->kind == ycsb::OpKind::kRead && !rows_.decode(bytes.substr(sizeof *size, *size))) {
        return absl::DataLossError("a value is no row: load the table first");
      }
      in_.consume(sizeof *size + *size);
      answered.done(ycsb::OpResult(ycsb::Status::kOk));
    }
  }

  int fd_;
  ycsb::RowCoder rows_;
  ycsb::SendBuffer out_;
  ycsb::ReceiveBuffer in_;
  std::vector<BarePending> pending_;  // a ring
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

class BareBinding final : public ycsb::Binding {
 public:
  BareBinding(uint16_t port, const ycsb::Schema& schema) : port_(port), schema_(schema) {}

  absl::StatusOr<std::unique_ptr<ycsb::BindingSession>> open_session(const ycsb::SessionOptions& options) override {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(port_);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(fd);
      return absl::UnavailableError("nobody listens at bare.port: start ycsb_floor serve PORT");
    }
    send_without_delay(fd);
    const timeval longest{.tv_sec = 1, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    return std::make_unique<BareSession>(fd, schema_, options.in_flight_max);
  }

 private:
  const uint16_t port_;
  const ycsb::Schema& schema_;
};

absl::StatusOr<std::unique_ptr<ycsb::Binding>> make_bare(const ycsb::BindingContext& context) {
  ycsb::PropertyReader in(context.properties);
  const auto port = static_cast<uint16_t>(in.whole("bare.port", 18'565, 1, 65'535));
  if (!in.status().ok()) return in.status();
  return std::make_unique<BareBinding>(port, context.schema);
}

constexpr std::array<std::array<std::string_view, 3>, 1> kProperties = {
    {{"bare.port", "18565", "where ycsb_floor serve listens"}}};

absl::StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (arguments.size() == 2 && arguments[0] == "serve") {
    Server server;
    if (!server.listen(static_cast<uint16_t>(std::atoi(arguments[1].c_str())))) {
      std::fprintf(stderr, "ycsb_floor: cannot listen at port %s: choose another\n", arguments[1].c_str());
      return 1;
    }
    server.run();
  }
  const ycsb::BindingEntry bare{.name = "bare",
                                .java_class = "BareClient",
                                .help = "a store without anything that could be left out",
                                .properties = kProperties,
                                .make = &make_bare};
  return ycsb::drive(arguments, {&bare, 1}, {.read_file = &read_file}, std::cout, std::cerr);
}
