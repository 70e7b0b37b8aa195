#include "kvstore/shard/shard_replica.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/effect.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// One send takes no more entries once their payloads have this many bytes.
constexpr size_t kSendBytesMax = size_t{1} << 20;

/// A node that copies the shard and has not called read_tail() for this long is taken to have given up.
constexpr DurationNs kTailReaderNs = 10 * kSecond;
constexpr size_t kTailReadersMax = 16;
constexpr size_t kTailEntriesMax = 4096;

/// Entries that were acknowledged without a sync are synced after this time, or one heartbeat later, at the latest.
constexpr DurationNs kSyncAfterNs = 50 * kMillisecond;

}  // namespace

absl::StatusOr<std::unique_ptr<ShardReplica>> ShardReplica::create(const Options& options, ReplicaId self,
                                                                   const ReplicaNotes& notes, Shard& shard,
                                                                   ReplicaHost& host, const MachineClock& clock) {
  shard.replicate();
  EntryLog& entries = shard.entries();
  const uint64_t applied_index = shard.indices().committed;
  Replica::Restart restart{.view = notes.view, .log = {}, .commit_index = applied_index, .doubt = notes.doubt};
  if (entries.runs().empty()) {
    if (applied_index != 0) {
      return absl::DataLossError("the shard has data, but no record of which primaries wrote it");
    }
  } else {
    auto log = decode_epoch_history(as_byte_span(entries.runs()));
    if (!log) return absl::DataLossError("the shard's record of which primaries wrote it is damaged");
    restart.log = *std::move(log);
    // The runs end with the last barrier. The entries that were applied after it have the same epoch.
    if (restart.log.last_index() > applied_index || applied_index > EpochHistory::kIndexMax) {
      return absl::DataLossError("the shard's record of which primaries wrote it is not of the data that it has");
    }
    restart.log.extend_to(applied_index);
  }
  for (uint64_t index = applied_index + 1; const Entry* const entry = entries.find(index); ++index) {
    if (entry->epoch < restart.log.last().epoch) {
      // The row is from a life of the replica whose damaged data were dropped. A copy took their place, and ends in a
      // later epoch.
      entries.truncate(restart.log.last_index());
      break;
    }
    restart.log.append(entry->epoch);
  }
  return std::unique_ptr<ShardReplica>(
      new ShardReplica(options, self, std::move(restart), notes.may_unsync, shard, host, clock));
}

ShardReplica::ShardReplica(const Options& options, ReplicaId self, Replica::Restart restart, bool may_unsync,
                           Shard& shard, ReplicaHost& host, const MachineClock& clock)
    : options_(options),
      self_(self.node),
      shard_(shard),
      host_(host),
      clock_(clock),
      replica_(options.replica, self, std::move(restart), clock.boot_ns()),
      unsynced_(may_unsync ? Unsynced::kAllowed : Unsynced::kRefused) {
  replica_.set_first_available(shard_.entries().trim(0, options_.keep_bytes));
  shard_.entries().set_observer(this);
}

ShardReplica::~ShardReplica() {
  for (Waiter& waiter : waiters_) waiter.done(false);
}

// --- Input

void ShardReplica::set_view(const View& view, TimeNs now) {
  if (failed_) return;
  flush(now);  // sends what was proposed in the old epoch, before the new one, which is not durable yet, begins
  replica_.on_view(view, now, out_);
  act({}, now);
}

void ShardReplica::view_persisted(uint64_t epoch, TimeNs now) {
  replica_.view_persisted(epoch, now, out_);
  act({}, now);
}

void ShardReplica::unsynced_allowed(TimeNs now) {
  if (unsynced_ != Unsynced::kAsked) return;
  unsynced_ = Unsynced::kAllowed;
  if (failed_) return;
  report_progress(now);
  act({}, now);
}

absl::Status ShardReplica::on_message(const ReplicaId& from, const ReplicaMessage& message,
                                      std::span<const ReplicaEntry> entries, TimeNs now) {
  if (failed_) return absl::OkStatus();
  flush(now);
  refusal_ = absl::OkStatus();
  replica_.on_message(from, message, now, out_);
  act(entries, now);
  return std::exchange(refusal_, absl::OkStatus());
}

void ShardReplica::on_link(NodeId peer, LinkInput input, TimeNs now) {
  if (failed_) return;
  (replica_.*input)(peer, now, out_);
  act({}, now);
}

void ShardReplica::proposed(const ReplicaEntry& entry) {
  if (!is_synced(entry.durability)) note_unsynced();
  replica_.propose(entry.durability, clock_.boot_ns(), out_);
  dirty_ = true;
}

void ShardReplica::log_moved(bool refused) {
  log_moved_ = dirty_ = true;
  log_refused_ = log_refused_ || refused;
}

