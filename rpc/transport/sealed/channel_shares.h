// ChannelShares: how many channels each principal may have, and which channel ends when there is no room for another.
//
//        offers of others                  own dials
//               |                              |
//            pending  ------ prove() ------>  held  -- rest() -->  idle
//   (no frame of it was opened)                    <-- touch() --
//
// Limits. A principal has a share of all channels. The last ones of all are kept for nodes, and for this end's own
// dials. Where the carrier of offers knows no principals, all that comes from one source counts as one.
//
// A principal at its limit gives up what it uses least: its idle channel that has rested longest, then its pending one
// that has waited longest. If all channels are taken, a principal gives up an idle channel of its own. Else the pending
// channel that has waited longest goes, whoever offered it. Else the channel that has rested longest goes, if its
// holder has more channels than the principal. A pending channel is safe until its deadline, and a held one always:
// then the offer is refused. So nobody can push out what somebody else uses.
//
// Whether sessions use a channel is the endpoint's to say. It is asked once for a channel that looks idle, and not
// again before the owner has put the channel to rest anew. So a victim is found in O(log n).
#ifndef SKUA_RPC_TRANSPORT_SEALED_CHANNEL_SHARES_H_
#define SKUA_RPC_TRANSPORT_SEALED_CHANNEL_SHARES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/transport/channels.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct ChannelLimits {
  uint32_t channels_max = 0;
  uint32_t reserved = 0;       // of channels_max: for nodes, and for own dials
  uint32_t per_principal = 0;  // own dials have no such limit
  uint32_t per_node = 0;       // of principals that may have reserved ones
  /// No frame has to come for so long after the last offer of the channel.
  DurationNs pending_ns = 0;
  const char* what = "channels";  // for people

  /// A quarter is reserved. A principal may have half, because programs of one kind often share a certificate; a
  /// node an eighth, so that one node does not take what is reserved for all. At least 16.
  [[nodiscard]] static ChannelLimits of(uint32_t channels_max, DurationNs pending_ns);
  /// The same, of peers without keys.
  [[nodiscard]] static ChannelLimits of_keyless(uint32_t channels_max, DurationNs pending_ns);
};

/// Who pays for a channel.
struct ChannelHolder {
  enum class Kind : uint8_t { kOwnDials, kPrincipal, kSource };
  Kind kind = Kind::kOwnDials;
  std::string principal;
  uint64_t source = 0;
  bool may_have_reserved = true;

  [[nodiscard]] static ChannelHolder of(const OfferOrigin& origin);
  /// For people.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool operator<(const ChannelHolder& other) const;
};

/// Thread: the transport's. Channels are named by their PeerId; ids are small numbers.
class ChannelShares {
 public:
  explicit ChannelShares(const ChannelLimits& limits) : limits_(limits) {}

  /// The channel that has to end before `holder` gets another one; kNoPeer: there is room. `carries_session` says
  /// whether a session uses a channel. RESOURCE_EXHAUSTED names the limit.
  [[nodiscard]] absl::StatusOr<PeerId> victim_for(const ChannelHolder& holder, TimeNs now,
                                                  absl::FunctionRef<bool(PeerId)> carries_session);

  /// A channel that is not here. `is_pending`: others offered it. There must be room.
  void add(PeerId id, const ChannelHolder& holder, bool is_pending, TimeNs now);
  /// A frame of the channel was opened.
  void prove(PeerId id);
  /// Somebody asks for the channel, or a session uses it. A pending one waits from now on.
  void touch(PeerId id, TimeNs now);
  /// No session has used the channel since then.
  void rest(PeerId id, TimeNs since);
  void remove(PeerId id);

  [[nodiscard]] size_t size() const { return count_; }

 private:
  /// Longest first.
  using Queue = std::set<std::pair<TimeNs, PeerId>>;
  enum class State : uint8_t { kNone, kPending, kHeld, kIdle };
  struct Share {
    uint32_t count = 0;
    Queue pending;
    Queue idle;
  };
  using SharesByHolder = std::map<ChannelHolder, Share>;
  struct Place {
    State state = State::kNone;
    TimeNs since_ns = 0;  // of pending and idle ones: their place in the queues
    SharesByHolder::iterator share;
  };

  void leave_queues(PeerId id);
  void wait(PeerId id, TimeNs now);
  [[nodiscard]] PeerId longest_idle(Share& share, absl::FunctionRef<bool(PeerId)> carries_session);
  [[nodiscard]] PeerId longest_idle_of_richer(uint32_t count, absl::FunctionRef<bool(PeerId)> carries_session);
  [[nodiscard]] uint32_t limit_of(const ChannelHolder& holder) const {
    return holder.may_have_reserved ? limits_.per_node : limits_.per_principal;
  }
  [[nodiscard]] PeerId overdue(const Queue& pending, TimeNs now) const;
  [[nodiscard]] absl::Status share_is_used_up(const ChannelHolder& holder, uint32_t count) const;
  [[nodiscard]] absl::Status all_are_used() const;

  const ChannelLimits limits_;
  uint32_t count_ = 0;
  std::vector<Place> places_;  // by PeerId
  SharesByHolder shares_;      // of those who have channels
  Queue pending_;              // of all
  Queue idle_;                 // of all
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_CHANNEL_SHARES_H_
