#include "kvstore/client/scan_merge.h"

#include <algorithm>
#include <cmath>

#include "kvstore/codec/size_limits.h"

namespace skua::kv {

void ScanMerge::begin(uint32_t shard_count, uint32_t limit, size_t bytes_max) {
  cursors_.resize(shard_count);
  for (Cursor& cursor : cursors_) {
    cursor.rows = ScanRows();
    cursor.has_more = true;
    cursor.token.clear();
    cursor.last_key.clear();
  }
  heap_.clear();
  wanted_.clear();
  for (uint32_t shard = shard_count; shard-- > 0;) wanted_.push_back(shard);
  missing_ = shard_count;
  left_ = limit;
  bytes_left_ = bytes_max;
  any_taken_ = false;
  full_ = limit == 0;
}

std::optional<uint32_t> ScanMerge::next_wanted() {
  if (full_ || wanted_.empty()) return std::nullopt;
  const uint32_t shard = wanted_.back();
  wanted_.pop_back();
  return shard;
}

uint32_t ScanMerge::page_rows() const {
  // If left_ keys are spread over n shards at random, a shard gets about left_/n of them, with a standard deviation of
  // about the square root of that.
  const double share = static_cast<double>(left_) / static_cast<double>(cursors_.size());
  const double rows = std::ceil(share + 2 * std::sqrt(share)) + 1;
  const double most = std::min<double>(left_, kScanRowsMax);
  return static_cast<uint32_t>(std::clamp(rows, 1.0, std::max(most, 1.0)));
}

absl::Status ScanMerge::add_page(uint32_t shard, ScanRows rows, bool has_more, std::string_view token) {
  Cursor& cursor = cursors_[shard];
  if (has_more && rows.size() == 0) {
    return absl::InternalError("a scan page without rows says that there are more");
  }
  std::string_view previous = cursor.last_key;
  bool comes_after_something = !cursor.token.empty();
  for (ScanRows walk = rows; auto row = walk.next();) {
    if (comes_after_something && row->key <= previous) {
      return absl::InternalError("a scan page's keys do not rise");
    }
    previous = row->key;
    comes_after_something = true;
  }
  cursor.last_key.assign(previous);
  cursor.rows = rows;
  cursor.has_more = has_more;
  cursor.token.assign(token);
  --missing_;
  settle(shard);
  return absl::OkStatus();
}

void ScanMerge::settle(uint32_t shard) {
  Cursor& cursor = cursors_[shard];
  if (const std::optional<ScanRow> row = cursor.rows.next(); row.has_value()) {
    cursor.first = *row;
    heap_.push_back(shard);
    std::ranges::push_heap(heap_, later());
  } else if (cursor.has_more) {
    ++missing_;
    wanted_.push_back(shard);
  }
}

std::optional<ScanRow> ScanMerge::next() {
  if (full_ || missing_ > 0 || heap_.empty()) return std::nullopt;
  const uint32_t shard = heap_.front();
  const ScanRow row = cursors_[shard].first;
  const size_t bytes = row.key.size() + row.value.size();
  if (any_taken_ && bytes > bytes_left_) {
    full_ = true;
    return std::nullopt;
  }
  std::ranges::pop_heap(heap_, later());
  heap_.pop_back();
  any_taken_ = true;
  bytes_left_ -= std::min(bytes, bytes_left_);
  if (--left_ == 0) full_ = true;
  settle(shard);
  return row;
}

}  // namespace skua::kv
