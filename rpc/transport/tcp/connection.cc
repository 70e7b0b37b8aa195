#include "rpc/transport/tcp/connection.h"

#include <sys/socket.h>

#include <cerrno>

namespace skua::rpc::tcp {

HelloReader::Result HelloReader::read(int fd) {
  while (have_ < want_) {
    const ssize_t got = recv(fd, buffer_.data() + have_, want_ - have_, MSG_DONTWAIT);
    if (got == 0) return Result::kEnd;
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? Result::kWaiting : Result::kError;
    }
    have_ += static_cast<size_t>(got);
    if (have_ != kHelloPreambleBytes || want_ != kHelloPreambleBytes) continue;
    const absl::StatusOr<size_t> size = hello_size(bytes(), kind_);
    if (!size.ok()) return Result::kMalformed;
    want_ = *size;
  }
  return Result::kComplete;
}

ssize_t write_pieces(int fd, std::span<iovec> pieces, int flags) {
  flags |= MSG_NOSIGNAL | MSG_DONTWAIT;
  while (true) {
    ssize_t sent;
    if (pieces.size() == 1) {
      sent = send(fd, pieces[0].iov_base, pieces[0].iov_len, flags);
    } else {
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = pieces.size();
      sent = sendmsg(fd, &message, flags);
    }
    if (sent >= 0 || errno != EINTR) return sent;
  }
}

WriteOutcome write_queue(int fd, TxQueue& queue, ZeroCopySends& sends, TxCompletions& completions) {
  std::array<iovec, kTxGatherMax> pieces;
  while (!queue.empty()) {
    const TxQueue::Run run = queue.gather(pieces, sends.can_write());
    const int flags = (run.by_zero_copy ? MSG_ZEROCOPY : 0) | (run.goes_on ? MSG_MORE : 0);
    const ssize_t sent = write_pieces(fd, std::span(pieces).first(run.count), flags);
    if (sent < 0 && errno == ENOBUFS && run.by_zero_copy) {
      // The kernel limits pinned pages and notes per user. The next round sends the same bytes with a copy.
      sends.on_no_memory();
      continue;
    }
    if (sent < 0) return errno == EAGAIN ? WriteOutcome::kBlocked : WriteOutcome::kError;
    queue.consume(static_cast<size_t>(sent), run.by_zero_copy, sends, completions);
    // A short write means that the socket is full; epoll reports when there is room again.
    if (static_cast<size_t>(sent) < run.bytes) return WriteOutcome::kBlocked;
  }
  return WriteOutcome::kEmptied;
}

bool write_hello(int fd, std::string_view bytes) {
  while (true) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent >= 0 && static_cast<size_t>(sent) < bytes.size()) errno = ENOBUFS;
    return sent == static_cast<ssize_t>(bytes.size());
  }
}

}  // namespace skua::rpc::tcp
