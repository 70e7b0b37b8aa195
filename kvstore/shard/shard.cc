// A shard's beginning and end, what comes back from readers and applier, and replication.
#include "kvstore/shard/shard.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::kv {

// --- Beginning

Shard::Shard(WorkerResources& worker, ShardDb& db, uint64_t epoch)
    : context_{worker, *this, db},
      attempts_(worker.options.completions),
      log_(context_, epoch),
      intake_(context_, queue_),
      reads_(context_),
      apply_(context_, attempts_),
      closing_(context_, log_) {
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

void Shard::fetched(KeyFetch& fetch) {
  const bool filled = fetch.status.ok() && reads_.fill(fetch.key, fetch.value, fetch.ticket);
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
  const bool can_keep = entries_ != nullptr && health().ok() && worker().log_failure.ok() && !context_.has_apply_gap;
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
  if (closing_.state() || (context_.held_up.ok() && context_.failure.ok())) return std::nullopt;
  return TroubledShard{db().id(), context_.held_up, context_.failure};
}

// --- End

void Shard::close(absl::AnyInvocable<void()> closed) {
  SKUA_CHECK(queue_.empty() && intake_.empty() && reads_.empty(), "close a shard when nothing of it is unfinished");
  closing_.begin(std::move(closed));
}

// --- Replication

void Shard::replicate() {
  entries_ = std::make_unique<EntryLog>(context_, log_, std::exchange(rows_, {}));
  context_.entries = entries_.get();
}

void Shard::lead(uint64_t entry_epoch) {
  SKUA_CHECK(at_.committed == at_.last, "a primary begins when all before it is in memory");
  entries_->lead(entry_epoch);
  attempts_.forget_refusals();
}

void Shard::follow() {
  if (!entries_->stop_leading()) return;
  // Committed writes stay in the queue until memory has room for them. The queue is cut before the first write that is
  // not committed.
  WriteList cut = queue_.cut([this](const WriteOp& op) { return may_leave_queue(op); });
  while (!cut.empty()) {
    WriteOp& op = cut.pop();
    op.answer(KvStatus::kAborted,
              "the shard has another primary now; the write may yet be committed: try again with the same request id");
    finish(op);
  }
}

void Shard::commit_entries(uint64_t index) {
  if (entries_->is_committed(index)) return;
  entries_->commit(index);
  advance();
}

}  // namespace skua::kv
