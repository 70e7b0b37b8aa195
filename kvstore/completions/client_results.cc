#include "kvstore/completions/client_results.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <ranges>
#include <utility>

#include "kvstore/codec/effect.h"

namespace skua::kv {
namespace {

constexpr size_t kRowResultBytes = 32;
/// At least this many places in front of the results may be empty before the results are moved forward.
constexpr size_t kEmptyPlacesMin = 4;
/// There may be this many places at least, if the results are few.
constexpr size_t kPlacesMin = 16;

}  // namespace

void ClientResults::count_in(const CompletionResult& result) {
  for (CompletionCounts* counts : {&counts_, &all_}) {
    ++counts->results;
    (result.has_effect ? counts->bytes : counts->refused_bytes) += result.bytes();
  }
}

void ClientResults::count_out(std::span<const CompletionResult> results) {
  for (const CompletionResult& result : results) {
    for (CompletionCounts* counts : {&counts_, &all_}) {
      --counts->results;
      (result.has_effect ? counts->bytes : counts->refused_bytes) -= result.bytes();
    }
  }
}

const CompletionResult* ClientResults::find(uint64_t seq) const {
  const auto at = std::ranges::lower_bound(kept(), seq, {}, &CompletionResult::seq);
  return at == kept().end() || at->seq != seq ? nullptr : &*at;
}

uint64_t ClientResults::last_seq(bool has_effect) const {
  return std::ranges::find(kept() | std::views::reverse, has_effect, &CompletionResult::has_effect)->seq;
}

void ClientResults::keep(CompletionResult result) {
  // Most results are newer than all others.
  size_t at = results_.size();
  while (at > begin_ && results_[at - 1].seq > result.seq) --at;
  CompletionResult* const same = at > begin_ && results_[at - 1].seq == result.seq ? &results_[at - 1] : nullptr;
  if (same != nullptr && (same->has_effect || !result.has_effect)) return;
  count_in(result);
  if (same == nullptr) {
    results_.insert(results_.begin() + static_cast<std::ptrdiff_t>(at), std::move(result));
  } else {
    count_out({same, 1});
    *same = std::move(result);
  }
}

void ClientResults::drop_below(uint64_t seq) {
  while (size() > 0 && first_seq() < seq) {
    count_out(kept().first(1));
    std::string().swap(results_[begin_].batch_results);
    ++begin_;
  }
  if (begin_ >= std::max(kEmptyPlacesMin, size())) {
    results_.erase(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
  shrink();
}

void ClientResults::drop_refused() {
  const auto first = results_.begin() + static_cast<std::ptrdiff_t>(begin_);
  const auto refused = std::stable_partition(first, results_.end(), std::mem_fn(&CompletionResult::has_effect));
  count_out({refused, results_.end()});
  results_.erase(refused, results_.end());
  shrink();
}

/// Gives back memory that the results do not need any more. Without this, a client could leave the room of
/// kIncompleteMax results behind, of which none counts.
void ClientResults::shrink() {
  if (results_.capacity() <= std::max(kPlacesMin, 4 * size())) return;
  std::vector<CompletionResult> fewer;
  fewer.reserve(std::max(kPlacesMin / 2, 2 * size()));
  const auto first = results_.begin() + static_cast<std::ptrdiff_t>(begin_);
  fewer.insert(fewer.end(), std::move_iterator(first), std::move_iterator(results_.end()));
  results_ = std::move(fewer);
  begin_ = 0;
}

void ClientResults::encode(std::string& row) const {
  std::array<std::byte, kRowResultBytes> buffer;
  ByteWriter head(buffer);
  head.write(static_cast<uint32_t>(std::ranges::count(kept(), true, &CompletionResult::has_effect)));
  head.write(uint32_t{0});
  row.append(as_string_view(head.written()));
  for (const CompletionResult& result : kept()) {
    if (!result.has_effect) continue;
    ByteWriter fixed(buffer);
    fixed.write(result.seq);
    fixed.write(result.version);
    fixed.write(result.value);
    fixed.write(uint64_t{result.batch_results.size() / kBatchResultBytes});
    row.append(as_string_view(fixed.written()));
    row.append(result.batch_results);
  }
}

bool ClientResults::load(ByteReader& row, uint64_t seq_min, uint64_t seq_max) {
  const auto count = row.read<uint32_t>();
  if (row.read<uint32_t>() != 0) return false;
  for (uint32_t i = 0; i < count && row.ok(); ++i) {
    CompletionResult result;
    result.seq = row.read<uint64_t>();
    result.version = row.read<uint64_t>();
    result.value = row.read<int64_t>();
    const auto batch_results = row.read<uint64_t>();
    const bool in_order = results_.empty() || results_.back().seq < result.seq;
    if (!in_order || result.seq < seq_min || result.seq > seq_max || batch_results > kBatchOpsMax) return false;
    result.batch_results = as_string_view(row.read_bytes(batch_results * kBatchResultBytes));
    count_in(result);
    results_.push_back(std::move(result));
  }
  return row.complete();
}

}  // namespace skua::kv
