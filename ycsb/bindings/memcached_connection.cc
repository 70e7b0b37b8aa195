#include "ycsb/bindings/memcached_connection.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <system_error>
#include <vector>

#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

/// The first 1.6 whose meta commands are those of today.
constexpr unsigned kPatchMin = 12;
/// Of an answer to ask().
constexpr size_t kAnswerMax = size_t{1} << 20;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

/// A connected socket, or -1 and errno.
int connect_to(const addrinfo& where, DurationNs timeout) {
  const int fd = socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol);
  if (fd < 0) return -1;
  const timeval limit = {timeout / kSecond, timeout % kSecond / kMicrosecond};
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // connect() heeds it too
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (connect(fd, where.ai_addr, where.ai_addrlen) == 0) return fd;
  const int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
  close(fd);
  errno = error;
  return -1;
}

absl::StatusOr<int> connect_to(const MemcachedAddress& address) {
  const auto fail = [&](std::string_view why) {
    return absl::UnavailableError(concat("cannot connect to ", address.text(), ": ", why,
                                         "; is memcached running there? (-p memcached.host, -p memcached.port)"));
  };
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0) return fail(gai_strerror(error));
  const std::unique_ptr<addrinfo, FreeAddresses> owned(list);
  errno = 0;
  for (const addrinfo* where = list; where != nullptr; where = where->ai_next) {
    const int fd = connect_to(*where, address.timeout);
    if (fd >= 0) return fd;
  }
  return fail(errno_text(errno));
}

bool is_recent(std::string_view version) {
  const std::vector<std::string_view> parts = split_text(version, '.');
  if (parts.size() < 3) return false;
  const auto major = parse_number<unsigned>(parts[0]);
  const auto minor = parse_number<unsigned>(parts[1]);
  const auto patch = parse_number<unsigned>(parts[2].substr(0, parts[2].find_first_not_of("0123456789")));
  if (!major || !minor || !patch) return false;
  return *major > 1 || (*major == 1 && (*minor > 6 || (*minor == 6 && *patch >= kPatchMin)));
}

}  // namespace

std::string errno_text(int error) {
  return std::system_category().message(error);
}

std::string MemcachedAddress::text() const {
  return concat("memcached at ", host, ":", port);
}

absl::StatusOr<MemcachedConnection> MemcachedConnection::open(const MemcachedAddress& address) {
  const absl::StatusOr<int> fd = connect_to(address);
  if (!fd.ok()) return fd.status();
  MemcachedConnection connection(address, *fd);
  const absl::StatusOr<std::string> answer = connection.ask("version\r\n", "\r\n");
  if (!answer.ok()) return answer.status();
  constexpr std::string_view kPrefix = "VERSION ";
  connection.version_ = answer->starts_with(kPrefix) ? answer->substr(kPrefix.size()) : "";
  if (!is_recent(connection.version_)) {
    return absl::UnavailableError(concat(address.text(), " answers \"", *answer,
                                         "\" when asked for its version; memcached 1.6.12 or later is needed"));
  }
  return connection;
}

MemcachedConnection::~MemcachedConnection() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> MemcachedConnection::ask(std::string_view command, std::string_view end) {
  const auto fail = [&](std::string_view why) {
    return absl::UnavailableError(
        concat(address_->text(), " does not answer ", trim_text(command), ": ", why, "; is it memcached?"));
  };
  if (send(fd_, command.data(), command.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(command.size()))
    return fail(errno_text(errno));
  std::string answer;
  std::array<char, 4096> piece;
  while (!answer.ends_with(end)) {
    const ssize_t count = recv(fd_, piece.data(), piece.size(), 0);
    if (count == 0) return fail("it closed the connection");
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno == EAGAIN ? "no answer in time" : errno_text(errno));
    answer.append(piece.data(), static_cast<size_t>(count));
    if (answer.size() > kAnswerMax) return fail("its answer has no end");
  }
  answer.resize(answer.size() - end.size());
  return answer;
}

}  // namespace skua::ycsb
