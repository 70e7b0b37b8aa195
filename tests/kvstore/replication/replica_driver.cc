#include "tests/kvstore/replication/replica_driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/kvstore/replication/oracle.h"

namespace skua::kv::sim {

ReplicaDriver::ReplicaDriver(SimKernel& kernel, Oracle& oracle, const ReplicationSimOptions& options, DriverHost& host,
                             size_t shard, ReplicaId self, ShardStorage& storage)
    : ReplicaDriver(kernel, oracle, options, host, shard, self, storage, storage.recover(this)) {}

ReplicaDriver::ReplicaDriver(SimKernel& kernel, Oracle& oracle, const ReplicationSimOptions& options, DriverHost& host,
                             size_t shard, ReplicaId self, ShardStorage& storage, ShardStorage::Found found)
    : kernel_(kernel),
      oracle_(oracle),
      options_(options),
      host_(host),
      shard_(shard),
      self_(self),
      storage_(storage),
      state_(std::move(found.state)),
      replica_(options.replica, self, std::move(found.restart), host.now()) {
  seen_commit_ = state_.applied();
  oracle_.applied(shard_, state_);
  settle();
}

// --- Input

void ReplicaDriver::on_view(const View& view) {
  ReplicaOutput out;
  oracle_.view_told(shard_, view);
  replica_.on_view(view, host_.now(), out);
  take(out);
}

void ReplicaDriver::on_message(ReplicaId from, const ReplicaMessage& message, const std::vector<LogEntry>& entries) {
  ReplicaOutput out;
  replica_.on_message(from, message, host_.now(), out);
  take(out, std::get_if<Append>(&message), &entries);
}

void ReplicaDriver::peer_failed(NodeId peer) {
  ReplicaOutput out;
  replica_.peer_failed(peer, host_.now(), out);
  take(out);
}

void ReplicaDriver::log_moved() {
  ReplicaOutput out;
  replica_.log_progress(storage_.levels(), host_.now(), out);
  take(out);
}

void ReplicaDriver::view_durable(uint64_t epoch) {
  ReplicaOutput out;
  replica_.view_persisted(epoch, host_.now(), out);
  take(out);
}

// --- Output

void ReplicaDriver::take(ReplicaOutput& out, const Append* append, const std::vector<LogEntry>* entries) {
  if (out.persist_view) {
    kernel_.note("adopt", shard_, self_.node, out.persist_view->epoch, out.persist_view->primary);
    storage_.persist_view(*out.persist_view);
  }
  if (out.truncate_after) {
    kernel_.hit(Probe::kTruncated);
    kernel_.note("truncate", shard_, self_.node, *out.truncate_after);
    const uint64_t first = *out.truncate_after + 1;
    if (first <= storage_.last_index()) oracle_.truncated(shard_, first, storage_.entry(first));
    storage_.truncate_after(*out.truncate_after);
  }
  if (log_what_was_taken(out, append, entries)) send_all(out);
  for (const ReplicaReport& report : out.reports) host_.report(shard_, report);
  if (out.fetch_view) host_.ask_view(shard_);
  if (out.fetch_snapshot) fetch_snapshot();
  if (out.failed) return kernel_.break_promise("a replica has lost what is committed");
  if (storage_.last_index() != replica_.last_index()) {
    kernel_.break_promise(absl::StrFormat("shard %d node %d: the log ends at %d, the replica's at %d", shard_,
                                          self_.node, storage_.last_index(), replica_.last_index()));
    return;
  }
  settle();
}

bool ReplicaDriver::log_what_was_taken(ReplicaOutput& out, const Append* append, const std::vector<LogEntry>* entries) {
  if (out.accept_first != 0 && append != nullptr) {
    for (uint64_t index = out.accept_first; index <= append->prev.index + entries->size(); ++index) {
      if (!to_log((*entries)[index - append->prev.index - 1], out)) return false;
    }
  }
  if (!out.append_barrier) return true;
  LogEntry barrier;
  barrier.epoch = replica_.view().epoch;
  return to_log(barrier, out);
}

bool ReplicaDriver::to_log(const LogEntry& entry, ReplicaOutput& out) {
  const uint64_t index = storage_.last_index() + 1;
  const uint64_t previous = replica_.log().epoch_of(index - 1).value_or(0);
  if (!storage_.append(entry)) {
    kernel_.hit(Probe::kLogRefused);
    kernel_.note("log refuses", shard_, self_.node, index);
    replica_.log_refused_after(index - 1, out);
    return false;
  }
  oracle_.appended(shard_, index, previous, entry);
  return true;
}

void ReplicaDriver::send_all(const ReplicaOutput& out) {
  for (const auto& envelope : out.messages) {
    if (const auto* append = std::get_if<Append>(&envelope.message); append != nullptr && !append->epochs.empty()) {
      kernel_.break_promise("an Append with entries that is no Send");
    }
    host_.send(shard_, envelope.to, envelope.message, {});
  }
  for (const auto& send : out.sends) {
    std::vector<LogEntry> entries;
    for (uint64_t index = send.first; index <= send.last; ++index) {
      if (index < storage_.first_index() || index > storage_.last_index()) {
        kernel_.break_promise("an entry is to be sent that is not there");
        return;
      }
      entries.push_back(storage_.entry(index));
    }
    host_.send(shard_, send.to, replica_.make_append(send.first, send.last), std::move(entries));
  }
}

// --- After each call

void ReplicaDriver::settle() {
  follow_commit();
  const bool is_primary = replica_.role() == ReplicaRole::kPrimary;
  if ((is_primary && kernel_.mutant != WorldMutant::kServeStaleMap) || !kernel_.rng.chance(options_.lazy_apply))
    apply();
  settle_clients();
  keep_house();
  set_timer();
}

void ReplicaDriver::follow_commit() {
  const uint64_t commit = replica_.commit_index();
  while (seen_commit_ < commit) {
    ++seen_commit_;
    if (seen_commit_ >= storage_.first_index() && seen_commit_ <= storage_.last_index()) {
      host_.committed(shard_, seen_commit_, storage_.entry(seen_commit_), replica_);
    } else if (seen_commit_ > state_.applied()) {
      kernel_.break_promise("what is committed is not in the log");
      return;
    }
    if (seen_commit_ == commit) storage_.hint_commit_index(commit);
  }
}

void ReplicaDriver::apply() {
  if (state_.applied() >= seen_commit_) return;
  while (state_.applied() < seen_commit_) {
    const uint64_t index = state_.applied() + 1;
    if (index < storage_.first_index() || index > storage_.last_index()) {
      kernel_.break_promise("I6: an entry to be applied is not in the log");
      return;
    }
    const bool lose = kernel_.mutant == WorldMutant::kLoseDedup && replica_.role() == ReplicaRole::kBackup;
    state_.apply(index, storage_.entry(index), lose);
  }
  if (kernel_.mutant != WorldMutant::kLoseDedup) oracle_.applied(shard_, state_);
}

void ReplicaDriver::keep_house() {
  const TimeNs now = host_.now();
  const TimeNs since = storage_.waiting_since();
  replica_.set_log_stalled(since != kTimeNever && kernel_.now() - since > options_.stall_after_ns);
  if (since != kTimeNever && kernel_.now() - since > options_.give_up_disk_ns) return host_.fail_process();
  if (now < flush_at_) return;
  flush_at_ = now + options_.flush_ns;
  storage_.flush(state_);
  const uint64_t last = replica_.last_index();
  const uint64_t kept_for_peers = last - std::min(last, options_.retention_entries);
  storage_.trim(std::min(storage_.flushed_index(), std::max(replica_.needed_from() - 1, kept_for_peers)));
  replica_.set_first_available(storage_.first_index());
}

void ReplicaDriver::set_timer() {
  const TimeNs at = std::max(replica_.wake_at(), host_.now() + kMicrosecond);
  if (at >= timer_at_) return;
  timer_at_ = at;
  host_.later(at - host_.now(), [this, at] {
    if (timer_at_ == at) timer_at_ = kTimeNever;
    ReplicaOutput out;
    replica_.tick(host_.now(), out);
    take(out);
  });
}

// --- Snapshots

void ReplicaDriver::fetch_snapshot() {
  if (host_.now() < snapshot_until_) return;
  snapshot_until_ = host_.now() + kSecond;
  const View& view = replica_.view();
  NodeId source = view.primary;
  if (kernel_.rng.chance(0.3)) source = view.members[kernel_.rng.below(view.members.size())].node;
  if (source != self_.node) host_.ask_snapshot(shard_, source);
}

void ReplicaDriver::on_snapshot_asked(NodeId from) {
  apply();
  const auto epoch = replica_.log().epoch_of(state_.applied());
  if (state_.applied() == 0 || !epoch) return;
  host_.send_snapshot(shard_, from, state_, {state_.applied(), *epoch});
}

void ReplicaDriver::on_snapshot(const ShardState& state, EntryId base) {
  snapshot_until_ = 0;
  const SnapshotFit fit = replica_.snapshot_fit(base);
  if (fit == SnapshotFit::kNone) return kernel_.hit(Probe::kSnapshotTooOld);
  kernel_.hit(fit == SnapshotFit::kKeepsLog ? Probe::kSnapshotKeptLog : Probe::kSnapshotInstalled);
  kernel_.note("snapshot", shard_, self_.node, base.index, base.epoch);
  storage_.install(state, base, fit == SnapshotFit::kKeepsLog);
  state_ = state;
  oracle_.applied(shard_, state_);
  seen_commit_ = base.index;
  ReplicaOutput out;
  replica_.install_snapshot(base, host_.now(), out);
  replica_.set_first_available(storage_.first_index());
  take(out);
  log_moved();  // what it kept behind the snapshot was made durable with it
}

}  // namespace skua::kv::sim
