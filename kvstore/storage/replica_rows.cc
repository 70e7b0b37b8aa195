#include "kvstore/storage/replica_rows.h"

#include <array>

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
  for (size_t i = 0; i < sizeof index; ++i) {
    key[kKeyBytesMax + 1 + i] = static_cast<char>(index >> (8 * (sizeof index - 1 - i)));
  }
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
    uint64_t index = 0;
    for (const char c : std::string_view(row.key).substr(kKeyBytesMax + 1))
      index = index << 8 | static_cast<uint8_t>(c);
    ByteReader reader(as_byte_span(row.value));
    Tail entry;
    entry.epoch = reader.read<uint64_t>();
    entry.time_ms = reader.read<int64_t>();
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
  std::array<std::byte, kTailHeadBytes> head;
  ByteWriter writer(head);
  writer.write(tail.epoch);
  writer.write(tail.time_ms);
  writer.write(uint64_t{durability_code(tail.durability)});
  std::string out(as_string_view(head));
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

}  // namespace skua::kv
