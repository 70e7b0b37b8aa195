// A TCP connection to memcached: connecting within a time limit, and the few questions that are asked before
// operations begin. What follows uses the socket as it is (it blocks unless MSG_DONTWAIT says otherwise).
#ifndef SKUA_YCSB_BINDINGS_MEMCACHED_CONNECTION_H_
#define SKUA_YCSB_BINDINGS_MEMCACHED_CONNECTION_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"

namespace skua::ycsb {

struct MemcachedAddress {
  std::string host;
  int port = 0;
  /// For connecting, and for answers of ask().
  DurationNs timeout = 0;

  [[nodiscard]] std::string text() const;
};

[[nodiscard]] std::string errno_text(int error);

/// Thread: one at a time.
class MemcachedConnection {
 public:
  /// Connects and asks for the version. Errors: UNAVAILABLE (nobody there, or a version without the meta commands that
  /// the binding uses), with what to check. `address` outlives it.
  [[nodiscard]] static absl::StatusOr<MemcachedConnection> open(const MemcachedAddress& address);
  MemcachedConnection(MemcachedConnection&& other) noexcept
      : address_(other.address_), fd_(std::exchange(other.fd_, -1)), version_(std::move(other.version_)) {}
  MemcachedConnection& operator=(MemcachedConnection&&) = delete;
  ~MemcachedConnection();

  /// Sends a command and waits for an answer that ends in `end`; without `end`.
  absl::StatusOr<std::string> ask(std::string_view command, std::string_view end);

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& version() const { return version_; }

 private:
  MemcachedConnection(const MemcachedAddress& address, int fd) : address_(&address), fd_(fd) {}

  const MemcachedAddress* address_;
  int fd_;
  std::string version_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_MEMCACHED_CONNECTION_H_
