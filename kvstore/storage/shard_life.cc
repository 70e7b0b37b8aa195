#include "kvstore/storage/shard_life.h"

#include <algorithm>
#include <utility>

#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/bytes.h"

namespace skua::kv {
namespace {

constexpr size_t kGapBytes = 16;

bool decode(ByteSpan row, ShardLife& life) {
  ByteReader reader(row);
  const auto closed = reader.read<uint64_t>();
  life.is_known = true;
  life.closed = closed == 1;
  while (reader.remaining() >= kGapBytes) {
    IndexGap gap;
    reader.read_into(gap.after, gap.before);
    if (gap.before <= gap.after || (!life.gaps.empty() && gap.after < life.gaps.back().before)) return false;
    life.gaps.push_back(gap);
  }
  return reader.complete() && closed <= 1;
}

}  // namespace

bool ShardLife::is_lost(uint64_t index) const {
  const auto gap = std::ranges::upper_bound(gaps, index, {}, &IndexGap::before);  // the first one that ends above it
  return gap != gaps.end() && gap->after < index;
}

void ShardLife::pass_over(const IndexGap& gap) {
  gaps.push_back(gap);
  if (gaps.size() <= kIndexGapsMax) return;
  gaps[1].after = gaps[0].after;
  gaps.erase(gaps.begin());
}

std::string life_key() {
  return completion_key(0);
}

std::string encode_life(const ShardLife& life) {
  std::string bytes;
  append_le(bytes, uint64_t{life.closed ? 1U : 0U});
  for (const IndexGap& gap : life.gaps) append_le(bytes, gap.after, gap.before);
  return bytes;
}

absl::StatusOr<ShardLife> read_life(std::span<const InternalRow> rows) {
  ShardLife life;
  const auto row = std::ranges::find(rows, life_key(), &InternalRow::key);
  if (row != rows.end() && !decode(as_byte_span(row->value), life)) {
    return absl::DataLossError("the shard's row about its lives is damaged");
  }
  return life;
}

absl::Status begin_life(ShardDb& db) {
  std::vector<InternalRow> rows = db.take_internal_rows();
  if (std::ranges::any_of(rows, [](const InternalRow& row) { return is_replica_key(row.key); })) {
    db.give_back_internal_rows(std::move(rows));
    return absl::OkStatus();
  }
  auto life = read_life(rows);
  if (!life.ok()) return life.status();
  uint64_t index = db.applied_index();
  if (!life->closed && !mutant(Mutant::kReissueIndices)) {
    life->pass_over({index, index + kIndexStep});
    index += kIndexStep;
  }
  life->closed = false;
  InternalRow row{life_key(), encode_life(*life)};
  const AppliedEffect effect{.key = row.key, .value = as_byte_span(row.value), .version = index};
  if (absl::Status applied = db.apply({&effect, 1}, index); !applied.ok()) return applied;
  if (absl::Status flushed = db.flush().status(); !flushed.ok()) return flushed;
  std::erase_if(rows, [&](const InternalRow& old) { return old.key == row.key; });
  rows.push_back(std::move(row));
  db.give_back_internal_rows(std::move(rows));
  return absl::OkStatus();
}

}  // namespace skua::kv
