// The time by which a shard forgets its clients (completions.h): the time of the last record in its log, plus the time
// that has passed since then.
//
//    records         e1            e2                     e3
//    stamped with    t1            t1 + 4 s               t1 + 4 s + 9 s
//                    |---- 4 s ----|--------- 9 s --------|
//                    primary A     primary A              primary B, which had e2 for 9 s
//
// A primary stamps each record with this time. A node that has the record counts on from the stamp, with a clock that
// is never set. A record is made before another node has it, so the difference between two stamps is never more than
// the time that passed between them. So a client that is silent by this time *is* silent, whatever wall clocks show and
// however they jump. While no process has the last record, as during a restart, this time stands still, and a client is
// kept longer.
//
// Before its first record a shard uses the wall clock: there is no client to forget yet, and people can read the
// number.
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
  /// The shard's last record has the time `record_ms`. `steady_ms`: the time now, of a clock that is never set.
  void saw(uint64_t record_ms, uint64_t steady_ms) {
    known_ = true;
    last_ms_ = record_ms;
    since_ms_ = steady_ms;
  }

  [[nodiscard]] uint64_t now_ms(uint64_t steady_ms, uint64_t unix_ms) const {
    return known_ ? last_ms_ + (steady_ms - std::min(steady_ms, since_ms_)) : unix_ms;
  }

  /// The stamp of the next record. It stays within the bounds of entry_check.h, so that all replicas keep the same
  /// stamp.
  [[nodiscard]] uint64_t stamp_ms(uint64_t steady_ms, uint64_t unix_ms) const {
    return std::min(now_ms(steady_ms, unix_ms), kEntryTimeMsMax);
  }

 private:
  bool known_ = false;
  uint64_t last_ms_ = 0;
  uint64_t since_ms_ = 0;
};

/// The time for which a worker has run, without long pauses. A worker asks for this time now and then, and everything
/// between two calls counts as if it came at the first. If the worker stood still in between, a record that came at the
/// end would look old. So a gap of more than one second counts as one second. Thread: one at a time.
class LivedTime {
 public:
  /// `now_ns`: the time of a clock that is never set. Returns milliseconds.
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
