#include "kvstore/storage/replica_tail.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/effect.h"

namespace skua::kv {

absl::Status ReplicaTail::load(std::span<const InternalRow> rows, uint64_t applied_index) {
  if (absl::Status loaded = rows_.load(rows); !loaded.ok()) return loaded;
  active_ = !rows_.runs.empty() || !rows_.tail.empty();
  applied_ = commit_index_ = applied_index;
  for (const auto& [index, entry] : rows_.tail) in_database_.insert(index);
  rows_.drop_old(applied_index);
  return absl::OkStatus();
}

absl::Status ReplicaTail::take(const RecordView& record, Visit visit) {
  const EffectReader reader(record.payload);
  const uint64_t index = record.header.index;
  if (!active_ && !reader.entry()) {
    visit(index, record.header.time, record.payload);
    return absl::OkStatus();
  }
  active_ = true;
  if (!reader.entry() || index <= applied_ || index > last_index() + 1) {
    return absl::DataLossError(absl::StrCat("record ", index, " does not follow entry ", last_index()));
  }
  rows_.tail.erase(rows_.tail.lower_bound(index), rows_.tail.end());
  const ByteSpan payload = record.payload.subspan(kEntryHeadBytes);
  rows_.tail[index] = {reader.entry()->epoch, record.header.time, record.header.durability,
                       std::string(as_string_view(payload))};
  commit_index_ = std::max(commit_index_, reader.entry()->commit_index);
  while (!rows_.tail.empty() && rows_.tail.begin()->first <= commit_index_) {
    applied_ = rows_.tail.begin()->first;
    const ReplicaRows::Tail& entry = committed_.emplace_back(std::move(rows_.tail.begin()->second));
    rows_.tail.erase(rows_.tail.begin());
    visit(applied_, entry.time_ms, as_byte_span(entry.payload));
  }
  return absl::OkStatus();
}

std::vector<AppliedEffect> ReplicaTail::rows() {
  std::vector<AppliedEffect> out;
  encoded_.clear();
  for (const uint64_t index : in_database_) {
    if (rows_.tail.contains(index)) continue;
    auto& [key, value] = encoded_.emplace_back(replica_tail_key(index), std::string());
    out.push_back({key, std::nullopt, applied_, 0});
  }
  for (const auto& [index, entry] : rows_.tail) {
    auto& [key, value] = encoded_.emplace_back(replica_tail_key(index), encode_tail_row(entry));
    out.push_back({key, as_byte_span(value), applied_, 0});
  }
  return out;
}

}  // namespace skua::kv
