// One ordered scan out of one scan per shard. Pure: pages go in, rows come out.
//
//   shard 0   page [ b  f  k ] [ ...next page, asked for when k was taken ]
//   shard 1   page [ a  g ] end                                   heap of first keys
//   shard 2   page [ c  d  e ] [ ...                              ------------------>  a b c d e f g
//
// A row may be taken only while every shard that is not at its end has a first key: a shard whose
// page ran out stops the merge until its next page is there. Keys of different shards differ (a key
// has one shard), so the order is total.
#ifndef SKUA_KVSTORE_CLIENT_SCAN_MERGE_H_
#define SKUA_KVSTORE_CLIENT_SCAN_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/codec/reply.h"

namespace skua::kv {

/// Thread: one at a time. Rows are views into the pages, which the caller keeps.
class ScanMerge {
 public:
  /// Starts over, keeping capacity. The scan ends after `limit` rows, or before the row that would
  /// take keys and values beyond `bytes_max` (never before the first).
  void begin(uint32_t shard_count, uint32_t limit, size_t bytes_max);

  /// A shard whose next page is needed now; each need is reported once.
  std::optional<uint32_t> next_wanted();

  /// Rows to ask a shard for: its share of what is missing, and a little more because shares are
  /// random.
  [[nodiscard]] uint32_t page_rows() const;

  /// Where the shard's next page starts; empty: at the range's start. Valid until its page is added.
  [[nodiscard]] std::string_view resume_token(uint32_t shard) const { return cursors_[shard].token; }

  /// The page that was asked for. INTERNAL if it cannot be: has_more without rows, or keys that do
  /// not rise.
  absl::Status add_page(uint32_t shard, ScanRows rows, bool has_more, std::string_view token);

  /// The next row, or nothing: finished, or a page is missing.
  std::optional<ScanRow> next();

  /// No further row will come out.
  [[nodiscard]] bool finished() const { return full_ || (missing_ == 0 && heap_.empty()); }
  /// Once finished: there may be rows beyond the limit.
  [[nodiscard]] bool has_more() const { return missing_ > 0 || !heap_.empty(); }

 private:
  struct Cursor {
    ScanRows rows;
    ScanRow first;
    bool has_more = true;
    std::string token;
    std::string last_key;
  };

  /// Makes the cursor's next row its first; false at the end of the page.
  bool advance(uint32_t shard);
  void settle(uint32_t shard);

  std::vector<Cursor> cursors_;
  std::vector<uint32_t> heap_;    // cursors with a first row, smallest key on top
  std::vector<uint32_t> wanted_;  // cursors whose page is to be asked for
  uint32_t missing_ = 0;          // cursors without a first row that are not at their end
  uint32_t left_ = 0;
  size_t bytes_left_ = 0;
  bool any_taken_ = false;
  bool full_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_SCAN_MERGE_H_
