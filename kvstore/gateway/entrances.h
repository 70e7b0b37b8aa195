// Entrances: the listeners of a thread of the gateway, watched by its epoll. While no descriptor is left they are not
// watched, and connections wait in the kernel.
#ifndef SKUA_KVSTORE_GATEWAY_ENTRANCES_H_
#define SKUA_KVSTORE_GATEWAY_ENTRANCES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvstore/gateway/client_protocol.h"
#include "rpc/base/owned_fd.h"

namespace skua::kv::gateway {

/// A way in: an address, what is spoken there, and the database that clients begin with.
struct Entrance {
  OwnedFd listener;
  ClientProtocol protocol = ClientProtocol::kResp;
  uint32_t database = 0;
};

/// Thread: one.
class Entrances {
 public:
  explicit Entrances(std::vector<Entrance> entrances) : entrances_(std::move(entrances)) {}

  /// epoll tells of the entrances by `first_event` and the numbers after it. False: epoll has no memory for them.
  [[nodiscard]] bool watch(int epoll, uint64_t first_event);
  /// Null: `event` tells of no entrance.
  [[nodiscard]] const Entrance* find(uint64_t event) const {
    const uint64_t place = event - first_event_;
    return place < entrances_.size() ? &entrances_[place] : nullptr;
  }
  /// The next connection; not open: there is none now. If no descriptor is left, all entrances pause.
  [[nodiscard]] OwnedFd accept(const Entrance& entrance, int64_t now_ms);
  /// When the pause ends; 0: there is none.
  [[nodiscard]] int64_t resume_ms() const { return resume_ms_; }
  /// Ends the pause when its time has come.
  void resume(int64_t now_ms);
  void close();

 private:
  void pause(int64_t now_ms);

  std::vector<Entrance> entrances_;
  int epoll_ = -1;
  uint64_t first_event_ = 0;
  int64_t resume_ms_ = 0;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_ENTRANCES_H_
