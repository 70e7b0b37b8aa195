#include "tests/kvstore/replication/model_storage.h"

#include <algorithm>
#include <utility>

namespace skua::kv::sim {

ModelStorage::ModelStorage(SimKernel& kernel, DiskModel& disk, size_t keys)
    : kernel_(kernel), disk_(disk), keys_(keys), flushed_(keys) {}

// --- A process starts and ends

ShardStorage::Found ModelStorage::recover(Sink* sink) {
  sink_ = sink;
  live_.clear();
  for (const LogEntry& entry : disk_log_) live_.push_back({entry, 0});
  Found found;
  found.restart.view = view_;
  found.restart.log = EpochHistory(base_);
  for (const LogEntry& entry : disk_log_) found.restart.log.append(entry.epoch);
  found.restart.commit_index = std::max(flushed_.applied(), std::min(commit_hint_, last_index()));
  found.state = flushed_;
  return found;
}

void ModelStorage::end_process(bool power_cut) {
  sink_ = nullptr;
  const uint64_t least = power_cut ? durable_ops_ : written_ops_;
  const uint64_t most = power_cut ? written_ops_ : submitted_ops_;
  const uint64_t left = kernel_.rng.between(least, most);
  if (left < submitted_ops_) kernel_.hit(Probe::kTornTail);
  apply_to_disk(left);
  ops_.clear();
  submitted_ops_ = written_ops_ = durable_ops_ = 0;
  writing_ = syncing_ = flushing_ = false;
  ++generation_;
  if (view_under_way_ && kernel_.rng.chance(0.5)) view_ = *view_under_way_;
  view_under_way_.reset();
  live_.clear();
  for (const LogEntry& entry : disk_log_) live_.push_back({entry, 0});
}

void ModelStorage::wipe() {
  base_ = {};
  live_.clear();
  disk_log_.clear();
  view_ = {};
  commit_hint_ = 0;
  flushed_ = ShardState(keys_);
}

// --- The log

bool ModelStorage::append(const LogEntry& entry) {
  if (disk_.full) return false;
  live_.push_back({entry, submitted_ops_ + 1});
  submit({false, last_index(), entry, kernel_.now()});
  return true;
}

void ModelStorage::truncate_after(uint64_t index) {
  while (last_index() > index && !live_.empty()) live_.pop_back();
  submit({true, index, {}, kernel_.now()});
}

void ModelStorage::trim(uint64_t index) {
  index = std::min({index, flushed_.applied(), base_.index + disk_log_.size(), level_of(durable_ops_)});
  while (base_.index < index) {
    base_ = {base_.index + 1, live_.front().entry.epoch};
    live_.pop_front();
    disk_log_.pop_front();
  }
}

void ModelStorage::submit(Op op) {
  ops_.push_back(std::move(op));
  ++submitted_ops_;
  write();
}

void ModelStorage::write() {
  if (writing_ || written_ops_ == submitted_ops_) return;
  writing_ = true;
  later(disk_.write_ns, [this, target = submitted_ops_] {
    writing_ = false;
    written_ops_ = target;
    write();
    sync();
    sink_->log_moved();
  });
}

void ModelStorage::sync() {
  if (syncing_ || durable_ops_ == written_ops_) return;
  syncing_ = true;
  later(disk_.sync_ns, [this, target = written_ops_] {
    syncing_ = false;
    apply_to_disk(target);
    sync();
    sink_->log_moved();
  });
}

void ModelStorage::later(DurationNs after, absl::AnyInvocable<void()> then) {
  const DurationNs delay = after + kernel_.between(0, disk_.jitter_ns);
  const TimeNs at = std::max(kernel_.now(), disk_.stalled_until) + delay;
  kernel_.queue.at(std::max(at, disk_.paused_until),
                   [this, life = disk_.life, generation = generation_, then = std::move(then)]() mutable {
                     if (life != disk_.life || generation != generation_) return;
                     if (disk_.hangs || kernel_.now() < std::max(disk_.stalled_until, disk_.paused_until))
                       return later(50 * kMillisecond, std::move(then));
                     then();
                   });
}

void ModelStorage::apply_to_disk(uint64_t up_to) {
  while (durable_ops_ < up_to) {
    const Op& op = ops_.front();
    if (op.truncate) {
      while (base_.index + disk_log_.size() > op.index && !disk_log_.empty()) disk_log_.pop_back();
    } else {
      disk_log_.push_back(op.entry);
      if (base_.index + disk_log_.size() != op.index) kernel_.break_promise("a log with a hole");
    }
    ops_.pop_front();
    ++durable_ops_;
  }
}

uint64_t ModelStorage::level_of(uint64_t ops) const {
  const auto behind = std::partition_point(live_.begin(), live_.end(), [ops](const Live& at) { return at.op <= ops; });
  return base_.index + static_cast<uint64_t>(behind - live_.begin());
}

LogLevels ModelStorage::levels() const {
  return {last_index(), level_of(std::max(written_ops_, durable_ops_)), level_of(durable_ops_)};
}

TimeNs ModelStorage::waiting_since() const {
  return ops_.empty() ? kTimeNever : ops_.front().since;
}

bool ModelStorage::holds(EntryId entry, Durability level) const {
  if (entry.index <= base_.index) return true;
  const uint64_t at = entry.index - base_.index - 1;
  if (level == Durability::kSync) return at < disk_log_.size() && disk_log_[at].epoch == entry.epoch;
  if (at >= live_.size() || live_[at].entry.epoch != entry.epoch) return false;
  return level == Durability::kMemory || live_[at].op <= std::max(written_ops_, durable_ops_);
}

// --- Views, hints, states

void ModelStorage::persist_view(const View& view) {
  view_under_way_ = view;
  later(disk_.sync_ns, [this, view] {
    if (view.newer_than(view_)) view_ = view;
    if (view_under_way_ && view_under_way_->epoch <= view.epoch) view_under_way_.reset();
    sink_->view_durable(view.epoch);
  });
}

void ModelStorage::hint_commit_index(uint64_t index) {
  if (kernel_.rng.chance(0.1)) commit_hint_ = std::max(commit_hint_, index);
}

void ModelStorage::flush(const ShardState& state) {
  if (flushing_ || state.applied() <= flushed_.applied() || state.applied() > level_of(durable_ops_)) return;
  flushing_ = true;
  later(disk_.sync_ns, [this, state] {
    flushing_ = false;
    if (state.applied() > flushed_.applied()) flushed_ = state;
  });
}

void ModelStorage::install(const ShardState& state, EntryId base, bool keep_log) {
  if (keep_log) {
    while (base_.index < base.index) {
      base_ = {base_.index + 1, live_.front().entry.epoch};
      live_.pop_front();
    }
  } else {
    live_.clear();
    base_ = base;
  }
  disk_log_.clear();
  for (Live& live : live_) {
    disk_log_.push_back(live.entry);
    live.op = 0;
  }
  ops_.clear();
  submitted_ops_ = written_ops_ = durable_ops_ = 0;
  writing_ = syncing_ = flushing_ = false;
  flushed_ = state;
  ++generation_;
  if (view_under_way_) persist_view(View(*view_under_way_));
}

}  // namespace skua::kv::sim
