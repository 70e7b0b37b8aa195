#include "kvstore/storage/completion_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/replica_rows.h"
#include "rpc/base/bytes.h"

namespace skua::kv {
namespace {

constexpr size_t kClientIdBytes = sizeof(uint64_t);

void write_key(uint64_t client_id, std::string& out) {
  out.assign(kKeyBytesMax + kClientIdBytes, '\0');
  store_be64(out.data() + kKeyBytesMax, client_id);
}

}  // namespace

std::string completion_key(uint64_t client_id) {
  std::string key;
  write_key(client_id, key);
  return key;
}

absl::Status load_completions(std::span<const InternalRow> rows, CompletionTable& table, uint64_t latest_ms,
                              CompletionTable::Changed changed) {
  const std::string life_key = completion_key(0);
  for (const InternalRow& row : rows) {
    if (is_replica_key(row.key) || row.key == life_key) continue;
    const bool sound = row.key.size() == kKeyBytesMax + kClientIdBytes &&
                       table.load(load_be64(row.key.data() + kKeyBytesMax), as_byte_span(row.value), row.version);
    if (!sound) return absl::DataLossError("a row of the shard's completion records is damaged");
  }
  table.loaded(latest_ms, changed);
  return absl::OkStatus();
}

absl::Status CompletionRows::load(std::span<const InternalRow> rows, uint64_t latest_ms) {
  return load_completions(rows, table_, latest_ms, [this](uint64_t client_id) { touched_.insert(client_id); });
}

void CompletionRows::record(const Completion& completion, uint64_t index, uint64_t time_ms) {
  table_.record(completion, index, time_ms, [this](uint64_t client_id) { touched_.insert(client_id); });
  touched_.insert(completion.id.client_id);
}

void CompletionRows::collect(uint64_t index, std::vector<AppliedEffect>& out) {
  size_t used = 0;
  const size_t begin = out.size();
  for (const uint64_t client_id : touched_) {
    if (used == rows_.size()) rows_.emplace_back();
    Row& row = rows_[used++];
    write_key(client_id, row.key);
    const std::optional<uint64_t> version = table_.encode_row(client_id, row.value);
    AppliedEffect& effect = out.emplace_back();
    effect.key = row.key;
    if (version) effect.value = as_byte_span(row.value);
    effect.version = version && *version != 0 ? *version : index;
  }
  // The order of the set differs from run to run, but a simulated run must be repeatable.
  std::ranges::sort(std::span(out).subspan(begin), {}, &AppliedEffect::key);
}

}  // namespace skua::kv
