// The time by which a shard forgets its clients (completions.h): that of its log's last record, and what has passed since.
//
//    records         e1            e2                     e3
//    stamped with    t1            t1 + 4 s               t1 + 4 s + 9 s
//                    |---- 4 s ----|--------- 9 s --------|
//                    primary A     primary A              primary B, which had e2 for 9 s
//
// A primary stamps a record with this time. Whoever has the record goes on from there, with a clock that nobody sets.
// A record was made before another node has it, so that of two stamps the difference is never more than the time that
// passed between them. So a client that is silent by this time *is* silent, whatever wall clocks show and however they
// jump. While no process has the last record, as in a restart, the time stands still: a client is kept longer.
//
// Before its first record a shard takes the wall clock: there is no client to forget, and people can read the number.
#ifndef SKUA_KVSTORE_SHARD_SHARD_CLOCK_H_
#define SKUA_KVSTORE_SHARD_SHARD_CLOCK_H_

#include <algorithm>
#include <cstdint>

#include "kvstore/codec/entry_check.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// All times in milliseconds. Thread: one at a time.
class ShardClock {
 public:
  /// The shard has a record of this time, its last one. `steady_ms`: now, by a clock that is never set.
  void saw(uint64_t record_ms, uint64_t steady_ms) {
    known_ = true;
    last_ms_ = record_ms;
    since_ms_ = steady_ms;
  }

  [[nodiscard]] uint64_t now_ms(uint64_t steady_ms, uint64_t unix_ms) const {
    return known_ ? last_ms_ + (steady_ms - std::min(steady_ms, since_ms_)) : unix_ms;
  }

  /// What the next record is stamped with: within the bounds of entry_check.h, so that all replicas have the same.
  [[nodiscard]] uint64_t stamp_ms(uint64_t steady_ms, uint64_t unix_ms) const {
    return std::min(now_ms(steady_ms, unix_ms), kEntryTimeMsMax);
  }

 private:
  bool known_ = false;
  uint64_t last_ms_ = 0;
  uint64_t since_ms_ = 0;
};

/// The time for which a worker has run. It is read now and then: what comes between two readings counts as if it came at
/// the first. If the worker stood still meanwhile, a record that came at the end would look old, so long gaps do not count.
/// Thread: one at a time.
class LivedTime {
 public:
  /// `now_ns`: by a clock that nobody sets. Returns milliseconds.
  uint64_t at(TimeNs now_ns) {
    if (last_ns_ != 0) lived_ns_ += std::clamp<TimeNs>(now_ns - last_ns_, 0, kSecond);
    last_ns_ = now_ns;
    return static_cast<uint64_t>(lived_ns_ / kMillisecond);
  }

 private:
  TimeNs last_ns_ = 0;
  TimeNs lived_ns_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_CLOCK_H_