std::string ShardReplica::why_no_marks() const {
  const View& view = replica_.view();
  const auto refused_by = [this](NodeId node) -> std::string {
    const PeerInfo* const peer = host_.peer(node);
    if (peer == nullptr || peer->takes_marks) return "";
    return absl::StrCat("the write would leave a record with a mark, and node ", peer->uuid,
                        ", which has a replica of the shard, does not know marks of records, because its version is "
                        "too old; upgrade all nodes");
  };
  for (const ReplicaId& member : view.members) {
    if (std::string why = refused_by(member.node); !why.empty()) return why;
  }
  for (const Learner& learner : view.learners) {
    if (std::string why = refused_by(learner.id.node); !why.empty()) return why;
  }
  return "";
}

void ShardReplica::tick(TimeNs now) {
  note_pause(now);
  if (!shard_.worker().log_failure.ok()) return withdraw(now);
  if (failed_) return;
  flush(now);
  if (now < replica_.wake_at()) return;
  sync_now_and_then(now);
  trim(now);
  replica_.set_shown(shard_.indices().committed);
  replica_.tick(now, out_);
  act({}, now);
}

/// If the thread got no processor, or had too much to do, it sent no heartbeats that peers could answer. Such a pause
/// counts as one heartbeat without an answer, however long it was.
void ShardReplica::note_pause(TimeNs now) {
  const DurationNs heartbeat_ns = options_.replica.heartbeat_ns;
  const TimeNs before = std::exchange(ticked_ns_, now);
  if (before != 0 && now - before > 2 * heartbeat_ns) replica_.paused(before + heartbeat_ns, now);
}

void ShardReplica::trim(TimeNs now) {
  std::erase_if(tail_readers_, [now](const auto& reader) { return now - reader.second.asked_ns > kTailReaderNs; });
  const bool held = !holds_.empty() || !tail_readers_.empty();
  uint64_t needed_from = replica_.needed_from();
  if (!holds_.empty()) needed_from = std::min(needed_from, *holds_.begin());
  for (const auto& [node, reader] : tail_readers_) needed_from = std::min(needed_from, reader.needs_from);
  const size_t bytes_max = held ? std::max(options_.hold_bytes, options_.keep_bytes) : options_.keep_bytes;
  replica_.set_first_available(shard_.entries().trim(needed_from, bytes_max));
}

void ShardReplica::release_entries(uint64_t hold) {
  const auto held = holds_.find(hold);
  if (held != holds_.end()) holds_.erase(held);
}

absl::StatusOr<Append> ShardReplica::read_tail(NodeId reader, uint64_t after, size_t bytes_max, TimeNs now,
                                               std::vector<Entry*>& pinned) {
  if (!gives_copies()) return absl::UnavailableError(why_not());
  const uint64_t committed = std::min(replica_.commit_index(), shard_.indices().committed);
  if (after > committed)
    return absl::InvalidArgumentError("this replica has not committed what it is asked to go on from");
  pin_entries(after + 1, std::min(committed, after + kTailEntriesMax), bytes_max, pinned);
  if (pinned.empty() && after < committed) {
    return absl::OutOfRangeError("what follows the copy is not kept any more");
  }
  // The entries after `after` are still needed: what is sent now may be lost, and asked for again.
  if (tail_readers_.size() < kTailReadersMax || tail_readers_.contains(reader)) {
    tail_readers_[reader] = {after + 1, now};
  }
  return replica_.make_append(after + 1, after + pinned.size());
}

void ShardReplica::flush(TimeNs now) {
  const bool awaits_shard = !leading_ && replica_.open();
  if (!std::exchange(dirty_, false) && !awaits_shard) return;
  if (log_moved_) report_progress(now);
  act({}, now);
}

TimeNs ShardReplica::wake_at() const {
  if (!shard_.worker().log_failure.ok()) return replica_.view().primary == self_ ? next_report_ns_ : kTimeNever;
  return failed_ ? kTimeNever : replica_.wake_at();
}

/// The log has failed, and so has this replica. It sends no messages any more, so that the other replicas go on without
/// it. If it is the primary, it goes on reporting to the control plane that another replica must lead.
void ShardReplica::withdraw(TimeNs now) {
  if (!failed_) {
    retire();
    if (unsynced_ != Unsynced::kRefused) host_.put_in_doubt(id());
  }
  if (replica_.view().primary != self_ || now < next_report_ns_) return;
  next_report_ns_ = now + options_.replica.heartbeat_ns;
  host_.report(id(), {ReplicaReport::Kind::kNeedsEpoch, replica_.view().epoch, self_, 0});
}

