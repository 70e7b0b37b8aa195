// A caller of gRPC that begins messages and never ends them: HTTP/2 by hand, because no library of gRPC does so.
#ifndef SKUA_TESTS_CONTROL_UNFINISHED_MESSAGES_H_
#define SKUA_TESTS_CONTROL_UNFINISHED_MESSAGES_H_

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace skua::control {

/// One connection to "127.0.0.1:PORT", with calls of one method. Each sends a message that is declared to have a
/// gibibyte, as fast as the server lets it.
class UnfinishedMessages {
 public:
  /// `path`: "/package.Service/Method".
  UnfinishedMessages(const std::string& address, const std::string& path, uint32_t calls)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ended_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0;
    out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "");
    const std::string head = field(":method", "POST") + field(":scheme", "http") + field(":path", path) +
                             field(":authority", "x") + field("te", "trailers") +
                             field("content-type", "application/grpc");
    for (uint32_t i = 0; i < calls; ++i) {
      const uint32_t stream = 2 * i + 1;
      out_ += frame(kHeaders, kEndHeaders, stream, head);
      streams_[stream] = {};
    }
  }
  ~UnfinishedMessages() { close(fd_); }
  UnfinishedMessages(const UnfinishedMessages&) = delete;
  UnfinishedMessages& operator=(const UnfinishedMessages&) = delete;

  /// Sends until the server ended a call or the connection (true), or has taken `bytes_max` (false).
  bool is_stopped_within(size_t bytes_max) {
    while (!ended_ && sent_ < bytes_max) {
      fill();
      pollfd ready{fd_, static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
      if (poll(&ready, 1, kPatienceMs) <= 0) return false;
      if ((ready.revents & POLLOUT) != 0) write_some();
      if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_some();
    }
    return ended_;
  }

 private:
  static constexpr uint8_t kData = 0;
  static constexpr uint8_t kHeaders = 1;
  static constexpr uint8_t kReset = 3;
  static constexpr uint8_t kSettings = 4;
  static constexpr uint8_t kPing = 6;
  static constexpr uint8_t kGoAway = 7;
  static constexpr uint8_t kWindow = 8;
  static constexpr uint8_t kAck = 1;
  static constexpr uint8_t kEndHeaders = 4;
  static constexpr uint16_t kInitialWindow = 4;
  static constexpr size_t kFrameHead = 9;
  static constexpr int64_t kFrameMax = 16'384;
  static constexpr size_t kOutMax = 1 << 20;
  static constexpr int kPatienceMs = 60'000;

  struct Stream {
    int64_t window = 65'535;
    bool begun = false;
  };

  static std::string number(uint64_t value, int bytes) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i) & 0xff);
    return out;
  }
  static std::string frame(uint8_t kind, uint8_t flags, uint32_t stream, const std::string& body) {
    return number(body.size(), 3) + number(kind, 1) + number(flags, 1) + number(stream, 4) + body;
  }
  /// A header in HPACK's plainest form.
  static std::string field(std::string_view name, std::string_view value) {
    return number(0, 1) + number(name.size(), 1) + std::string(name) + number(value.size(), 1) + std::string(value);
  }
  static uint32_t number_at(std::string_view bytes, size_t at, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
  }

  void fill() {
    for (auto& [id, stream] : streams_) {
      if (out_.size() >= kOutMax) return;
      const int64_t room = std::min({window_, stream.window, kFrameMax});
      if (room < 5) continue;
      std::string body(static_cast<size_t>(room), '\0');
      if (!stream.begun) body.replace(0, 5, number(0, 1) + number(1 << 30, 4));
      stream.begun = true;
      stream.window -= room;
      window_ -= room;
      out_ += frame(kData, 0, id, body);
    }
  }

  void write_some() {
    const ssize_t wrote = send(fd_, out_.data(), std::min(out_.size(), kOutMax), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (wrote < 0) return;
    sent_ += static_cast<size_t>(wrote);
    out_.erase(0, static_cast<size_t>(wrote));
  }

  void read_some() {
    std::string bytes(kOutMax, '\0');
    const ssize_t got = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) {
      ended_ = true;
      return;
    }
    in_.append(bytes, 0, static_cast<size_t>(got));
    size_t at = 0;
    while (in_.size() - at >= kFrameHead) {
      const size_t size = number_at(in_, at, 3);
      if (in_.size() - at < kFrameHead + size) break;
      take(static_cast<uint8_t>(in_[at + 3]), static_cast<uint8_t>(in_[at + 4]), number_at(in_, at + 5, 4),
           std::string_view(in_).substr(at + kFrameHead, size));
      at += kFrameHead + size;
    }
    in_.erase(0, at);
  }

  void take(uint8_t kind, uint8_t flags, uint32_t stream, std::string_view body) {
    if (kind == kReset || kind == kHeaders || kind == kGoAway) ended_ = true;
    if (kind == kPing && (flags & kAck) == 0) out_ += frame(kPing, kAck, 0, std::string(body));
    if (kind == kWindow) (stream == 0 ? window_ : streams_[stream].window) += number_at(body, 0, 4);
    if (kind != kSettings || (flags & kAck) != 0) return;
    for (size_t at = 0; at + 6 <= body.size(); at += 6) {
      if (number_at(body, at, 2) != kInitialWindow) continue;
      const int64_t initial = number_at(body, at + 2, 4);
      for (auto& [id, open] : streams_) open.window += initial - initial_window_;
      initial_window_ = initial;
    }
    out_ += frame(kSettings, kAck, 0, "");
  }

  const int fd_;
  std::string out_;
  std::string in_;
  std::map<uint32_t, Stream> streams_;
  int64_t window_ = 65'535;
  int64_t initial_window_ = 65'535;
  size_t sent_ = 0;
  bool ended_ = false;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_UNFINISHED_MESSAGES_H_
