// The times and bounds by which views change. None of them is needed for safety: nodes check epochs.
// They keep a sick cluster from making itself sicker.
#ifndef SKUA_CONTROL_CORE_VIEW_OPTIONS_H_
#define SKUA_CONTROL_CORE_VIEW_OPTIONS_H_

#include <cstddef>

#include "rpc/base/clock.h"

namespace skua::control {

struct ViewOptions {
  // ---- who is believed
  /// A node heard of within this time is there, whatever others say of it. Two heartbeats and a bit.
  DurationNs fresh_ns = 1250 * kMillisecond;
  /// How long a first accuser of a primary waits for the other members to agree or not.
  DurationNs accusation_window_ns = 100 * kMillisecond;
  /// An accusation that is not repeated is forgotten, and that a learner has caught up.
  DurationNs accusation_ttl_ns = 3 * kSecond;

  // ---- how often
  /// Between two changes of a shard's primary, unless its node is gone.
  DurationNs primary_stability_ns = 1 * kSecond;
  /// Between two removals of backups from one shard that the control plane hears of. Longer than a member takes to miss a primary that
  /// never spoke to it in the present epoch (ReplicaOptions::first_word_ns and suspect_after_ns): else a primary that is cut off from all
  /// would have them removed one after the other, each before its word counts, and be left alone.
  DurationNs ejection_interval_ns = 5 * kSecond;
  /// How long a removed member that the control plane hears of counts as ejected.
  DurationNs ejected_for_ns = 10 * kSecond;
  /// So many nodes may be ejected at once: 1 in `ejected_one_in` of the live ones, at least `ejected_min`.
  size_t ejected_min = 2;
  size_t ejected_one_in = 3;
  /// An ejected member comes back as a learner after this, twice as long each time, up to the maximum.
  DurationNs rejoin_ns = 1 * kSecond;
  DurationNs rejoin_max_ns = 15 * kSecond;
  /// How long ejections are remembered.
  DurationNs rejoin_memory_ns = 900 * kSecond;

  // ---- new replicas
  /// How long a shard that lost a member waits for it before another node gets a copy.
  DurationNs replace_after_ns = 30 * kSecond;
  /// An attempt to join that lasts longer is given up: it holds up writes if the learner is stuck. Longer than a promise
  /// (LeaseOptions::promised_ns), the end of which the learner of a table that is read anywhere waits for.
  DurationNs join_timeout_ns = 10 * kSecond;
  size_t learners_per_node_max = 8;
  size_t learners_max = 64;

  // ---- balance
  bool rebalance = true;
  /// Nothing must have been wrong for so long before shards are moved for balance.
  DurationNs rebalance_quiet_ns = 10 * kSecond;
  DurationNs rebalance_interval_ns = 1 * kSecond;
  /// Replicas on the way for balance at a time, and primaries transferred per interval.
  size_t moves_max = 4;
  size_t transfers_max = 4;

  // ---- work
  /// Shard records in one change, that is in one transaction.
  size_t records_per_change_max = 64;
  /// How often all shards are looked at when nothing has happened.
  DurationNs scan_interval_ns = 500 * kMillisecond;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_VIEW_OPTIONS_H_