void ShardReplica::retire() {
  if (std::exchange(leading_, false)) shard_.follow();
  failed_ = true;
  watch();
  for (Waiter& waiter : std::exchange(waiters_, {})) waiter.done(false);
}

// --- What follows

void ShardReplica::report_progress(TimeNs now) {
  log_moved_ = false;
  if (std::exchange(log_refused_, false)) {
    leading_ = false;  // the shard has called follow() itself
    replica_.log_refused_after(shard_.indices().last, out_);
  }
  const ShardIndices& at = shard_.indices();
  replica_.log_progress({at.last, unsynced_ == Unsynced::kAllowed ? at.written : at.synced, at.synced}, now, out_);
}

/// A client waits only until an entry is written, not until it is synced. Entries are acknowledged only when synced as
/// long as the node has not durably noted that this replica acknowledges unsynced entries, or while the replica is in
/// doubt because of earlier ones. So the log is asked to sync now.
void ShardReplica::note_unsynced() {
  if (unsynced_ == Unsynced::kAllowed) [[likely]] {
    return;
  }
  shard_.worker().log->sync();
  if (unsynced_ != Unsynced::kRefused || replica_.is_doubtful()) return;
  unsynced_ = Unsynced::kAsked;
  host_.allow_unsynced(id());
}

void ShardReplica::sync_now_and_then(TimeNs now) {
  if (unsynced_ == Unsynced::kRefused || now < next_sync_ns_) return;
  if (shard_.indices().synced >= shard_.indices().last) return;
  next_sync_ns_ = now + kSyncAfterNs;
  shard_.worker().log->sync();
}

/// Does what the last inputs ask for. This may give new outputs, for example when a barrier is logged.
void ShardReplica::act(std::span<const ReplicaEntry> entries, TimeNs now) {
  if (failed_) return out_.clear();
  if (replica_.view().epoch != epoch_ || replica_.role() != ReplicaRole::kPrimary) change_epoch();
  // Writes that were admitted earlier and wait for the database must not become entries of an epoch that is not
  // durable.
  if (leading_) shard_.entries().hold_writes(!replica_.can_propose());
  if (out_.truncate_after) shard_.entries().truncate(*out_.truncate_after);
  if (std::exchange(out_.accept_first, 0) != 0) accept(entries, now);
  out_.truncate_after.reset();
  if (std::exchange(out_.append_barrier, false)) append_barrier(now);
  if (out_.persist_view) host_.persist_view(id(), *std::exchange(out_.persist_view, std::nullopt));
  join_sends();
  for (const ReplicaOutput::Send& send : out_.sends) send_entries(send);
  for (const auto& [to, message] : out_.messages) host_.send(id(), to, message);
  for (const ReplicaReport& report : out_.reports) host_.report(id(), report);
  if (out_.fetch_view) host_.fetch_view(id());
  if (out_.fetch_snapshot) host_.fetch_snapshot(id(), replica_.view().primary);
  if (out_.restored) host_.restored(id());
  if (out_.failed) {
    retire();
    host_.replica_failed(id(), shard_.health());
  }
  out_.clear();
  if (!failed_) follow_commits();
  watch();
  answer_confirmed();
}

/// A backup of a table that is read anywhere must know which keys are settled: switches this on or off in the shard.
void ShardReplica::watch() {
  const bool wanted = !failed_ && replica_.role() == ReplicaRole::kBackup && replica_.view().read_anywhere;
  if (wanted == watches_) return;
  watches_ = wanted;
  shard_.entries().watch_uncommitted(wanted);
}

/// The view has a new epoch, or this replica is not the primary any more.
void ShardReplica::change_epoch() {
  const bool leads_on = leading_ && replica_.open();
  if (!leads_on) {
    if (std::exchange(leading_, false)) shard_.follow();
    for (Waiter& waiter : std::exchange(waiters_, {})) waiter.done(false);
  }
  if (epoch_ == replica_.view().epoch) return;
  epoch_ = replica_.view().epoch;
  shard_.entries().raise_epoch(epoch_);
}

void ShardReplica::accept(std::span<const ReplicaEntry> entries, TimeNs now) {
  bool unsynced = false;
  for (const ReplicaEntry& entry : entries) {
    if (entry.index != shard_.indices().last + 1) continue;  // the log has this entry already
    unsynced = unsynced || !is_synced(entry.durability);
    absl::Status appended = check_barrier({entry.index, entry.epoch}, entry.payload);
    // The entries that a new primary found, and its barrier, must be here before the primary commits anything. So more
    // of them are taken.
    const bool inherited = entry.epoch < replica_.view().epoch || read_barrier(entry.payload).has_value();
    if (!shard_.entries().has_room(inherited)) {
      appended = absl::ResourceExhaustedError("too much waits to be committed");
    }
    if (appended.ok()) appended = shard_.entries().append(entry);
    if (!appended.ok()) {
      // The primary sends the entry again. The acknowledgements are dropped, because the entries are not in the log.
      out_.messages.clear();
      replica_.log_refused_after(shard_.indices().last, out_);
      if (absl::IsInvalidArgument(appended)) refusal_ = appended;
      replica_.set_log_stalled(!refusal_.ok() || !shard_.health().ok());
      return report_progress(now);
    }
  }
  if (unsynced) note_unsynced();
  replica_.set_log_stalled(!shard_.health().ok());
  report_progress(now);
}

