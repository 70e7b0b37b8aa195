#include "app/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace skua::app {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before threads exist
  return value == nullptr ? std::string() : value;
}

DurationNs watchdog_of_environment() {
  int64_t pid = 0;
  // Set if the watchdog is meant for one process only.
  if (absl::SimpleAtoi(variable("WATCHDOG_PID"), &pid) && pid != getpid()) return 0;
  int64_t microseconds = 0;
  const bool is_given = absl::SimpleAtoi(variable("WATCHDOG_USEC"), &microseconds);
  constexpr int64_t kMicrosecondsMax = int64_t{365} * 24 * 3600 * 1'000'000;
  return is_given && microseconds > 0 ? std::min(microseconds, kMicrosecondsMax) * kMicrosecond : 0;
}

}  // namespace

Notifier Notifier::from_environment() {
  return Notifier(variable("NOTIFY_SOCKET"), watchdog_of_environment());
}

Notifier::Notifier(std::string socket, DurationNs watchdog_ns) : socket_(std::move(socket)), watchdog_ns_(watchdog_ns) {
  sockaddr_un address{};
  const bool is_name = !socket_.empty() && (socket_[0] == '/' || socket_[0] == '@');
  if (!is_name || socket_.size() >= sizeof address.sun_path) socket_.clear();
}

void Notifier::ready() const {
  send("READY=1");
}

void Notifier::stopping() const {
  send("STOPPING=1");
}

void Notifier::status(std::string_view text) const {
  std::string line(text);
  // A line break would begin another message.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  send(absl::StrCat("STATUS=", line));
}

void Notifier::extend_timeout(DurationNs more_ns) const {
  send(absl::StrCat("EXTEND_TIMEOUT_USEC=", more_ns / kMicrosecond));
}

void Notifier::alive() const {
  send("WATCHDOG=1");
}

void Notifier::send(const std::string& message) const {
  if (socket_.empty()) return;
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';  // an abstract name begins with a zero
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  static_cast<void>(::sendto(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(&address), length));
  ::close(fd);
}

}  // namespace skua::app
