// PipelinedSession: what sessions of stores have in common that answer commands in their order over one connection.
//
//   submit()   command into commands_      -->  send             oldest                      newest
//   poll()     replies_ <-- receive; each reply is the oldest    [ pending | pending | ... | pending ]   a ring
//              pending operation's                                 front()                     push()
//
// A store's session derives from it: submit() writes commands and pushes an entry, take_replies() reads what has come
// and ends entries, abandon() ends the oldest one because the connection is gone.
#ifndef SKUA_YCSB_BINDINGS_PIPELINED_SESSION_H_
#define SKUA_YCSB_BINDINGS_PIPELINED_SESSION_H_

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rpc/base/check.h"
#include "ycsb/bindings/binding.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {

/// `Commands`: unsent(), mark_sent(bytes). `Replies`: room(), received(bytes). `Pending`: an operation whose replies
/// are awaited. Thread: as BindingSession.
template <typename Commands, typename Replies, typename Pending>
class PipelinedSession : public BindingSession {
 public:
  absl::Status poll(DurationNs timeout) final {
    if (!broken_.ok()) return broken_;
    uint64_t completed = 0;
    if (absl::Status status = send_some(); !status.ok()) return status;
    if (absl::Status status = receive_some(completed); !status.ok()) return status;
    if (completed == 0 && timeout > 0) {
      pollfd waiting = {fd_, POLLIN, 0};
      if (!commands_.unsent().empty()) waiting.events |= POLLOUT;
      const timespec limit = {timeout / kSecond, timeout % kSecond};
      ::ppoll(&waiting, 1, &limit, nullptr);
      if (absl::Status status = receive_some(completed); !status.ok()) return status;
    }
    return send_some();  // second parts of operations, or what did not fit before
  }

 protected:
  /// `fd` is connected, and the derived class's. `whom`: what messages call the store.
  PipelinedSession(int fd, std::string whom, size_t in_flight_max)
      : fd_(fd), whom_(std::move(whom)), pending_(std::bit_ceil(in_flight_max)) {}

  /// Takes the replies that are there, and counts them. Empty, or what is wrong with them.
  virtual std::string_view take_replies(uint64_t& completed) = 0;
  /// The oldest entry ends with kServiceUnavailable. It pops it.
  virtual void abandon() = 0;

  [[nodiscard]] bool is_broken() const { return !broken_.ok(); }
  [[nodiscard]] bool none_pending() const { return head_ == tail_; }
  /// The oldest. Not while none is pending.
  [[nodiscard]] Pending& front() { return pending_[head_ & (pending_.size() - 1)]; }
  void pop() { ++head_; }
  /// The newest, which is as the one before it in its place was left.
  [[nodiscard]] Pending& push() {
    SKUA_CHECK(tail_ - head_ < pending_.size(), "more operations submitted than in_flight_max");
    return pending_[tail_++ & (pending_.size() - 1)];
  }

  Commands commands_;
  Replies replies_;

 private:
  absl::Status fail(std::string_view what) {
    broken_ = absl::UnavailableError(
        concat("lost the connection to ", whom_, ": ", what, "; see the server's log, then run again"));
    while (!none_pending()) abandon();
    return broken_;
  }

  absl::Status fail_errno() { return fail(std::system_category().message(errno)); }

  absl::Status send_some() {
    while (!commands_.unsent().empty()) {
      const std::string_view bytes = commands_.unsent();
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        commands_.mark_sent(static_cast<size_t>(count));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno != EINTR) {
        return fail_errno();
      }
    }
    return absl::OkStatus();
  }

  absl::Status receive_some(uint64_t& completed) {
    for (;;) {
      const std::span<char> room = replies_.room();
      const ssize_t count = ::recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
      if (count == 0) return fail("closed by the server");
      if (count < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::OkStatus();
        return fail_errno();
      }
      replies_.received(static_cast<size_t>(count));
      if (const std::string_view wrong = take_replies(completed); !wrong.empty()) return fail(wrong);
      if (static_cast<size_t>(count) < room.size()) return absl::OkStatus();
    }
  }

  const int fd_;
  const std::string whom_;
  std::vector<Pending> pending_;  // a ring
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  absl::Status broken_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_PIPELINED_SESSION_H_
