#include "tests/kvstore/cluster/cluster_options.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kvstore/log/segment.h"
#include "rpc/base/rng.h"

namespace skua::kv::sim {
namespace {

template <typename T, size_t N>
T one_of(Rng& rng, const T (&choices)[N]) {
  return choices[rng.below(N)];
}

DurationNs sometimes(Rng& rng, double chance, DurationNs low_s, DurationNs high_s) {
  if (!rng.chance(chance)) return 0;
  return static_cast<DurationNs>(
      rng.between(static_cast<uint64_t>(low_s * kSecond), static_cast<uint64_t>(high_s * kSecond)));
}

void choose_replica(Rng& rng, ReplicaOptions& replica) {
  replica.lease.length_ns = one_of<DurationNs>(rng, {200, 400, 1000}) * kMillisecond;
  replica.lease.drift_ppm = one_of<int64_t>(rng, {1000, 1000, 20'000, 100'000});
  replica.heartbeat_ns = replica.lease.length_ns / one_of<DurationNs>(rng, {4, 8});
  replica.suspect_after_ns = replica.heartbeat_ns * one_of<DurationNs>(rng, {4, 6});
  replica.tell_commit_ns = one_of<DurationNs>(rng, {kMillisecond, 20 * kMillisecond});
  replica.leases = !rng.chance(0.15);
  if (rng.chance(0.3)) replica.append_entries_max = one_of<uint64_t>(rng, {1, 7});
  if (rng.chance(0.3)) replica.window_entries_max = one_of<uint64_t>(rng, {2, 16});
  replica.caught_up_entries = one_of<uint64_t>(rng, {4, 64, 1024});
}

void choose_engine(Rng& rng, ClusterSimOptions& out) {
  out.replica.keep_bytes = rng.chance(0.5) ? 500 : size_t{1} << 20;
  out.log.segment_bytes = kPageBytes * rng.between(8, 16);
  out.log.group_bytes_max = out.log.segment_bytes / 2;
  out.log.spares_at_open = 1;
  out.log.segments_max = 64;
  WorkerEngine::Options& engine = out.engine;
  engine.memory.region_bytes = 4 << 10;
  engine.memory.budget_bytes = kPageBytes * rng.between(10, 50);
  engine.memory.try_huge_pages = false;
  engine.log.own_thread = false;
  engine.applier.own_thread = false;
  engine.applier.queue_max = one_of<size_t>(rng, {128, 2048});  // not more: it is made anew with every life of a node
  engine.applier.round_effects_max = rng.between(2, 64);
  engine.applier.wake_effects = engine.applier.round_effects_max / 4 + 1;
  engine.applier.batch_effects = engine.applier.round_effects_max / 2;
  engine.applier.age_effects = engine.applier.round_effects_max;
  engine.applier.flush_segments = rng.between(1, 4);
}

void choose_control(Rng& rng, ClusterSimOptions& out) {
  out.controls = rng.between(1, 3);
  out.heartbeat_ns = one_of<DurationNs>(rng, {100, 300, 500}) * kMillisecond;
  out.core.suspect_after_ns = 6 * out.heartbeat_ns;
  control::ViewOptions& views = out.core.views;
  views.fresh_ns = out.heartbeat_ns * 5 / 2;
  views.replace_after_ns = one_of<DurationNs>(rng, {500, 2000, 8000}) * kMillisecond;
  views.join_timeout_ns = one_of<DurationNs>(rng, {2, 4, 10}) * kSecond;
  views.rebalance_quiet_ns = one_of<DurationNs>(rng, {1, 10}) * kSecond;
  views.rejoin_max_ns = one_of<DurationNs>(rng, {4, 15}) * kSecond;
}

void choose_network(Rng& rng, ClusterSimOptions& out) {
  out.latency_ns = one_of<DurationNs>(rng, {20, 100, 500}) * kMicrosecond;
  out.jitter_ns = one_of<DurationNs>(rng, {10, 200, 3000}) * kMicrosecond;
  if (rng.chance(0.4)) out.loss = one_of<double>(rng, {0.001, 0.01, 0.1});
  if (rng.chance(0.4)) out.duplicate = one_of<double>(rng, {0.01, 0.1});
  if (rng.chance(0.4)) {
    out.delay = one_of<double>(rng, {0.001, 0.02});
    out.delay_ns = one_of<DurationNs>(rng, {10, 200, 3000}) * kMillisecond;
  }
  out.ordered = rng.chance(0.3);
  out.peer_timeout_ns = one_of<DurationNs>(rng, {300, 1000, 5000}) * kMillisecond;
  // Narrow links are full now and then, and take messages later.
  // Heartbeats of three shards and a copy share a link. With fewer places, some of them may never find a free one.
  out.links.requests_max = one_of<size_t>(rng, {6, 16, 256});
  out.links.bytes_max = one_of<size_t>(rng, {1 << 10, 32 << 20});
  out.links.pause = {5 * kMillisecond, one_of<DurationNs>(rng, {20, 200, 1000}) * kMillisecond};
}

void choose_faults(Rng& rng, ClusterSimOptions& out) {
  out.kill_every_ns = sometimes(rng, 0.5, 2, 15);
  out.power_cut_every_ns = sometimes(rng, 0.4, 2, 15);
  out.blackout_every_ns = sometimes(rng, 0.15, 6, 20);
  out.wipe_every_ns = sometimes(rng, 0.25, 8, 25);
  out.rot_every_ns = sometimes(rng, 0.25, 5, 20);
  out.down_ns = one_of<DurationNs>(rng, {20, 300, 2000, 5000}) * kMillisecond;
  out.pause_every_ns = sometimes(rng, 0.4, 1, 8);
  out.pause_ns = one_of<DurationNs>(rng, {50, 500, 3000}) * kMillisecond;
  out.partition_every_ns = sometimes(rng, 0.5, 1, 8);
  out.partition_ns = one_of<DurationNs>(rng, {100, 800, 4000}) * kMillisecond;
  out.clog_every_ns = sometimes(rng, 0.3, 1, 6);
  out.stall_every_ns = sometimes(rng, 0.4, 1, 8);
  out.hang_every_ns = sometimes(rng, 0.2, 5, 15);
  out.full_every_ns = sometimes(rng, 0.25, 2, 10);
  out.sync_error_every_ns = sometimes(rng, 0.2, 3, 15);
  out.control_crash_every_ns = sometimes(rng, 0.4, 2, 10);
  out.control_pause_every_ns = sometimes(rng, 0.4, 2, 12);
  out.store_down_every_ns = sometimes(rng, 0.25, 5, 20);
  out.transfer_every_ns = sometimes(rng, 0.4, 1, 8);
  out.coup_every_ns = sometimes(rng, 0.4, 1, 6);
  out.move_every_ns = sometimes(rng, 0.2, 3, 12);
  out.drain_every_ns = sometimes(rng, 0.15, 5, 15);
  out.fork_every_ns = sometimes(rng, 0.08, 8, 20);
  if (rng.chance(0.4)) out.commit_unknown = one_of<double>(rng, {0.05, 0.4});
  if (rng.chance(0.5)) out.commit_late = 0.5;
  out.clocks_drift = rng.chance(0.7);
  out.clocks_step = rng.chance(0.3);
}

}  // namespace

rpc::EndpointOptions ClusterSimOptions::endpoint_of(size_t number, uint64_t life) const {
  rpc::EndpointOptions out;
  out.simulation_seed = mix64(seed ^ mix64(number << 32 ^ life)) | 1;
  out.protocol.window = 16;
  out.protocol.ping_after_ns = peer_timeout_ns / 3;
  out.protocol.peer_timeout_ns = peer_timeout_ns;
  out.protocol.abandoned_after_ns = peer_timeout_ns;
  // Clients lose patience and open other sessions, and what they say when they close one may be lost.
  out.protocol.idle_timeout_ns = out.protocol.unproven_after_ns = std::max(peer_timeout_ns, 2 * kSecond);
  out.protocol.rto_initial_ns = std::max<DurationNs>(out.protocol.rto_initial_ns, 4 * (latency_ns + jitter_ns));
  // Small: an endpoint is made anew with every life of a node.
  out.sessions_max = 128;
  out.sessions_reserved = 16;
  out.calls_max = 1024;
  out.handlers_max = 1024;
  out.handlers_reserved = 128;
  out.mailbox_max = 4096;
  out.memory_limit_bytes = 16 << 20;
  return out;
}

ClusterSimOptions ClusterSimOptions::from_seed(uint64_t seed) {
  Rng rng(mix64(seed ^ 0xc1u));
  ClusterSimOptions out;
  out.seed = seed;
  out.nodes = rng.between(3, 5);
  out.shards = rng.between(1, 3);
  out.replicas = static_cast<uint32_t>(rng.between(2, 3));
  out.clients = rng.between(2, 5);
  out.keys = one_of<size_t>(rng, {2, 4, 12});
  out.faulty_ns = static_cast<DurationNs>(rng.between(55, 65)) * kSecond;
  out.min_insync = rng.chance(0.7) ? 1 : 2;
  out.read_anywhere = rng.chance(0.3);
  out.conditional_writes = false;
  out.text_one_in = one_of<uint32_t>(rng, {0, 2, 3});
  out.text_bytes_max = one_of<size_t>(rng, {20, 300, 1500});
  choose_replica(rng, out.replica.replica);
  choose_engine(rng, out);
  choose_control(rng, out);
  out.think_ns = one_of<DurationNs>(rng, {5, 20, 80, 300}) * kMillisecond;
  out.patience_ns = one_of<DurationNs>(rng, {50, 300, 1000}) * kMillisecond;
  out.write_share = one_of<double>(rng, {0.2, 0.5, 0.9});
  out.abandon = rng.chance(0.4) ? 0.2 : 0;
  choose_network(rng, out);
  out.sync_ns = one_of<DurationNs>(rng, {50, 300, 5000}) * kMicrosecond;
  out.disk_jitter_ns = one_of<DurationNs>(rng, {10, 1000, 10'000}) * kMicrosecond;
  out.apply_ns = one_of<DurationNs>(rng, {1, 10, 100}) * kMillisecond;
  if (!rng.chance(0.05)) choose_faults(rng, out);
  if (rng.chance(0.3)) {
    out.engine.durability = Durability::kFlush;
    // What is lost otherwise may be all that the power has left.
    out.wipe_every_ns = out.rot_every_ns = out.fork_every_ns = 0;
  }
  using rpc::PacketProtection;
  out.packets = one_of<PacketProtection>(rng, {PacketProtection::kOff, PacketProtection::kOff,
                                               PacketProtection::kAuthenticate, PacketProtection::kEncrypt});
  // Longer than a run: in the end all nodes are back, and nothing may depend on this time. But a node whose disk was
  // wiped comes back as another node, which gets a copy only then.
  if (out.wipe_every_ns == 0 && rng.chance(0.3)) out.core.views.replace_after_ns = 1000 * kSecond;
  return out;
}

std::string ClusterSimOptions::describe() const {
  const auto ms = [](DurationNs time) { return static_cast<double>(time) / 1e6; };
  std::string text;
  absl::StrAppendFormat(&text,
                        "nodes=%d controls=%d shards=%d replicas=%d min_insync=%d read_anywhere=%d clients=%d keys=%d "
                        "texts=1/%d of %d faulty_ms=%.0f\n",
                        nodes, controls, shards, replicas, min_insync, read_anywhere, clients, keys, text_one_in,
                        text_bytes_max, ms(faulty_ns));
  absl::StrAppendFormat(&text,
                        "leases=%d lease_ms=%.0f drift_ppm=%d heartbeat_ms=%.1f suspect_ms=%.1f tell_commit_ms=%.1f "
                        "append_entries=%d window=%d caught_up=%d keep=%d\n",
                        replica.replica.leases, ms(replica.replica.lease.length_ns), replica.replica.lease.drift_ppm,
                        ms(replica.replica.heartbeat_ns), ms(replica.replica.suspect_after_ns),
                        ms(replica.replica.tell_commit_ns), replica.replica.append_entries_max,
                        replica.replica.window_entries_max, replica.replica.caught_up_entries, replica.keep_bytes);
  absl::StrAppendFormat(
      &text,
      "control: heartbeat_ms=%.0f replace_ms=%.0f join_ms=%.0f; syncs=%d segment=%d memory=%d batch=%d "
      "sync_ms=%.2f jitter_ms=%.2f apply_ms=%.0f\n",
      ms(heartbeat_ns), ms(core.views.replace_after_ns), ms(core.views.join_timeout_ns),
      engine.durability == Durability::kSync, log.segment_bytes, engine.memory.budget_bytes,
      engine.applier.round_effects_max, ms(sync_ns), ms(disk_jitter_ns), ms(apply_ns));
  absl::StrAppendFormat(
      &text,
      "think_ms=%.0f patience_ms=%.0f write_share=%.1f abandon=%.1f latency_ms=%.2f jitter_ms=%.2f "
      "loss=%.3f duplicate=%.2f delay=%.3f x %.0f ms ordered=%d; peer_timeout_ms=%.0f link_requests=%d link_bytes=%d "
      "packets=%d\n",
      ms(think_ns), ms(patience_ns), write_share, abandon, ms(latency_ns), ms(jitter_ns), loss, duplicate, delay,
      ms(delay_ns), ordered, ms(peer_timeout_ns), links.requests_max, links.bytes_max, static_cast<int>(packets));
  absl::StrAppendFormat(&text,
                        "every ms: kill=%.0f power_cut=%.0f blackout=%.0f wipe=%.0f rot=%.0f (down %.0f) pause=%.0f "
                        "(for %.0f) partition=%.0f (for %.0f) clog=%.0f stall=%.0f hang=%.0f full=%.0f sync_error=%.0f "
                        "control_crash=%.0f control_pause=%.0f store_down=%.0f transfer=%.0f coup=%.0f move=%.0f "
                        "drain=%.0f fork=%.0f\n",
                        ms(kill_every_ns), ms(power_cut_every_ns), ms(blackout_every_ns), ms(wipe_every_ns),
                        ms(rot_every_ns), ms(down_ns), ms(pause_every_ns), ms(pause_ns), ms(partition_every_ns),
                        ms(partition_ns), ms(clog_every_ns), ms(stall_every_ns), ms(hang_every_ns), ms(full_every_ns),
                        ms(sync_error_every_ns), ms(control_crash_every_ns), ms(control_pause_every_ns),
                        ms(store_down_every_ns), ms(transfer_every_ns), ms(coup_every_ns), ms(move_every_ns),
                        ms(drain_every_ns), ms(fork_every_ns));
  absl::StrAppendFormat(&text, "commit_unknown=%.2f commit_late=%.1f clocks_drift=%d clocks_step=%d\n", commit_unknown,
                        commit_late, clocks_drift, clocks_step);
  return text;
}

}  // namespace skua::kv::sim
