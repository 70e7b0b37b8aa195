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

absl::StatusOr<std::unique_ptr<ShardReplica>> ShardReplica::create(const Options& options, ShardId id, ReplicaId self,
                                                                   const ReplicaNotes& notes, WorkerEngine& engine,
                                                                   EngineShard& shard, ReplicaHost& host, TimeNs now) {
  engine.replicate(shard);
  const ReplicaStart start = engine.replica_start(shard);
  Replica::Restart restart;
  restart.view = notes.view;
  restart.doubt = notes.doubt;
  restart.commit_index = start.applied_index;
  if (start.runs.empty()) {
    if (start.applied_index != 0) {
      return absl::DataLossError("the shard has data, but no record of which primaries wrote it");
    }
  } else {
    auto log = decode_epoch_history(as_byte_span(start.runs));
    if (!log) return absl::DataLossError("the shard's record of which primaries wrote it is damaged");
    restart.log = *std::move(log);
    // The runs end with the last barrier. The entries that were applied after it have the same epoch.
    if (restart.log.last_index() > start.applied_index || start.applied_index > EpochHistory::kIndexMax) {
      return absl::DataLossError("the shard's record of which primaries wrote it is not of the data that it has");
    }
    restart.log.extend_to(start.applied_index);
  }
  for (const ReplicaEntry& entry : start.tail) {
    if (entry.epoch < restart.log.last().epoch) {
      // The row is from a life of the replica whose damaged data were dropped. A copy took their place, and ends in a
      // later epoch.
      engine.truncate_entries(shard, restart.log.last_index());
      break;
    }
    restart.log.append(entry.epoch);
  }
  return std::unique_ptr<ShardReplica>(
      new ShardReplica(options, id, self, std::move(restart), notes.may_unsync, engine, shard, host, now));
}

