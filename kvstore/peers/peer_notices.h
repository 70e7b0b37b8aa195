// PeerNotices: what the host of PeerLinks is still to be told about its links. Notices wait for the next tick, so that
// the host is not called in the middle of a change.
#ifndef SKUA_KVSTORE_PEERS_PEER_NOTICES_H_
#define SKUA_KVSTORE_PEERS_PEER_NOTICES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/peers/peer_address.h"

namespace skua::kv {

/// Thread: the worker's.
class PeerNotices {
 public:
  enum class Kind : uint8_t { kReady, kFailed, kRoom };
  struct Notice {
    Kind kind = Kind::kReady;
    PeerAddress peer;
    absl::Status why;  ///< of kFailed
  };

  /// Several connections to one peer often break together. The host is told once, unless other news about the peer came
  /// between.
  void add(Kind kind, PeerAddress peer, const absl::Status& why = absl::OkStatus()) {
    for (auto it = waiting_.rbegin(); it != waiting_.rend(); ++it) {
      if (it->peer != peer) continue;
      if (it->kind == kind) return;
      break;
    }
    waiting_.push_back({kind, peer, why});
  }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// Calls `fn(Notice)` for each notice, oldest first. `fn` may add notices; these wait for the next call.
  template <typename Fn>
  void tell_all(Fn fn) {
    telling_.swap(waiting_);
    for (const Notice& notice : telling_) fn(notice);
    telling_.clear();
  }

 private:
  std::vector<Notice> waiting_;
  std::vector<Notice> telling_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_NOTICES_H_
