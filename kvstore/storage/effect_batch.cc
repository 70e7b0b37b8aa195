#include "kvstore/storage/effect_batch.h"

#include <algorithm>

#include "kvstore/codec/effect.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/storage/sort_effects.h"

namespace skua::kv {
namespace {

/// From this many effects on a table file is made. It costs about half of a batch and its flush, but is not worth it
/// for few effects.
constexpr size_t kIngestMin = 4096;

}  // namespace

bool EffectBatch::take(uint64_t index, int64_t time_ms, ByteSpan payload) {
  EffectReader reader(payload);
  while (const auto effect = reader.next()) {
    effects_.push_back({.key = effect->key,
                        .value = effect->value,
                        .version = index,
                        .expires_at = effect->expires_at,
                        .mark = effect->mark});
  }
  if (!reader.complete()) return false;
  if (reader.completion())
    completions_.record(*reader.completion(), index, static_cast<uint64_t>(std::max<int64_t>(time_ms, 0)));
  if (reader.barrier()) runs_.emplace(as_string_view(*reader.barrier()));
  return true;
}

absl::Status EffectBatch::apply(ShardDb& db, uint64_t index) {
  const std::string runs_key = runs_ ? replica_runs_key() : std::string();
  if (runs_) effects_.push_back({.key = runs_key, .value = as_byte_span(*runs_), .version = index, .expires_at = 0});
  completions_.collect(index, effects_);
  if (effects_.empty()) return absl::OkStatus();
  sort_last_of_key(effects_, sorted_);
  const bool many = sorted_.size() >= kIngestMin;
  absl::Status status = many ? db.ingest(sorted_, index) : db.apply(sorted_, index);
  effects_.clear();
  runs_.reset();
  completions_.written();
  return status;
}

}  // namespace skua::kv