ShardReplica::ShardReplica(const Options& options, ShardId id, ReplicaId self, Replica::Restart restart,
                           bool may_unsync, WorkerEngine& engine, EngineShard& shard, ReplicaHost& host, TimeNs now)
    : options_(options),
      id_(id),
      self_(self.node),
      engine_(engine),
      shard_(shard),
      host_(host),
      replica_(options.replica, self, std::move(restart), now),
      unsynced_(may_unsync ? Unsynced::kAllowed : Unsynced::kRefused) {
  replica_.set_first_available(engine_.trim_entries(shard_, 0, options_.keep_bytes));
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

void ShardReplica::on_message(NodeId from, const ReplicaMessage& message, std::span<const ReplicaEntry> entries,
                              TimeNs now) {
  if (failed_) return;
  flush(now);
  replica_.on_message(from, message, now, out_);
  act(entries, now);
}

void ShardReplica::peer_failed(NodeId peer, TimeNs now) {
  replica_.peer_failed(peer, now, out_);
  act({}, now);
}

void ShardReplica::peer_ready(NodeId peer, TimeNs now) {
  if (failed_) return;
  replica_.peer_ready(peer, now, out_);
  act({}, now);
}

void ShardReplica::proposed(const ReplicaEntry& entry, TimeNs now) {
  if (entry.durability != Durability::kSync) note_unsynced();
  replica_.propose(entry.durability, now, out_);
  dirty_ = true;
}

void ShardReplica::log_moved(bool refused) {
  log_moved_ = dirty_ = true;
  log_refused_ = log_refused_ || refused;
}

void ShardReplica::tick(TimeNs now) {
  note_pause(now);
  if (!engine_.log_health().ok()) return withdraw(now);
  if (failed_) return;
  flush(now);
  if (now < replica_.wake_at()) return;
  sync_now_and_then(now);
  trim(now);
  replica_.set_shown(WorkerEngine::committed_index(shard_));
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
  replica_.set_first_available(engine_.trim_entries(shard_, needed_from, bytes_max));
}

uint64_t ShardReplica::hold_entries() {
  return *holds_.insert(WorkerEngine::db(shard_).applied_index() + 1);
}

void ShardReplica::release_entries(uint64_t hold) {
  const auto held = holds_.find(hold);
  if (held != holds_.end()) holds_.erase(held);
}

absl::StatusOr<Append> ShardReplica::read_tail(NodeId reader, uint64_t after, size_t bytes_max, TimeNs now,
                                               std::vector<ReplicaRecord*>& pinned) {
  if (!gives_copies()) return absl::UnavailableError(why_not());
  const uint64_t committed = std::min(replica_.commit_index(), WorkerEngine::committed_index(shard_));
  if (after > committed)
    return absl::InvalidArgumentError("this replica has not committed what it is asked to go on from");
  uint64_t last = after;
  size_t bytes = 0;
  while (last < committed && pinned.size() < kTailEntriesMax && (pinned.empty() || bytes < bytes_max)) {
    ReplicaRecord* const record = engine_.pin_entry(shard_, last + 1);
    if (record == nullptr) break;
    pinned.push_back(record);
    bytes += engine_.replica_entry(shard_, ++last)->payload.size();
  }
  if (pinned.empty() && after < committed) {
    return absl::OutOfRangeError("what follows the copy is not kept any more");
  }
  // The entries after `after` are still needed: what is sent now may be lost, and asked for again.
  if (tail_readers_.size() < kTailReadersMax || tail_readers_.contains(reader)) {
    tail_readers_[reader] = {after + 1, now};
  }
  return replica_.make_append(after + 1, last);
}

void ShardReplica::flush(TimeNs now) {
  const bool awaits_engine = !leading_ && replica_.open();
  if (!std::exchange(dirty_, false) && !awaits_engine) return;
  if (log_moved_) report_progress(now);
  act({}, now);
}

TimeNs ShardReplica::wake_at() const {
  if (!engine_.log_health().ok()) return replica_.view().primary == self_ ? next_report_ns_ : kTimeNever;
  return failed_ ? kTimeNever : replica_.wake_at();
}

/// The log has failed, and so has this replica. It sends no messages any more, so that the other replicas go on without
/// it. If it is the primary, it goes on reporting to the control plane that another replica must lead.
void ShardReplica::withdraw(TimeNs now) {
  if (!failed_) {
    retire();
    if (unsynced_ != Unsynced::kRefused) host_.put_in_doubt(id_);
  }
  if (replica_.view().primary != self_ || now < next_report_ns_) return;
  next_report_ns_ = now + options_.replica.heartbeat_ns;
  host_.report(id_, {ReplicaReport::Kind::kNeedsEpoch, replica_.view().epoch, self_, 0});
}

void ShardReplica::retire() {
  if (std::exchange(leading_, false)) engine_.follow(shard_);
  failed_ = true;
  watch();
  for (Waiter& waiter : std::exchange(waiters_, {})) waiter.done(false);
}

// --- What follows

void ShardReplica::report_progress(TimeNs now) {
  log_moved_ = false;
  if (std::exchange(log_refused_, false)) {
    leading_ = false;  // the engine has called follow() itself
    replica_.log_refused_after(engine_.last_entry(shard_), out_);
  }
  const ReplicaLevels levels = engine_.replica_levels(shard_);
  const uint64_t written = unsynced_ == Unsynced::kAllowed ? levels.written : levels.synced;
  replica_.log_progress({engine_.last_entry(shard_), written, levels.synced}, now, out_);
}

/// A client waits only until an entry is written, not until it is synced. Entries are acknowledged only when synced as
/// long as the node has not durably noted that this replica acknowledges unsynced entries, or while the replica is in
/// doubt because of earlier ones. So the log is asked to sync now.
void ShardReplica::note_unsynced() {
  if (unsynced_ == Unsynced::kAllowed) [[likely]] {
    return;
  }
  engine_.sync_log();
  if (unsynced_ != Unsynced::kRefused || replica_.is_doubtful()) return;
  unsynced_ = Unsynced::kAsked;
  host_.allow_unsynced(id_);
}

void ShardReplica::sync_now_and_then(TimeNs now) {
  if (unsynced_ == Unsynced::kRefused || now < next_sync_ns_) return;
  if (engine_.replica_levels(shard_).synced >= engine_.last_entry(shard_)) return;
  next_sync_ns_ = now + kSyncAfterNs;
  engine_.sync_log();
}

/// Does what the last inputs ask for. This may give new outputs, for example when a barrier is logged.
void ShardReplica::act(std::span<const ReplicaEntry> entries, TimeNs now) {
  if (failed_) return out_.clear();
  if (replica_.view().epoch != epoch_ || replica_.role() != ReplicaRole::kPrimary) change_epoch();
  // Writes that were admitted earlier and wait for the database must not become entries of an epoch that is not
  // durable.
  if (leading_) engine_.hold_writes(shard_, !replica_.can_propose());
  if (out_.truncate_after) engine_.truncate_entries(shard_, *out_.truncate_after);
  if (std::exchange(out_.accept_first, 0) != 0) accept(entries, now);
  out_.truncate_after.reset();
  if (std::exchange(out_.append_barrier, false)) append_barrier(now);
  if (out_.persist_view) host_.persist_view(id_, *std::exchange(out_.persist_view, std::nullopt));
  join_sends();
  for (const ReplicaOutput::Send& send : out_.sends) send_entries(send);
  for (const auto& [to, message] : out_.messages) host_.send(id_, to, message);
  for (const ReplicaReport& report : out_.reports) host_.report(id_, report);
  if (out_.fetch_view) host_.fetch_view(id_);
  if (out_.fetch_snapshot) host_.fetch_snapshot(id_, replica_.view().primary);
  if (out_.restored) host_.restored(id_);
  if (out_.failed) {
    retire();
    host_.replica_failed(id_, WorkerEngine::health(shard_));
  }
  out_.clear();
  if (!failed_) follow_commits();
  watch();
  answer_confirmed();
}

/// A backup of a table that is read anywhere must know which keys are settled: switches this on or off in the engine.
void ShardReplica::watch() {
  const bool wanted = !failed_ && replica_.role() == ReplicaRole::kBackup && replica_.view().read_anywhere;
  if (wanted == watches_) return;
  watches_ = wanted;
  engine_.watch_uncommitted(shard_, wanted);
}

/// The view has a new epoch, or this replica is not the primary any more.
void ShardReplica::change_epoch() {
  const bool reigns_on = leading_ && replica_.open();
  if (!reigns_on) {
    if (std::exchange(leading_, false)) engine_.follow(shard_);
    for (Waiter& waiter : std::exchange(waiters_, {})) waiter.done(false);
  }
  if (epoch_ == replica_.view().epoch) return;
  epoch_ = replica_.view().epoch;
  engine_.set_replica_epoch(shard_, epoch_);
}

void ShardReplica::accept(std::span<const ReplicaEntry> entries, TimeNs now) {
  bool unsynced = false;
  for (const ReplicaEntry& entry : entries) {
    if (entry.index != engine_.last_entry(shard_) + 1) continue;  // the log has this entry already
    unsynced = unsynced || entry.durability != Durability::kSync;
    absl::Status appended = check_barrier({entry.index, entry.epoch}, entry.payload);
    // The entries that a new primary found, and its barrier, must be here before the primary commits anything. So more
    // of them are taken.
    const bool inherited = entry.epoch < replica_.view().epoch || read_barrier(entry.payload).has_value();
    if (!engine_.has_room_for_entries(shard_, inherited)) {
      appended = absl::ResourceExhaustedError("too much waits to be committed");
    }
    if (appended.ok()) appended = engine_.append_entry(shard_, entry);
    if (!appended.ok()) {
      // The primary sends the entry again. The acknowledgements are dropped, because the entries are not in the log.
      out_.messages.clear();
      replica_.log_refused_after(engine_.last_entry(shard_), out_);
      replica_.set_log_stalled(absl::IsInvalidArgument(appended) || !WorkerEngine::health(shard_).ok());
      return report_progress(now);
    }
  }
  if (unsynced) note_unsynced();
  replica_.set_log_stalled(!WorkerEngine::health(shard_).ok());
  report_progress(now);
}

void ShardReplica::append_barrier(TimeNs now) {
  const EpochHistory& log = replica_.log();
  const std::string payload = encode_barrier(as_byte_span(encode_epoch_history(log)));
  const ReplicaEntry barrier{log.last_index(), log.last().epoch, static_cast<int64_t>(engine_.next_record_ms(shard_)),
                             Durability::kSync, as_byte_span(payload)};
  if (!engine_.append_entry(shard_, barrier).ok()) {
    out_.messages.clear();
    out_.sends.clear();
    replica_.log_refused_after(engine_.last_entry(shard_), out_);
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

void ShardReplica::send_entries(const ReplicaOutput::Send& send) {
  uint64_t first = send.first;
  while (first <= send.last && replica_.may_send(send.to)) {
    pinned_.clear();
    size_t bytes = 0;
    uint64_t last = first;
    for (uint64_t index = first; index <= send.last && (index == first || bytes < kSendBytesMax); ++index) {
      ReplicaRecord* const record = engine_.pin_entry(shard_, index);
      if (record == nullptr) break;
      pinned_.push_back(record);
      bytes += engine_.replica_entry(shard_, index)->payload.size();
      last = index;
    }
    if (pinned_.empty()) return;  // the entry was truncated or trimmed meanwhile; the peer asks again
    const size_t sent = host_.send_entries(id_, send.to, replica_.make_append(first, last), pinned_);
    if (sent < pinned_.size()) replica_.send_refused(send.to, first + sent);
    first = last + 1;
  }
}

void ShardReplica::follow_commits() {
  engine_.commit_entries(shard_, replica_.commit_index());
  if (!leading_ && replica_.open() && WorkerEngine::committed_index(shard_) == engine_.last_entry(shard_)) {
    leading_ = true;
    engine_.lead(shard_, replica_.log().last().epoch);
  }
  if (!WorkerEngine::health(shard_).ok()) replica_.set_log_stalled(true);
  replica_.set_shown(WorkerEngine::committed_index(shard_));
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
  if (!engine_.log_health().ok()) return "the log of this replica's node has failed; another one is asked to lead";
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
