// PeerLog: what a primary knows of a peer's log, and which entries it sends to the peer.
//
//    primary's log    1 ........... agreed ....... acked .......... next ..... last
//                     the peer's report agrees     sent, and not    not sent yet
//                     up to here                   acknowledged
//                                                  |------ at most the window ------|
//
//    unknown --report that agrees--> matched: entries flow --connection failed--> unknown
//       |                              | entries that the peer needs cannot be read here any more
//       +--report too far behind--> needs a snapshot  --report that agrees--> matched
//
// Rules
//   - Acknowledged levels never fall while this replica leads, but for entries behind `agreed` that were not durable:
//     the peer may have lost them in a restart.
//   - A member whose report is shorter than what it acknowledged as durable is asked once more. The first report may be
//     an old one that was overtaken. If the second is as short, the member has lost entries.
//   - Nothing is sent after a full connection refused entries, until there is room or the peer answers.
//   - A peer that answers a heartbeat which was sent behind the last entries, and lacks them, gets them again.
//
// A value type. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_PEER_LOG_H_
#define SKUA_KVSTORE_REPLICATION_PEER_LOG_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/replica_options.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class PeerLog {
 public:
  enum class Report : uint8_t {
    kAgrees,        ///< entries flow from the last common one on
    kTooFarBehind,  ///< the peer needs a snapshot
    kTooShort,      ///< the peer acknowledged more as durable; it is to be asked again
    kHasLost,       ///< the peer has reported too short a log twice
  };
  /// Entries first..last.
  struct Range {
    uint64_t first = 0;
    uint64_t last = 0;
  };

  /// A new leadership: nothing is known.
  void forget();
  /// The connection to the peer broke.
  void disconnect() { is_matched_ = is_refused_ = false; }
  /// The connection was full: entries from `first` on were not sent.
  void refuse(uint64_t first) {
    is_refused_ = true;
    next_ = std::min(next_, first);
  }
  /// The connection has room, or the peer has answered.
  void end_refusal() { is_refused_ = false; }

  /// The peer's report of its log. `common` is the last entry that it has in common with this log (nullopt: not known),
  /// `first_available` the first entry that can be read here. Its levels are still to be acknowledged by
  /// acknowledge() if it agrees.
  [[nodiscard]] Report take_report(const std::optional<EntryId>& common, uint64_t first_available, bool is_member);
  /// Levels that the peer has acknowledged. Must not be behind the last entry of this log.
  void acknowledge(const LogLevels& levels) { acked_.raise_to(levels); }
  /// The peer has answered a heartbeat that was sent at `sent_ns`, and has received the entries up to `received`. If
  /// entries were lost on the way, they are sent again; this log's base is at `base`. True: the peer does not know that
  /// the entries up to agreed() agree, and must be told.
  [[nodiscard]] bool take_heartbeat_reply(TimeNs sent_ns, uint64_t received, uint64_t base);

  /// Whether the next entry exists but cannot be read any more.
  [[nodiscard]] bool is_out_of_reach(uint64_t first_available, uint64_t last_index) const {
    return next_ < first_available && next_ <= last_index;
  }
  /// The peer needs a snapshot.
  void need_snapshot() {
    is_matched_ = false;
    needs_snapshot_ = true;
  }
  /// The entries of the next Append, which count as sent. nullopt: there are none, or the window is full.
  [[nodiscard]] std::optional<Range> send_next(uint64_t last_index, const ReplicaOptions& options, TimeNs now);
  /// Something was sent that shows the peer where the logs agree.
  void note_sent(TimeNs now) { last_send_ns_ = now; }

  /// Its tail is known, and entries are sent to it.
  [[nodiscard]] bool is_matched() const { return is_matched_; }
  [[nodiscard]] bool needs_snapshot() const { return needs_snapshot_; }
  /// Entries cannot be sent to it now.
  [[nodiscard]] bool is_refused() const { return is_refused_; }
  /// Its last report agreed with this log up to here.
  [[nodiscard]] uint64_t agreed() const { return agreed_; }
  /// The next entry to be sent.
  [[nodiscard]] uint64_t next() const { return next_; }
  [[nodiscard]] const LogLevels& acked() const { return acked_; }

 private:
  bool is_matched_ = false;
  bool needs_snapshot_ = false;
  bool is_refused_ = false;
  bool was_too_short_ = false;
  uint64_t agreed_ = 0;
  uint64_t next_ = 0;
  LogLevels acked_;
  TimeNs last_send_ns_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_PEER_LOG_H_
