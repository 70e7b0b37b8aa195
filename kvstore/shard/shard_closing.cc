#include "kvstore/shard/shard_closing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kvstore/shard/entry_log.h"

namespace skua::kv {

void ShardClosing::begin(absl::AnyInvocable<void()> closed) {
  closed_ = std::move(closed);
  since_ms_ = std::max<uint64_t>(shard_.worker.now_ms, 1);
  if (shard_.entries != nullptr) shard_.entries->close();
  go_on();
}

void ShardClosing::go_on() {
  WorkerResources& worker = shard_.worker;
  if (shard_.entries != nullptr && !shard_.entries->rows().hand_on()) return worker.closing.push_back(this);
  worker.applier->close(shard_.applied);
}

std::optional<ClosingShard> ShardClosing::let_go(const absl::Status& flushed) {
  leaving_ = true;
  const absl::Status& log_failure = shard_.worker.log_failure;
  if (flushed.ok() && shard_.failure.ok() && !shard_.has_apply_gap && !shard_.in_doubt) {
    // If the log refuses the end, it keeps a shard that needs nothing of the log. Recovery finds that out.
    if (log_failure.ok() && log_.is_started()) ending_ = log_.end();
    return std::nullopt;
  }
  closed_ = nullptr;
  absl::Status why = flushed;
  why.Update(shard_.failure);
  why.Update(log_failure);
  why.Update(absl::DataLossError("a write that was answered is not in the database"));
  return ClosingShard{shard_.db.id(), since_ms_, absl::OkStatus(), std::move(why)};
}

absl::AnyInvocable<void()> ShardClosing::leave() {
  WorkerResources& worker = shard_.worker;
  worker.memory->drop_shard(shard_.number);
  // The log may report a start that no write followed.
  for (std::vector<Shard*>* list : {&worker.touched, &worker.stalled, &worker.unsynced}) {
    std::erase(*list, &shard_.shard);
  }
  log_.forget_unlogged();
  return std::move(closed_);
}

std::optional<ClosingShard> ShardClosing::state() const {
  if (!closed_) return std::nullopt;
  return ClosingShard{shard_.db.id(), since_ms_, shard_.held_up, absl::OkStatus()};
}

}  // namespace skua::kv
