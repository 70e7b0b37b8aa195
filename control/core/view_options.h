// Times and bounds for changes of views. Safety does not depend on them, because nodes check epochs. They keep a
// cluster that has problems from making them worse.
#ifndef SKUA_CONTROL_CORE_VIEW_OPTIONS_H_
#define SKUA_CONTROL_CORE_VIEW_OPTIONS_H_

#include <cstddef>

#include "rpc/base/clock.h"

namespace skua::control {

struct ViewOptions {
  // ---- which accusations count
  /// A node that was heard of within this time counts as present, even if others accuse it. A little more than two
  /// heartbeats.
  DurationNs fresh_ns = 1250 * kMillisecond;
  /// How long the first accusation of a primary waits until the other members agree.
  DurationNs accusation_window_ns = 100 * kMillisecond;
  /// An accusation that is not repeated within this time is forgotten; so is a report that a learner has caught up.
  DurationNs accusation_ttl_ns = 3 * kSecond;

  // ---- how often
  /// Minimum time between two changes of a shard's primary, unless its node is gone.
  DurationNs primary_stability_ns = 1 * kSecond;
  /// Minimum time between two ejections from one shard (removals of backups that the control plane hears of). It must
  /// be longer than a member takes to suspect a primary that never spoke to it in the present epoch
  /// (ReplicaOptions::first_word_ns and suspect_after_ns). Otherwise a primary that is cut off from all others could
  /// have them removed one after the other, each before its own accusation counts.
  DurationNs ejection_interval_ns = 5 * kSecond;
  /// How long a removed member that the control plane hears of counts as ejected.
  DurationNs ejected_for_ns = 10 * kSecond;
  /// How many nodes may be ejected at the same time: one in `ejected_one_in` of the live ones, but at least
  /// `ejected_min`.
  size_t ejected_min = 2;
  size_t ejected_one_in = 3;
  /// An ejected member may come back as a learner after this time. The time doubles with each ejection, up to the
  /// maximum.
  DurationNs rejoin_ns = 1 * kSecond;
  DurationNs rejoin_max_ns = 15 * kSecond;
  /// How long ejections are remembered.
  DurationNs rejoin_memory_ns = 900 * kSecond;

  // ---- new replicas
  /// How long a shard that lost a member waits for it before another node gets a copy.
  DurationNs replace_after_ns = 30 * kSecond;
  /// An attempt to join that lasts longer is given up, because it holds up writes if the learner is stuck. It must be
  /// longer than a promise (LeaseOptions::promised_ns): with read_anywhere the learner joins only when all promises
  /// have expired.
  DurationNs join_timeout_ns = 10 * kSecond;
  size_t learners_per_node_max = 8;
  size_t learners_max = 64;

  // ---- balance
  bool rebalance = true;
  /// Shards are moved for balance only if nothing has been wrong for this long.
  DurationNs rebalance_quiet_ns = 10 * kSecond;
  DurationNs rebalance_interval_ns = 1 * kSecond;
  /// The most replicas that move for balance at a time, and the most primaries that are transferred per interval.
  size_t moves_max = 4;
  size_t transfers_max = 4;

  // ---- work
  /// The most shard records in one change, that is, in one transaction.
  size_t records_per_change_max = 64;
  /// How often all shards are looked at when nothing has happened.
  DurationNs scan_interval_ns = 500 * kMillisecond;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_OPTIONS_H_