void ShardReplica::append_barrier(TimeNs now) {
  const EpochHistory& log = replica_.log();
  const std::string payload = encode_barrier(as_byte_span(encode_epoch_history(log)));
  const ReplicaEntry barrier{log.last_index(), log.last().epoch, static_cast<int64_t>(shard_.next_record_ms()),
                             Durability::kSync, as_byte_span(payload)};
  if (!shard_.entries().append(barrier).ok()) {
    out_.messages.clear();
    out_.sends.clear();
    replica_.log_refused_after(shard_.indices().last, out_);
  }
  report_progress(now);
}

/// Joins entries of one burst into one message for each peer.
void ShardReplica::join_sends() {
  std::vector<ReplicaOutput::Send>& sends = out_.sends;
  size_t kept = 0;
  for (size_t i = 0; i < sends.size(); ++i) {
    size_t before = kept;
    while (before > 0 && sends[before - 1].to != sends[i].to) --before;
    if (before > 0 && sends[before - 1].last + 1 == sends[i].first) {
      sends[before - 1].last = sends[i].last;
    } else {
      sends[kept++] = sends[i];
    }
  }
  sends.resize(kept);
}

/// Pins the kept entries first..last and adds them to `pinned`, which is empty: up to about `bytes_max` bytes, and no
/// entry behind one that is not kept.
void ShardReplica::pin_entries(uint64_t first, uint64_t last, size_t bytes_max, std::vector<Entry*>& pinned) const {
  size_t bytes = 0;
  for (uint64_t index = first; index <= last && (index == first || bytes < bytes_max); ++index) {
    Entry* const entry = shard_.entries().find(index);
    if (entry == nullptr) return;
    entry->pin();
    pinned.push_back(entry);
    bytes += entry->payload.size();
  }
}

void ShardReplica::send_entries(const ReplicaOutput::Send& send) {
  uint64_t first = send.first;
  while (first <= send.last && replica_.may_send(send.to)) {
    pinned_.clear();
    pin_entries(first, send.last, kSendBytesMax, pinned_);
    if (pinned_.empty()) return;  // the entry was truncated or trimmed meanwhile; the peer asks again
    const uint64_t last = first + pinned_.size() - 1;
    const size_t sent = host_.send_entries(id(), send.to, replica_.make_append(first, last), pinned_);
    if (sent < pinned_.size()) replica_.send_refused(send.to, first + sent);
    first = last + 1;
  }
}

void ShardReplica::follow_commits() {
  shard_.commit_entries(replica_.commit_index());
  if (!leading_ && replica_.open() && shard_.indices().committed == shard_.indices().last) {
    leading_ = true;
    shard_.lead(replica_.log().last().epoch);
  }
  if (!shard_.health().ok()) replica_.set_log_stalled(true);
  replica_.set_shown(shard_.indices().committed);
}

// --- Reads

void ShardReplica::confirm(Confirmed done, TimeNs now) {
  if (!is_serving() || waiters_.size() >= options_.confirms_max) return done(false);
  waiters_.push_back({replica_.begin_confirm(out_), std::move(done)});
  act({}, now);
}

void ShardReplica::answer_confirmed() {
  while (!waiters_.empty() && waiters_.front().round <= replica_.confirmed_round()) {
    Confirmed done = std::move(waiters_.front().done);
    waiters_.pop_front();
    done(true);
  }
}

std::string ShardReplica::why_not() const {
  const View& view = replica_.view();
  if (!shard_.worker().log_failure.ok())
    return "the log of this replica's node has failed; another one is asked to lead";
  if (failed_) return "this replica is being closed; try again";
  if (view.epoch == 0) return "this replica has not heard from the control plane yet; try again";
  if (watches_) return "this backup cannot answer just now; ask the shard's primary";
  if (replica_.role() != ReplicaRole::kPrimary) return "this replica is not the shard's primary; refresh the shard map";
  if (!is_serving()) return "the shard's new primary is not ready yet; try again";
  if (!replica_.can_propose()) {
    return absl::StrCat("the shard has ", view.members.size(), " of the ", view.min_insync,
                        " replicas that writes need (min_insync); bring back a node");
  }
  return "";
}

}  // namespace skua::kv
