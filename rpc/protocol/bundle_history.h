// What an association remembers of its bundles, so that a lost one costs a few round trips and not a time-out.
//
//   SentBundles     sender: which calls and answers were in the last bundles. One that did not come is written again,
//                   as far as it is still wanted: with the numbers it had, so that nothing runs twice.
//   MissingBundles  receiver: gaps in the sequence. A bundle that is late closes its gap; a gap that is older than the
//                   reorder window is told to the sender, once. If that is lost as well, the calls' own time-outs are
//                   left.
//
//   sequence   10 11 12 .. 14        13 did not come: it is told when 14, or one behind it, came a reorder window ago
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

  /// A record was written into the bundle that will have this sequence number. `session`: our index.
  void add(uint32_t session, uint32_t number, bool is_answer) {
    records_[next_++ % kRecords] = {session | (is_answer ? kAnswer : 0), number};
  }
  /// The bundle is on its way.
  void seal(uint32_t sequence) {
    bundles_[sequence % kBundles] = {sequence, begin_, next_};
    begin_ = next_;
  }
  /// Calls f(session, number, is_answer) for what was in the bundle and is still remembered; once for each bundle.
  template <typename F>
  void take(uint32_t sequence, F&& f) {
    Bundle& bundle = bundles_[sequence % kBundles];
    if (bundle.sequence != sequence) return;
    const Bundle taken = bundle;
    bundle.end = bundle.begin;
    // What f() writes takes the places of the oldest records.
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
  uint32_t begin_ = 0;  // of the bundle that is being written
  std::array<Record, kRecords> records_;
  std::array<Bundle, kBundles> bundles_;
};

/// Pure.
class MissingBundles {
 public:
  /// More gaps at a time are left to time-outs, as are larger ones.
  static constexpr uint32_t kGapsMax = 4;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// All from `expected` to before `came` were passed over.
  void on_gap(uint32_t expected, uint32_t came, TimeNs now) {
    if (count_ == kGapsMax || came - expected > SentBundles::kBundles) return;
    gaps_[count_++] = {expected, came - expected, now};
  }
  /// One that was passed over has come after all.
  void on_late(uint32_t sequence) {
    for (uint32_t i = 0; i < count_; ++i) {
      Gap& gap = gaps_[i];
      const uint32_t at = sequence - gap.first;
      if (at >= gap.count) continue;
      // What lies behind it in the gap is a gap of its own, if there is room for it.
      if (const uint32_t behind = gap.count - at - 1; behind > 0 && count_ < kGapsMax) {
        gaps_[count_++] = {sequence + 1, behind, gap.since};
      }
      gap.count = at;
      if (gap.count == 0) gap = gaps_[--count_];
      return;
    }
  }
  /// The oldest gap that has been there for `patience_ns`, taken out. False: there is none.
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
