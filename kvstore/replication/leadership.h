// Leadership: the part of a replica that leads, from its barrier until another replica leads.
//
//    start() -- the barrier is logged --> all have it and what is before it: open -- propose() ... --> end()
//
//    entries   propose() --> sent to each matched peer, as far as its window allows (peer_log.h)
//                        --> wait (commit_queue.h) --> every required peer acknowledges --> committed, in order
//    peers     StartView --> TailReport: where the logs agree --> entries flow, or the peer needs a snapshot
//    reads     rounds of Confirm (confirm_rounds.h); replica.h has those that rest on promises
//    learners  are reported when they have caught up, and when they have all that a member must have
//    members   are reported if they hold up every write (gray_failures.h)
//
// Nothing is committed before the promises to former members have ended (promises.h). With fewer than min_insync
// members no new entry is committed, so no new write is answered. The barrier, and with it the entries of former
// primaries, is committed even then, so that reads can be served.
//
// `state` must outlive it. Thread: that of the replica. A message that makes no sense is ignored.
#ifndef SKUA_KVSTORE_REPLICATION_LEADERSHIP_H_
#define SKUA_KVSTORE_REPLICATION_LEADERSHIP_H_

#include <cstdint>

#include "kvstore/replication/commit_queue.h"
#include "kvstore/replication/confirm_rounds.h"
#include "kvstore/replication/gray_failures.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/pause.h"
#include "kvstore/replication/replica_output.h"
#include "kvstore/replication/replica_state.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/durability.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class Leadership {
 public:
  explicit Leadership(ReplicaState& state) : state_(state) {}

  /// The view is durable: logs the barrier, unless this replica led already in the epoch before, and tells the peers
  /// of the view.
  void start(ReplicaOutput& out);
  /// Another replica leads, or the epoch is given up. Nobody waits any more for what was not committed or confirmed.
  void end();
  /// The barrier is committed.
  [[nodiscard]] bool is_open() const { return is_open_; }

  /// An entry behind the last one; see Replica::propose().
  void propose(Durability level, TimeNs now, ReplicaOutput& out);
  /// Commits what may be committed.
  void advance_commit(TimeNs now);
  /// When the passing of time alone may commit an entry; kTimeNever: it does not.
  [[nodiscard]] TimeNs commits_at() const;
  /// The Append for entries first..last. `first` may be last + 1: no entries.
  [[nodiscard]] Append make_append(uint64_t first, uint64_t last) const;

  void on(const ReplicaId& from, const TailReport& tail, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const AppendReply& reply, TimeNs now, ReplicaOutput& out);
  void on(const ReplicaId& from, const ConfirmReply& reply, TimeNs now, ReplicaOutput& out);
  /// What a HeartbeatReply says of the sender's log.
  void take_levels(PeerReplica& sender, const HeartbeatReply& reply, TimeNs now, ReplicaOutput& out);
  /// The connection to a peer is new, or has room again: what was not sent to it follows, or a question.
  void peer_ready(PeerReplica& peer, TimeNs now, ReplicaOutput& out);

  /// See Replica::begin_confirm().
  [[nodiscard]] uint64_t begin_confirm(ReplicaOutput& out);
  [[nodiscard]] uint64_t confirmed_round() const { return rounds_.confirmed(); }

  /// A heartbeat is due. Asks again what was not answered. Only if this replica leads.
  void heartbeat(TimeNs now, ReplicaOutput& out);
  /// Reports slow and hung members, and what learners have reached. To be called with each heartbeat.
  void watch(TimeNs now, ReplicaOutput& out);
  void paused(const Pause& pause) { gray_failures_.paused(pause); }

 private:
  void begin(ReplicaOutput& out);
  void stream(PeerReplica& peer, TimeNs now, ReplicaOutput& out);
  void tell_agreed(PeerReplica& peer, TimeNs now, ReplicaOutput& out) const;
  void tell_restored(PeerReplica& peer, ReplicaOutput& out) const;
  [[nodiscard]] bool is_acked(const CommitQueue::Entry& entry) const;
  /// Whether nothing but promises to former members keeps the oldest waiting entry from being committed.
  [[nodiscard]] bool may_commit_oldest() const;
  void begin_round(ReplicaOutput& out);
  void ask_round(ReplicaOutput& out) const;
  void end_round(ReplicaOutput& out);
  void report_slow(TimeNs now, ReplicaOutput& out);
  void report_hung(TimeNs now, ReplicaOutput& out);
  void report_learners(TimeNs now, ReplicaOutput& out) const;

  ReplicaState& state_;
  bool is_open_ = false;
  uint64_t barrier_index_ = 0;  // 0: this replica does not lead, or has not begun to
  CommitQueue waiting_;
  ConfirmRounds rounds_;
  GrayFailures gray_failures_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_LEADERSHIP_H_
