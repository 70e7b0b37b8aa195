#include "kvstore/gateway/entrances.h"

#include <sys/epoll.h>

#include <cerrno>

#include "kvstore/gateway/gateway_sockets.h"

namespace skua::kv::gateway {
namespace {

/// When no descriptor is left: how long to wait before the next try.
constexpr int64_t kPauseMs = 100;

}  // namespace

bool Entrances::watch(int epoll, uint64_t first_event) {
  epoll_ = epoll;
  first_event_ = first_event;
  for (size_t i = 0; i < entrances_.size(); ++i) {
    if (!watch_input(epoll, entrances_[i].listener.get(), first_event + i)) return false;
  }
  return true;
}

OwnedFd Entrances::accept(const Entrance& entrance, int64_t now_ms) {
  OwnedFd socket = accept_one(entrance.listener);
  if (socket.is_open()) return socket;
  const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  if (is_short) pause(now_ms);
  return socket;
}

void Entrances::pause(int64_t now_ms) {
  resume_ms_ = now_ms + kPauseMs;
  for (const Entrance& entrance : entrances_) {
    (void)epoll_ctl(epoll_, EPOLL_CTL_DEL, entrance.listener.get(), nullptr);
  }
}

void Entrances::resume(int64_t now_ms) {
  if (now_ms < resume_ms_) return;
  resume_ms_ = 0;
  if (!watch(epoll_, first_event_)) pause(now_ms);
}

void Entrances::close() {
  resume_ms_ = 0;
  entrances_.clear();  // epoll forgets them
}

}  // namespace skua::kv::gateway
