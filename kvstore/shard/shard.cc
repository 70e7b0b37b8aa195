// A shard's beginning and end, what comes back from readers and applier, and replication.
#include "kvstore/shard/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/entry_check.h"
#include "rpc/base/check.h"

namespace skua::kv {

// --- Beginning

Shard::Shard(WorkerResources& worker, ShardDb& db, uint64_t epoch)
    : context_{worker, *this, db},
      attempts_(worker.options.completions),
      log_(context_, epoch),
      intake_(context_, queue_),
      reads_(context_) {
  at_.last = at_.written = at_.synced = at_.committed = at_.applied = db.applied_index();
  context_.number = worker.memory->add_shard(at_.last);
  context_.applied.db = &db;
  context_.applied.log_shard = log_.id();
  context_.applied.context = this;
  context_.applied.completions.set_limits(worker.options.completions);
  context_.failure = load(db.take_internal_rows());
  worker.applier->open(context_.applied);
}

absl::Status Shard::load(std::span<const InternalRow> rows) {
  if (absl::Status loaded = attempts_.load(rows); !loaded.ok()) return loaded;
  if (const uint64_t newest_ms = attempts_.newest_ms()) context_.clock.saw(newest_ms, worker().steady_ms);
  if (absl::Status loaded = context_.applied.completions.load(rows); !loaded.ok()) return loaded;
  if (absl::Status loaded = rows_.load(rows); !loaded.ok()) return loaded;
  auto life = read_life(rows);
  if (!life.ok()) return life.status();
  life_ = *std::move(life);
  life_.closed = true;
  if (life_.is_known) context_.applied.closed_row = encode_life(life_);
  return absl::OkStatus();
}

// --- Reads

bool Shard::fill(std::string_view key, const PinnedValue& value, MemoryTier::Ticket ticket) {
  const MemoryTier::Version version{.index = value.version(), .expiry = value.expires_at(), .dirty = false};
  return worker().memory->fill_from_disk(item_key(key), value.bytes(), version, ticket);
}

void Shard::fetched(KeyFetch& fetch) {
  const bool filled = fetch.status.ok() && fill(fetch.key, fetch.value, fetch.ticket);
  if (fetch.first_read != nullptr) {
    reads_.fetched(fetch, filled);
  } else {
    intake_.fetched(fetch);
  }
  worker().fetches.release(fetch);
}

// --- What the applier reports

void Shard::take_report(const Applier::Report& report) {
  if (report.applied_index > at_.applied) {
    at_.applied = report.applied_index;
    worker().memory->mark_clean(context_.number, report.applied_index);
    if (entries_ != nullptr) entries_->rows().applied(report.applied_index);
  }
  if (report.kept) entries_->rows().kept();
  const bool can_keep = entries_ != nullptr && health().ok() && worker().log_failure.ok() && !has_apply_gap_;
  if (can_keep && report.pinned_index > at_.committed && !entries_->keep_pinning(report.pinned_index)) stall();
  if (!report.failure.ok() && health().ok()) {
    context_.failure = absl::Status(
        report.failure.code(), absl::StrCat("the shard's database failed, and the shard refuses writes until it is "
                                            "opened again: ",
                                            report.failure.message()));
  }
  context_.held_up = report.held_up;
  reads_.note_applied();
}

std::optional<TroubledShard> Shard::trouble() const {
  if (on_closed_ || (context_.held_up.ok() && context_.failure.ok())) return std::nullopt;
  return TroubledShard{db().id(), context_.held_up, context_.failure};
}

// --- End

void Shard::close(absl::AnyInvocable<void()> closed) {
  SKUA_CHECK(queue_.empty() && intake_.empty() && reads_.empty(), "close a shard when nothing of it is unfinished");
  on_closed_ = std::move(closed);
  closing_since_ms_ = std::max<uint64_t>(worker().now_ms, 1);
  if (entries_ != nullptr) entries_->close();
  go_on_closing();
}

void Shard::go_on_closing() {
  if (entries_ != nullptr && !entries_->rows().hand_on()) return worker().closing.push_back(this);
  worker().applier->close(context_.applied);
}

/// Only recovery can bring the database what it lacks. And an index that is in doubt in this log must not be given out
/// again in another log. In these cases nobody may open the shard before a restart, so close()'s `closed` does not run.
std::optional<ClosingShard> Shard::let_go(const absl::Status& flushed) {
  leaving_ = true;
  const absl::Status& log_failure = worker().log_failure;
  if (flushed.ok() && health().ok() && !has_apply_gap_ && !in_doubt_) {
    // If the log refuses the end, it keeps a shard that needs nothing of the log. Recovery finds that out.
    if (log_failure.ok() && log_.is_started()) ending_ = log_.end();
    return std::nullopt;
  }
  on_closed_ = nullptr;
  absl::Status why = flushed;
  why.Update(health());
  why.Update(log_failure);
  why.Update(absl::DataLossError("a write that was answered is not in the database"));
  return ClosingShard{db().id(), closing_since_ms_, absl::OkStatus(), std::move(why)};
}

absl::AnyInvocable<void()> Shard::leave() {
  worker().memory->drop_shard(context_.number);
  std::erase(worker().touched, this);  // the log may report a start that no write followed
  std::erase(worker().stalled, this);
  std::erase(worker().unsynced, this);
  log_.forget_unlogged();
  return std::move(on_closed_);
}

std::optional<ClosingShard> Shard::closing() const {
  if (!on_closed_) return std::nullopt;
  return ClosingShard{db().id(), closing_since_ms_, context_.held_up, absl::OkStatus()};
}

// --- Replication

void Shard::replicate() {
  entries_ = std::make_unique<EntryLog>(context_, log_, std::exchange(rows_, {}));
}

void Shard::lead(uint64_t entry_epoch) {
  SKUA_CHECK(at_.committed == at_.last, "a primary begins when all before it is in memory");
  leading_ = true;
  on_hold_ = false;
  entry_epoch_ = entry_epoch;
  attempts_.forget_refusals();
}

void Shard::follow() {
  if (!std::exchange(leading_, false)) return;
  // Committed writes stay in the queue until memory has room for them. The queue is cut before the first write that is
  // not committed.
  WriteList cut = queue_.cut([this](const WriteOp& op) { return may_leave_queue(op); });
  while (!cut.empty()) {
    WriteOp& op = cut.pop();
    op.drop_results();
    op.answer(KvStatus::kAborted,
              "the shard has another primary now; the write may yet be committed: try again with the same request id");
    finish(op);
  }
}

absl::Status Shard::append_entry(const ReplicaEntry& from) {
  if (!health().ok()) return health();
  if (!worker().log_failure.ok()) return worker().log_failure;
  if (absl::Status checked = entries_->check(from); !checked.ok()) return checked;
  Entry& entry = worker().entries.acquire(*this);
  entry.index = from.index;
  entry.epoch = from.epoch;
  entry.time_ms = bounded_entry_ms(from.time_ms);
  entry.durability = from.durability;
  entry.payload.append(as_string_view(from.payload));
  if (absl::Status submitted = entries_->submit(entry); !submitted.ok()) {
    worker().entries.release(entry);
    return submitted;
  }
  entries_->count(entry);
  at_.last = entry.index;
  context_.clock.saw(static_cast<uint64_t>(entry.time_ms), worker().steady_ms);
  return absl::OkStatus();
}

void Shard::truncate_entries(uint64_t index) {
  SKUA_CHECK(!leading_, "a primary's entries stay");
  entries_->truncate(index);
}

void Shard::commit_entries(uint64_t index) {
  if (entries_->is_committed(index)) return;
  entries_->commit(index);
  advance();
}

}  // namespace skua::kv
