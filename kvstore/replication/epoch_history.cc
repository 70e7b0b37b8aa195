#include "kvstore/replication/epoch_history.h"

#include <algorithm>

#include "rpc/base/check.h"

namespace skua::kv {

std::optional<EpochHistory> EpochHistory::from_parts(EntryId base, std::span<const EntryId> runs, uint64_t last) {
  EpochHistory made(base);
  uint64_t before = base.index;
  for (const EntryId& run : runs) {
    if (run.index <= before || run.index > last) return std::nullopt;
    before = run.index;
  }
  if (last < base.index || last > kIndexMax) return std::nullopt;
  made.runs_.assign(runs.begin(), runs.end());
  made.last_ = last;
  return made;
}

size_t EpochHistory::runs_up_to(uint64_t index) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](uint64_t at, const EntryId& run) { return at < run.index; });
  return static_cast<size_t>(after - runs_.begin());
}

std::optional<uint64_t> EpochHistory::epoch_of(uint64_t index) const {
  if (index < base_.index || index > last_) return std::nullopt;
  const size_t runs = runs_up_to(index);
  return runs == 0 ? base_.epoch : runs_[runs - 1].epoch;
}

void EpochHistory::append(uint64_t epoch) {
  ++last_;
  if (last().epoch != epoch) runs_.push_back({last_, epoch});
}

void EpochHistory::truncate(uint64_t index) {
  SKUA_CHECK(index >= base_.index, "what is committed is never truncated");
  last_ = std::min(last_, index);
  while (!runs_.empty() && runs_.back().index > last_) runs_.pop_back();
}

void EpochHistory::compact(uint64_t index) {
  index = std::min(index, last_);
  if (index <= base_.index) return;
  base_ = {index, *epoch_of(index)};
  runs_.erase(runs_.begin(), runs_.begin() + static_cast<ptrdiff_t>(runs_up_to(index)));
}

void EpochHistory::compact_to(size_t runs_max, uint64_t limit) {
  if (runs_.size() <= runs_max) return;
  compact(std::min(limit, runs_[runs_.size() - runs_max - 1].index));
}

std::optional<EntryId> EpochHistory::last_common(const EpochHistory& other) const {
  // Between two neighbouring borders of runs of either log both epochs are constant, so only the upper ends are
  // compared.
  uint64_t at = std::min(last_, other.last_);
  const uint64_t lowest = std::max(base_.index, other.base_.index);
  const auto begin_of_run = [](const EpochHistory& log, uint64_t index) {
    const size_t runs = log.runs_up_to(index);
    return runs == 0 ? log.base_.index : log.runs_[runs - 1].index;
  };
  while (at >= lowest) {
    const uint64_t epoch = *epoch_of(at);
    if (epoch == *other.epoch_of(at)) return EntryId{at, epoch};
    const uint64_t border = std::max(begin_of_run(*this, at), begin_of_run(other, at));
    if (border <= lowest) return std::nullopt;
    at = border - 1;
  }
  return std::nullopt;
}

std::string encode_epoch_history(const EpochHistory& runs) {
  std::string out((4 + 2 * runs.runs().size()) * sizeof(uint64_t), '\0');
  ByteWriter writer(std::as_writable_bytes(std::span(out)));
  write_fields(writer, runs.base(), runs.last_index(), uint64_t{runs.runs().size()});
  for (const EntryId& run : runs.runs()) write_fields(writer, run);
  return out;
}

std::optional<EpochHistory> decode_epoch_history(ByteSpan bytes) {
  ByteReader reader(bytes);
  EntryId base;
  uint64_t last = 0;
  uint64_t count = 0;
  read_fields(reader, base, last, count);
  if (!reader.ok() || count > EpochHistory::kRunsStoredMax) return std::nullopt;
  if (reader.remaining() != count * 2 * sizeof(uint64_t)) return std::nullopt;
  std::vector<EntryId> runs(count);
  for (EntryId& run : runs) read_fields(reader, run);
  return EpochHistory::from_parts(base, runs, last);
}

bool are_runs_of_barrier(ByteSpan bytes, EntryId id) {
  const auto runs = decode_epoch_history(bytes);
  if (!runs || runs->last_index() != id.index || runs->base().index >= id.index) return false;
  if (id.epoch != 0 && runs->last().epoch != id.epoch) return false;
  const std::span<const EntryId> all = runs->runs();
  return std::ranges::is_sorted(all, {}, &EntryId::epoch) && (all.empty() || all.front().epoch >= runs->base().epoch);
}

}  // namespace skua::kv
