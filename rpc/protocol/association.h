// Association: what two endpoints share, so that bundles carry the small calls of several sessions.
//
//   endpoint A  ==  association (A opened it)  ==>  endpoint B        sessions that A opened, any number
//               <=  association (B opened it)  ==                     sessions that B opened
//
// The opener of sessions makes an association when the first of them to a peer joins (JoinRecord in rpc/wire/bundle.h);
// the acceptor makes its side when that record arrives. Each side draws an epoch, and accepts no bundle without its own
// epoch. When the last session leaves, the association ends. A session leaves when it breaks or its connection breaks,
// and joins again later.
//
// Rules that bundles need:
//   stamps     the sender's clock when the bundle was sealed. A bundle that is kStaleAfter older than the newest one is
//              rejected: request numbers wrap after 2^31 calls, so an older duplicate would look new. If nothing came
//              for kUnheardFor, the newest stamp is itself too old to compare with.
//   echo       the newest stamp of the other side plus the time since it came: one sample of the path's delay per
//              bundle
//   sequence   counts bundles: a receiver that misses one tells the sender (bundle_history.h)
#ifndef SKUA_RPC_PROTOCOL_ASSOCIATION_H_
#define SKUA_RPC_PROTOCOL_ASSOCIATION_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rpc/base/clock.h"
#include "rpc/protocol/bundle_history.h"
#include "rpc/protocol/rtt_estimator.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {

/// The first two cache lines hold what each bundle needs. Thread: the endpoint's.
struct alignas(64) Association {
  static constexpr DurationNs kStaleAfter = 500 * kMillisecond;
  static constexpr DurationNs kUnheardFor = 60 * kSecond;
  /// Limit of `goal`.
  static constexpr uint32_t kGoalMax = 16;

  // The bundle that is being written; null: none.
  std::byte* at = nullptr;
  std::byte* end = nullptr;
  std::byte* begin = nullptr;
  uint64_t cookie = 0;  // of the driver's frame
  uint16_t records = 0;
  bool is_open = false;  // a bundle is being written, and is in the driver's list
  bool is_ours = false;  // we opened the association
  bool was_heard = false;
  uint32_t in_flight = 0;  // small calls of ours
  uint32_t depth = 0;      // the most of them in flight recently
  uint32_t goal = 0;       // a bundle with so many records is sent at once

  // The two sides.
  uint32_t peer = 0;  // the transport's PeerId
  uint32_t epoch = 0;
  uint32_t remote_index = kNoAssociation;
  uint32_t remote_epoch = 0;
  /// Size limit of a bundle.
  uint32_t bundle_bytes_max = 0;

  uint32_t sequence = 0;           // of the next bundle that is sent
  uint32_t expected_sequence = 0;  // of the next bundle that should come
  Ticks newest = 0;                // newest stamp from the other side
  Ticks newest_came = 0;
  /// How many bundles may be written again now. Each bundle that comes adds one, so that a peer cannot ask for more
  /// bundles than it sends.
  uint32_t repeats = SentBundles::kBundles;
  TimeNs heard_ns = 0;
  std::unique_ptr<SentBundles> sent;  // made for the first record; null on a reliable transport
  Ticks probe_ticks = 0;              // how long a small call waits for its answer before it is repeated
  uint32_t index = 0;
  MissingBundles missing;
  RttEstimator rtt;
  uint32_t session_count = 0;

  /// A bundle with this stamp and sequence came. False: reject it.
  [[nodiscard]] bool hears(Ticks stamp, uint32_t its_sequence, TimeNs now);
  /// True: a request with this stamp is too old to be run (also if it came in a packet of version 1).
  [[nodiscard]] bool is_stale(Ticks stamp, TimeNs now) const {
    const auto behind = static_cast<int32_t>(newest - stamp);
    return was_heard && behind > kStaleAfter / kTickNs && now - heard_ns < kUnheardFor;
  }
  /// A caller's bundle is sent at once when it holds half of what is usually in flight.
  void set_depth(uint32_t calls) {
    depth = calls;
    goal = std::min(calls / 2, kGoalMax);
  }
  [[nodiscard]] Ticks echo(Ticks now) const { return newest + (now - newest_came); }
};

inline bool Association::hears(Ticks stamp, uint32_t its_sequence, TimeNs now) {
  if (is_stale(stamp, now)) [[unlikely]] {
    return false;
  }
  if (static_cast<int32_t>(stamp - newest) >= 0 || !was_heard || now - heard_ns >= kUnheardFor) {
    newest = stamp;
    newest_came = to_ticks(now);
  }
  heard_ns = now;
  const auto ahead = static_cast<int32_t>(its_sequence - expected_sequence);
  if (ahead >= 0) {
    if (ahead > 0 && was_heard) missing.on_gap(expected_sequence, its_sequence, now);
    expected_sequence = its_sequence + 1;
  } else if (!missing.empty()) {
    missing.on_late(its_sequence);
  }
  was_heard = true;
  return true;
}

/// All associations of an endpoint. The address of an ended association is not used again before bury(): handlers and
/// completions may end an association while its bundle is handled, and the bundle is compared with it afterwards.
class Associations {
 public:
  /// Our own association to `peer`. Null: there is none.
  [[nodiscard]] Association* to(uint32_t peer);
  /// An association that `peer` opened, by the index and epoch that `peer` gave it. Null: there is none.
  [[nodiscard]] Association* of(uint32_t peer, uint32_t remote_index, uint32_t remote_epoch);
  /// The association with our index and epoch, which bundles carry. Null: none, or it has another epoch or peer.
  [[nodiscard]] Association* find(uint32_t index, uint32_t epoch, uint32_t peer) const {
    if (index >= all_.size()) return nullptr;
    Association* a = all_[index].get();
    return a != nullptr && a->epoch == epoch && a->peer == peer ? a : nullptr;
  }
  /// Makes an association of our own. `epoch` must be random.
  Association& make_own(uint32_t peer, uint32_t epoch);
  /// Makes our side of an association that the peer opened.
  Association& make_accepted(uint32_t peer, uint32_t remote_index, uint32_t remote_epoch, uint32_t epoch);
  /// to() and of() find the association no more, so that sessions that join make another one. Its sessions stay in it.
  void retire(Association& association);
  /// Ends an association that has no sessions.
  void end(Association& association);
  /// Frees associations that have ended. Not while a bundle is handled.
  void bury() { ended_.clear(); }
  [[nodiscard]] size_t size() const { return all_.size() - free_.size(); }

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
  Association& make(uint32_t peer, uint32_t epoch);

  std::vector<std::unique_ptr<Association>> all_;
  std::vector<std::unique_ptr<Association>> ended_;
  std::deque<uint32_t> free_;  // the longest free first
  absl::flat_hash_map<uint32_t, Association*> own_;
  absl::flat_hash_map<Key, Association*> accepted_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_ASSOCIATION_H_
