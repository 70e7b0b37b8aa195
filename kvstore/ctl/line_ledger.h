// Which lines of an import are stored, while many of them are under way and end in any order. Pure.
#ifndef SKUA_KVSTORE_CTL_LINE_LEDGER_H_
#define SKUA_KVSTORE_CTL_LINE_LEDGER_H_

#include <cstdint>
#include <deque>

#include "rpc/base/check.h"

namespace skua::kv::ctl {

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

#endif  // SKUA_KVSTORE_CTL_LINE_LEDGER_H_
