// SilentConnections: those that have said nothing yet, and which of them goes when there are too many. A client of gRPC
// speaks first, with TLS and without, so an honest connection is here for a round trip.
//
//    add() --> waits --> take(): its first byte has come, or its end
//                   +--> take_late(): it said nothing for kFirstByteNs
//                   +--> makes room for another one: the oldest of that one's network, if the network has its share of
//                        places, or the oldest of all, if there is no place left
//
// So a network that keeps silent connections open shuts out itself before others. Pure: time is an argument.
#ifndef SKUA_CONTROL_SERVER_SILENT_CONNECTIONS_H_
#define SKUA_CONTROL_SERVER_SILENT_CONNECTIONS_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>

#include "control/server/arrival_limit.h"
#include "control/server/controller_limits.h"
#include "rpc/base/clock.h"

namespace skua::control {

struct SilentConnection {
  int fd = -1;
  int listener = -1;
  Network from{};
  TimeNs until_ns = 0;
};

/// Owns no descriptor. Thread: one at a time.
class SilentConnections {
 public:
  /// Of a door that may have `descriptors_max` descriptors.
  explicit SilentConnections(int descriptors_max)
      : all_max_(std::clamp<size_t>(static_cast<size_t>(descriptors_max) / kSilentPart, 2, kSilentMax)) {}

  /// `fd` is not in it. Returns the one that goes for it, which is taken out.
  std::optional<SilentConnection> add(int fd, int listener, const Network& from, TimeNs now) {
    std::optional<SilentConnection> gone;
    const auto of_network = counts_.find(from);
    if (of_network != counts_.end() && of_network->second >= all_max_ / 2) {
      gone = take_at(std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return one.from == from; }));
    } else if (all_.size() >= all_max_) {
      gone = take_at(all_.begin());
    }
    all_.push_back({fd, listener, from, now + kFirstByteNs});
    by_fd_[fd] = std::prev(all_.end());
    ++counts_[from];
    return gone;
  }

  [[nodiscard]] bool contains(int fd) const { return by_fd_.contains(fd); }

  /// Nothing: `fd` is not in it.
  std::optional<SilentConnection> take(int fd) {
    const auto found = by_fd_.find(fd);
    if (found == by_fd_.end()) return std::nullopt;
    return take_at(found->second);
  }

  /// One whose time is up. Nothing: there is none.
  std::optional<SilentConnection> take_late(TimeNs now) {
    if (next_ns() > now) return std::nullopt;
    return take_at(all_.begin());
  }

  /// When take_late() has one. kTimeNever: it is empty.
  [[nodiscard]] TimeNs next_ns() const { return all_.empty() ? kTimeNever : all_.front().until_ns; }
  [[nodiscard]] size_t size() const { return all_.size(); }

 private:
  using Place = std::list<SilentConnection>::iterator;

  SilentConnection take_at(Place place) {
    const SilentConnection taken = *place;
    by_fd_.erase(taken.fd);
    const auto count = counts_.find(taken.from);
    if (--count->second == 0) counts_.erase(count);
    all_.erase(place);
    return taken;
  }

  const size_t all_max_;
  std::list<SilentConnection> all_;  // oldest first
  std::unordered_map<int, Place> by_fd_;
  std::map<Network, size_t> counts_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_SILENT_CONNECTIONS_H_
