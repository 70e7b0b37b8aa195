// What an association remembers of its bundles, so that a lost bundle costs a few round trips instead of a time-out.
//
//   SentBundles     sender: which calls and answers the last bundles carried. Records of a lost bundle are written
//                   again if they are still needed. They keep their numbers, so nothing runs twice.
//   MissingBundles  receiver: gaps in the sequence. A late bundle closes its gap. A gap that is older than the reorder
//                   window is reported to the sender, once. If the report is lost as well, the calls wait for their own
//                   time-outs.
//
//   sequence   10 11 12 .. 14        13 did not come: it is reported when 14, or a later one, came a reorder window ago
#ifndef SKUA_RPC_PROTOCOL_BUNDLE_HISTORY_H_
#define SKUA_RPC_PROTOCOL_BUNDLE_HISTORY_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {

/// Pure.
class SentBundles {
 public:
  static constexpr uint32_t kBundles = 64;
  static constexpr uint32_t kRecords = 512;

  /// A record was written into the bundle that will have this sequence number. `session`: our index of the session.
  void add(uint32_t session, uint32_t number, bool is_answer) {
    records_[next_++ % kRecords] = {session | (is_answer ? kAnswer : 0), number};
  }
  /// The bundle is complete and has this sequence number.
  void seal(uint32_t sequence) {
    bundles_[sequence % kBundles] = {sequence, begin_, next_};
    begin_ = next_;
  }
  /// Calls f(session, number, is_answer) for each record of the bundle that is still remembered. Only the first call
  /// for a bundle does so.
  template <typename F>
  void take(uint32_t sequence, F&& f) {
    Bundle& bundle = bundles_[sequence % kBundles];
    if (bundle.sequence != sequence) return;
    const Bundle taken = bundle;
    bundle.end = bundle.begin;
    // Records that f() writes overwrite the oldest ones, which may be this bundle's.
    for (uint32_t at = taken.begin; at != taken.end && next_ - at <= kRecords; ++at) {
      const Record record = records_[at % kRecords];
      f(record.session & ~kAnswer, record.number, (record.session & kAnswer) != 0);
    }
  }

 private:
  static constexpr uint32_t kAnswer = 1u << 31;
  struct Record {
    uint32_t session;
    uint32_t number;
  };
  struct Bundle {
    uint32_t sequence = UINT32_MAX;
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  uint32_t next_ = 0;
  uint32_t begin_ = 0;  // first record of the bundle that is being written
  std::array<Record, kRecords> records_;
  std::array<Bundle, kBundles> bundles_;
};

/// Pure.
class MissingBundles {
 public:
  /// Further gaps, and gaps of more than SentBundles::kBundles, are left to time-outs.
  static constexpr uint32_t kGapsMax = 4;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Bundle `came` came when `expected` was next: the bundles from `expected` to before `came` are missing.
  void on_gap(uint32_t expected, uint32_t came, TimeNs now) {
    if (count_ == kGapsMax || came - expected > SentBundles::kBundles) return;
    gaps_[count_++] = {expected, came - expected, now};
  }
  /// A missing bundle has come after all.
  void on_late(uint32_t sequence) {
    for (uint32_t i = 0; i < count_; ++i) {
      Gap& gap = gaps_[i];
      const uint32_t at = sequence - gap.first;
      if (at >= gap.count) continue;
      // The bundles after it in the gap become a gap of their own, if there is room for one more.
      if (const uint32_t behind = gap.count - at - 1; behind > 0 && count_ < kGapsMax) {
        gaps_[count_++] = {sequence + 1, behind, gap.since};
      }
      gap.count = at;
      if (gap.count == 0) gap = gaps_[--count_];
      return;
    }
  }
  /// Takes out a gap that has been there for `patience_ns`. False: there is none.
  [[nodiscard]] bool take_due(DurationNs patience_ns, TimeNs now, MissingRecord& out) {
    for (uint32_t i = 0; i < count_; ++i) {
      if (now - gaps_[i].since < patience_ns) continue;
      out = {gaps_[i].first, gaps_[i].count};
      gaps_[i] = gaps_[--count_];
      return true;
    }
    return false;
  }

 private:
  struct Gap {
    uint32_t first;
    uint32_t count;
    TimeNs since;
  };

  uint32_t count_ = 0;
  std::array<Gap, kGapsMax> gaps_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_BUNDLE_HISTORY_H_
