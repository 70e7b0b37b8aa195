// Association: what two endpoints have in common, so that bundles of several sessions can go between them.
//
//   endpoint A  ==  association (A opened it)  ==>  endpoint B        sessions that A opened, any number
//               <=  association (B opened it)  ==                     sessions that B opened
//
// Its opener makes an association when the first of its sessions to a peer joins (JoinRecord in rpc/wire/bundle.h), the
// acceptor when that record comes; each side draws an epoch, and believes no bundle without it. The last session that
// leaves ends it. A connection that breaks, or a session that breaks, leaves too, and joins again.
//
// Rules that bundles need:
//   stamps     the sender's clock when the bundle was sealed. A bundle that lies kStaleAfter behind the newest is not
//              believed: request numbers wrap after 2^31 calls, so an older duplicate would look new. After kUnheardFor
//              the reference itself is old.
//   echo       the newest stamp of the other side plus the time since it came: one sample of the path's delay per
//              bundle
//   sequence   counts bundles: who misses one says so (bundle_history.h)
#ifndef SKUA_RPC_PROTOCOL_ASSOCIATION_H_
#define SKUA_RPC_PROTOCOL_ASSOCIATION_H_

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

/// What each bundle needs lies in its first two lines. Thread: the endpoint's.
struct alignas(64) Association {
  static constexpr DurationNs kStaleAfter = 500 * kMillisecond;
  static constexpr DurationNs kUnheardFor = 60 * kSecond;

  // The bundle that is being written; null: none.
  std::byte* at = nullptr;
  std::byte* end = nullptr;
  std::byte* begin = nullptr;
  uint64_t cookie = 0;  // the driver's: of the frame
  uint16_t records = 0;
  bool is_open = false;  // a bundle is being written: it is in the driver's list
  bool is_ours = false;  // we opened the association
  bool was_heard = false;
  uint32_t in_flight = 0;  // small calls of ours
  uint32_t depth = 0;      // the most of them of late
  uint32_t goal = 0;       // records: a bundle of so many is sent at once

  // Who it is between.
  uint32_t peer = 0;  // the transport's PeerId
  uint32_t epoch = 0;
  uint32_t remote_index = kNoAssociation;
  uint32_t remote_epoch = 0;
  /// Largest bundle.
  uint32_t bundle_bytes_max = 0;

  uint32_t sequence = 0;           // of the next bundle to be sent
  uint32_t expected_sequence = 0;  // of the next one to come
  Ticks newest = 0;                // stamp from the other side
  Ticks newest_came = 0;
  /// Bundles that may be written again now: as many as came, so that a peer gets no more than it sends.
  uint32_t repeats = SentBundles::kBundles;
  TimeNs heard_ns = 0;
  std::unique_ptr<SentBundles> sent;  // from the first record on; none on a reliable transport
  Ticks probe_ticks = 0;              // how long a small call waits for its answer before it is repeated
  uint32_t index = 0;
  MissingBundles missing;
  RttEstimator rtt;
  uint32_t session_count = 0;

  /// A bundle with these numbers came. False: it is not to be believed.
  [[nodiscard]] bool hears(Ticks stamp, uint32_t its_sequence, TimeNs now);
  /// A request of that time may be run (in packets of version 1, too).
  [[nodiscard]] bool is_stale(Ticks stamp, TimeNs now) const {
    const auto behind = static_cast<int32_t>(newest - stamp);
    return was_heard && behind > kStaleAfter / kTickNs && now - heard_ns < kUnheardFor;
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

/// All associations of an endpoint. Their addresses stay until bury(): a bundle is compared with its association after
/// handlers and completions ran, which may have ended it, and another one at its address would pass for it.
class Associations {
 public:
  /// Ours to `peer`; null: there is none yet.
  [[nodiscard]] Association* to(uint32_t peer);
  /// The peer's, by how its opener calls it; null: none.
  [[nodiscard]] Association* of(uint32_t peer, uint32_t remote_index, uint32_t remote_epoch);
  /// By our index, which bundles name; null: there is none, or it is of another epoch or peer.
  [[nodiscard]] Association* find(uint32_t index, uint32_t epoch, uint32_t peer) const {
    if (index >= all_.size()) return nullptr;
    Association* a = all_[index].get();
    return a != nullptr && a->epoch == epoch && a->peer == peer ? a : nullptr;
  }
  /// `epoch` is drawn at random. Ours.
  Association& make_own(uint32_t peer, uint32_t epoch);
  /// The peer's.
  Association& make_accepted(uint32_t peer, uint32_t remote_index, uint32_t remote_epoch, uint32_t epoch);
  /// Nobody is to find it any more: sessions that join make another one. Those that are in it stay.
  void retire(Association& association);
  /// No session is in it.
  void end(Association& association);
  /// Frees those that have ended. Not while a bundle is handled.
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
