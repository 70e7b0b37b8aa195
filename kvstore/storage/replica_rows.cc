#include "kvstore/storage/replica_rows.h"

#include "kvstore/codec/effect.h"
#include "kvstore/codec/size_limits.h"
#include "rpc/base/bytes.h"

namespace skua::kv {
namespace {

constexpr char kRuns = 'R';
constexpr char kTail = 'T';
constexpr size_t kRunsKeyBytes = kKeyBytesMax + 1;
constexpr size_t kTailKeyBytes = kKeyBytesMax + 1 + sizeof(uint64_t);
constexpr size_t kTailHeadBytes = 24;

}  // namespace

std::string replica_runs_key() {
  std::string key(kRunsKeyBytes, '\0');
  key.back() = kRuns;
  return key;
}

std::string replica_tail_key(uint64_t index) {
  std::string key(kTailKeyBytes, '\0');
  key[kKeyBytesMax] = kTail;
  store_be64(key.data() + kKeyBytesMax + 1, index);
  return key;
}

bool is_replica_key(std::string_view key) {
  return (key.size() == kRunsKeyBytes && key.back() == kRuns) ||
         (key.size() == kTailKeyBytes && key[kKeyBytesMax] == kTail);
}

absl::Status ReplicaRows::load(std::span<const InternalRow> rows) {
  for (const InternalRow& row : rows) {
    if (!is_replica_key(row.key)) continue;
    if (row.key.size() == kRunsKeyBytes) {
      runs = row.value;
      continue;
    }
    const uint64_t index = load_be64(row.key.data() + kKeyBytesMax + 1);
    ByteReader reader(as_byte_span(row.value));
    Tail entry;
    reader.read_into(entry.epoch, entry.time_ms);
    const auto durability = durability_of_code(reader.read<uint64_t>());
    entry.durability = durability.value_or(Durability::kSync);
    entry.payload.assign(as_string_view(reader.read_rest()));
    if (!reader.ok() || !durability || index == 0) {
      return absl::DataLossError("a row of the shard's entries that are not committed is damaged");
    }
    tail[index] = std::move(entry);
  }
  return absl::OkStatus();
}

std::string encode_tail_row(const ReplicaRows::Tail& tail) {
  std::string out;
  out.reserve(kTailHeadBytes + tail.payload.size());
  append_le(out, tail.epoch, tail.time_ms, uint64_t{durability_code(tail.durability)});
  out.append(tail.payload);
  return out;
}

std::vector<uint64_t> ReplicaRows::drop_old(uint64_t applied_index) {
  std::vector<uint64_t> old;
  uint64_t next = applied_index + 1;
  uint64_t epoch = 0;
  std::erase_if(tail, [&](const auto& entry) {
    const bool follows = entry.first == next && entry.second.epoch >= epoch;
    if (!follows) old.push_back(entry.first);
    if (!follows) return true;
    ++next;
    epoch = entry.second.epoch;
    return false;
  });
  return old;
}

absl::Status check_barrier(EntryId id, ByteSpan payload) {
  const auto runs = read_barrier(payload);
  if (!runs || are_runs_of_barrier(*runs, id)) return absl::OkStatus();
  return absl::InvalidArgumentError("a barrier tells of another log than the one that it is in");
}

}  // namespace skua::kv
