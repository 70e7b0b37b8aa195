// Cuts bytes that come in blocks into lines, with a limit of a line's length; and keeps which lines of an import are
// stored, while many of them are under way and end in any order. Pure.
#ifndef SKUA_KVSTORE_CTL_LINE_SPLITTER_H_
#define SKUA_KVSTORE_CTL_LINE_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/base/check.h"

namespace skua::kv::ctl {

/// Holds a line of `line_bytes_max` and a block at most, if lines are taken before the next block is added.
class LineSplitter {
 public:
  explicit LineSplitter(size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {}

  void add(std::string_view block);
  /// There are no more blocks. What is left is a line, unless it is empty.
  void end() { ended_ = true; }

  /// The next line, without its line break; valid until the next call of add(). Nothing: there is no whole line, or
  /// the next one is too long.
  std::optional<std::string_view> next();

  /// The next line has more bytes than a line may have. It stays so.
  [[nodiscard]] bool is_too_long() const { return too_long_; }
  [[nodiscard]] bool is_ended() const { return ended_; }

 private:
  const size_t line_bytes_max_;
  std::string bytes_;
  size_t begin_ = 0;     // of the next line
  size_t searched_ = 0;  // from begin_ to here there is no line break
  bool ended_ = false;
  bool too_long_ = false;
};

/// Lines are numbered from 1. Holds a bit for each line from the first that is not stored on.
class LineLedger {
 public:
  /// The first `skipped` lines were stored before.
  explicit LineLedger(uint64_t skipped) : stored_(skipped) {}

  /// The next line is under way; returns its number.
  uint64_t begin() {
    later_.push_back(false);
    return stored_ + later_.size();
  }
  /// The line of this number, which is under way, is stored. A line that failed stays under way.
  void end(uint64_t line) {
    SKUA_CHECK(line > stored_ && line - stored_ <= later_.size(), "a line is stored that was not under way");
    later_[line - stored_ - 1] = true;
    for (; !later_.empty() && later_.front(); later_.pop_front()) ++stored_;
  }

  /// So many lines from the beginning are stored, all of them.
  [[nodiscard]] uint64_t stored() const { return stored_; }

 private:
  uint64_t stored_;
  std::deque<bool> later_;  // is stored; of the lines behind stored_
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_LINE_SPLITTER_H_
