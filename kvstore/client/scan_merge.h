// ScanMerge: merges one scan per shard into one scan in key order. Pure: pages go in, rows come out.
//
//   shard 0   page [ b  f  k ] [ ...next page, asked for when k was taken ]
//   shard 1   page [ a  g ] end                                   heap of first keys
//   shard 2   page [ c  d  e ] [ ...                              ------------------>  a b c d e f g
//
// A row may be taken only while every shard that is not at its end has a first key. A shard whose page is used up stops
// the merge until its next page is there. Two shards never have the same key (a key has one shard), so the order is
// total.
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

/// Rows are views into the pages. The caller must keep the pages' bytes. Thread: one at a time.
class ScanMerge {
 public:
  /// Starts a new scan; keeps allocated memory. The scan ends after `limit` rows, or before the row with which keys and
  /// values would have more than `bytes_max` bytes, but not before the first row.
  void begin(uint32_t shard_count, uint32_t limit, size_t bytes_max);

  /// A shard whose next page is needed now. Each needed page is reported once. Nothing: no page is needed.
  std::optional<uint32_t> next_wanted();

  /// How many rows to ask a shard for: its share of the rows that are still missing, and a few more, because keys are
  /// spread over shards at random.
  [[nodiscard]] uint32_t page_rows() const;

  /// Where the shard's next page starts. Empty: at the start of the range. Valid until that page is added.
  [[nodiscard]] std::string_view resume_token(uint32_t shard) const { return cursors_[shard].token; }

  /// Adds the page that was asked for. INTERNAL if the page is malformed: has_more without rows, or keys that do not
  /// rise.
  absl::Status add_page(uint32_t shard, ScanRows rows, bool has_more, std::string_view token);

  /// The next row. Nothing: the scan is finished, or a page is missing.
  std::optional<ScanRow> next();

  /// next() will return no further row.
  [[nodiscard]] bool finished() const { return full_ || (missing_ == 0 && heap_.empty()); }
  /// Once finished: there may be further rows in the range.
  [[nodiscard]] bool has_more() const { return missing_ > 0 || !heap_.empty(); }

 private:
  struct Cursor {
    ScanRows rows;
    ScanRow first;
    bool has_more = true;
    std::string token;
    std::string last_key;
  };

  /// Moves the cursor to its page's next row, and puts it where it belongs: into heap_, into wanted_, or, at its end,
  /// nowhere.
  void settle(uint32_t shard);
  /// The order of heap_.
  [[nodiscard]] auto later() const {
    return [this](uint32_t a, uint32_t b) { return cursors_[a].first.key > cursors_[b].first.key; };
  }

  std::vector<Cursor> cursors_;
  std::vector<uint32_t> heap_;    // shards whose cursor has a first row, the smallest key on top
  std::vector<uint32_t> wanted_;  // shards whose next page is to be asked for
  uint32_t missing_ = 0;          // cursors without a first row that are not at their end
  uint32_t left_ = 0;
  size_t bytes_left_ = 0;
  bool any_taken_ = false;
  bool full_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_SCAN_MERGE_H_
