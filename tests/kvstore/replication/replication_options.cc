#include "tests/kvstore/replication/replication_options.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "rpc/base/rng.h"

namespace skua::kv::sim {
namespace {

template <typename T, size_t N>
T one_of(Rng& rng, const T (&choices)[N]) {
  return choices[rng.below(N)];
}

void choose_protocol(Rng& rng, ReplicationSimOptions& out) {
  ReplicaOptions& replica = out.replica;
  replica.lease.length_ns = one_of<DurationNs>(rng, {100, 200, 400, 1000}) * kMillisecond;
  replica.lease.drift_ppm = one_of<int64_t>(rng, {1000, 1000, 20'000, 100'000});
  replica.heartbeat_ns = replica.lease.length_ns / one_of<DurationNs>(rng, {3, 5, 8});
  replica.suspect_after_ns = replica.heartbeat_ns * one_of<DurationNs>(rng, {3, 6});
  replica.tell_commit_ns = one_of<DurationNs>(rng, {100 * kMicrosecond, kMillisecond, 20 * kMillisecond});
  replica.leases = !rng.chance(0.15);
  if (rng.chance(0.3)) replica.append_entries_max = one_of<uint64_t>(rng, {1, 2, 7});
  if (rng.chance(0.3)) replica.window_entries_max = one_of<uint64_t>(rng, {1, 4, 16});
  replica.caught_up_entries = one_of<uint64_t>(rng, {0, 4, 64, 1024});
  out.min_insync = rng.chance(0.7) ? 1 : 2;
  out.read_anywhere = rng.chance(0.4);
  if (rng.chance(0.3)) out.durability = rng.chance(0.5) ? Durability::kFlush : Durability::kMemory;
  out.pending_max = one_of<size_t>(rng, {2, 16, 64});
  out.retention_entries = one_of<uint64_t>(rng, {0, 5, 50, 1000});
  out.flush_ns = one_of<DurationNs>(rng, {50, 300, 2000}) * kMillisecond;
  out.lazy_apply = rng.chance(0.5) ? 0.7 : 0;
}

void choose_network(Rng& rng, ReplicationSimOptions& out) {
  out.latency_ns = one_of<DurationNs>(rng, {20, 100, 500}) * kMicrosecond;
  out.jitter_ns = one_of<DurationNs>(rng, {10, 200, 3000}) * kMicrosecond;
  if (rng.chance(0.4)) out.loss = one_of<double>(rng, {0.001, 0.01, 0.1});
  if (rng.chance(0.4)) out.duplicate = one_of<double>(rng, {0.01, 0.1});
  if (rng.chance(0.4)) {
    out.delay = one_of<double>(rng, {0.001, 0.02});
    out.delay_ns = one_of<DurationNs>(rng, {10, 200, 3000}) * kMillisecond;
  }
  out.ordered = rng.chance(0.3);
  out.tells_breaks = rng.chance(0.5);
}

DurationNs sometimes(Rng& rng, double chance, DurationNs low_s, DurationNs high_s) {
  if (!rng.chance(chance)) return 0;
  return static_cast<DurationNs>(
      rng.between(static_cast<uint64_t>(low_s * kSecond), static_cast<uint64_t>(high_s * kSecond)));
}

void choose_faults(Rng& rng, ReplicationSimOptions& out) {
  out.kill_every_ns = sometimes(rng, 0.5, 2, 15);
  out.power_cut_every_ns = sometimes(rng, 0.4, 2, 15);
  out.blackout_every_ns = sometimes(rng, 0.15, 6, 20);
  out.disk_replaced_every_ns = sometimes(rng, 0.3, 5, 20);
  out.down_ns = one_of<DurationNs>(rng, {20, 300, 2000, 5000}) * kMillisecond;
  out.pause_every_ns = sometimes(rng, 0.4, 1, 8);
  out.pause_ns = one_of<DurationNs>(rng, {50, 500, 3000}) * kMillisecond;
  out.partition_every_ns = sometimes(rng, 0.5, 1, 8);
  out.partition_ns = one_of<DurationNs>(rng, {100, 800, 4000}) * kMillisecond;
  out.clog_every_ns = sometimes(rng, 0.3, 1, 6);
  out.stall_every_ns = sometimes(rng, 0.4, 1, 8);
  out.hang_every_ns = sometimes(rng, 0.2, 5, 15);
  out.full_every_ns = sometimes(rng, 0.25, 2, 10);
  out.manager_crash_every_ns = sometimes(rng, 0.4, 2, 10);
  out.store_down_every_ns = sometimes(rng, 0.25, 5, 20);
  out.transfer_every_ns = sometimes(rng, 0.4, 1, 8);
  out.coup_every_ns = sometimes(rng, 0.5, 1, 6);
  out.see_saw_every_ns = sometimes(rng, 0.4, 1, 4);
  if (rng.chance(0.4)) out.cas_unknown = one_of<double>(rng, {0.05, 0.4});
  if (rng.chance(0.5)) out.cas_late = 0.5;
  out.two_managers = rng.chance(0.7);
  out.clocks_drift = rng.chance(0.7);
  if (rng.chance(0.2)) out.bad_manager_choice = one_of<double>(rng, {0.02, 0.2});
}

}  // namespace

ReplicationSimOptions ReplicationSimOptions::from_seed(uint64_t seed) {
  Rng rng(mix64(seed ^ 0x5eed));
  ReplicationSimOptions out;
  out.seed = seed;
  out.nodes = rng.between(3, 5);
  out.shards = rng.between(1, 3);
  out.replicas = rng.between(2, 3);
  out.clients = rng.between(2, 6);
  out.keys = one_of<size_t>(rng, {1, 3, 10});
  out.faulty_ns = static_cast<DurationNs>(rng.between(10, 40)) * kSecond;
  choose_protocol(rng, out);
  out.think_ns = one_of<DurationNs>(rng, {2, 20, 80, 300}) * kMillisecond;
  out.patience_ns = one_of<DurationNs>(rng, {50, 300, 1000}) * kMillisecond;
  out.write_share = one_of<double>(rng, {0.2, 0.5, 0.9});
  out.abandon = rng.chance(0.4) ? 0.2 : 0;
  choose_network(rng, out);
  out.write_ns = one_of<DurationNs>(rng, {10, 100}) * kMicrosecond;
  out.sync_ns = one_of<DurationNs>(rng, {20, 300, 8000}) * kMicrosecond;
  out.disk_jitter_ns = one_of<DurationNs>(rng, {10, 1000, 10'000}) * kMicrosecond;
  if (!rng.chance(0.05)) choose_faults(rng, out);
  return out;
}

std::string ReplicationSimOptions::describe() const {
  const auto ms = [](DurationNs time) { return static_cast<double>(time) / 1e6; };
  std::string text;
  absl::StrAppendFormat(&text, "nodes=%d shards=%d replicas=%d clients=%d keys=%d faulty_ms=%.0f\n", nodes, shards,
                        replicas, clients, keys, ms(faulty_ns));
  absl::StrAppendFormat(
      &text,
      "leases=%d lease_ms=%.0f drift_ppm=%d heartbeat_ms=%.1f suspect_ms=%.1f tell_commit_ms=%.1f append_entries=%d "
      "window=%d caught_up=%d min_insync=%d read_anywhere=%d durability=%d pending=%d retention=%d flush_ms=%.0f "
      "lazy_apply=%.1f\n",
      replica.leases, ms(replica.lease.length_ns), replica.lease.drift_ppm, ms(replica.heartbeat_ns),
      ms(replica.suspect_after_ns), ms(replica.tell_commit_ns), replica.append_entries_max, replica.window_entries_max,
      replica.caught_up_entries, min_insync, read_anywhere, static_cast<int>(durability), pending_max,
      retention_entries, ms(flush_ns), lazy_apply);
  absl::StrAppendFormat(&text, "think_ms=%.0f patience_ms=%.0f write_share=%.1f abandon=%.1f\n", ms(think_ns),
                        ms(patience_ns), write_share, abandon);
  absl::StrAppendFormat(&text,
                        "latency_ms=%.2f jitter_ms=%.2f loss=%.3f duplicate=%.2f delay=%.3f x %.0f ms ordered=%d "
                        "tells_breaks=%d write_ms=%.2f sync_ms=%.2f disk_jitter_ms=%.2f\n",
                        ms(latency_ns), ms(jitter_ns), loss, duplicate, delay, ms(delay_ns), ordered, tells_breaks,
                        ms(write_ns), ms(sync_ns), ms(disk_jitter_ns));
  absl::StrAppendFormat(
      &text,
      "every ms: kill=%.0f power_cut=%.0f blackout=%.0f disk_replaced=%.0f (down %.0f) pause=%.0f (for "
      "%.0f) partition=%.0f (for %.0f) clog=%.0f stall=%.0f hang=%.0f full=%.0f manager_crash=%.0f "
      "store_down=%.0f transfer=%.0f coup=%.0f see_saw=%.0f\n",
      ms(kill_every_ns), ms(power_cut_every_ns), ms(blackout_every_ns), ms(disk_replaced_every_ns), ms(down_ns),
      ms(pause_every_ns), ms(pause_ns), ms(partition_every_ns), ms(partition_ns), ms(clog_every_ns), ms(stall_every_ns),
      ms(hang_every_ns), ms(full_every_ns), ms(manager_crash_every_ns), ms(store_down_every_ns), ms(transfer_every_ns),
      ms(coup_every_ns), ms(see_saw_every_ns));
  absl::StrAppendFormat(&text,
                        "cas_unknown=%.2f cas_late=%.1f two_managers=%d clocks_drift=%d bad_manager_choice=%.2f\n",
                        cas_unknown, cas_late, two_managers, clocks_drift, bad_manager_choice);
  return text;
}

}  // namespace skua::kv::sim
