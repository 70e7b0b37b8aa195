#include "rpc/transport/tcp/socket_notes.h"

#include <linux/errqueue.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace skua::rpc::tcp {

bool enable_zero_copy(int fd) {
  const int on = 1;
  return setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
}

std::optional<WritesDone> read_writes_done(int fd) {
  alignas(cmsghdr) std::array<char, 128> control;
  while (true) {
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
      if (errno == EINTR) continue;
      return std::nullopt;
    }
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      sock_extended_err error;
      if (part->cmsg_len < CMSG_LEN(sizeof error)) continue;
      std::memcpy(&error, CMSG_DATA(part), sizeof error);
      if (error.ee_origin != SO_EE_ORIGIN_ZEROCOPY || error.ee_errno != 0) continue;
      return WritesDone{error.ee_info, error.ee_data, (error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0};
    }
    // A note about something else: read the next one.
  }
}

void wait_for_note(int fd, DurationNs timeout_ns) {
  pollfd one{.fd = fd, .events = 0, .revents = 0};
  (void)poll(&one, 1, static_cast<int>(timeout_ns / kMillisecond));
}

void forget_writes(int fd) {
  // If the disconnect fails, closing the socket has the same effect (SO_LINGER with time 0).
  const linger now{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  (void)connect(fd, &nobody, sizeof nobody);
}

}  // namespace skua::rpc::tcp
