// Which key number the next operation is about: one chooser per requestdistribution.
//
// A chooser belongs to one thread and draws from that thread's Rng; what grows while the run goes
// on (the last acknowledged insert) is an argument. CoreWorkload redraws numbers beyond it.
#ifndef SKUA_YCSB_CORE_KEY_CHOOSERS_H_
#define SKUA_YCSB_CORE_KEY_CHOOSERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

#include "rpc/base/rng.h"
#include "ycsb/core/operation.h"
#include "ycsb/core/zipfian.h"

namespace skua::ycsb {

/// uniform: every key of [first, first + count) alike.
struct UniformChooser {
  uint64_t first;
  uint64_t count;
  [[nodiscard]] uint64_t next(Rng& rng, uint64_t /*last*/) const { return first + rng.below(count); }
};

/// zipfian: see ScrambledZipfian.
struct ScrambledChooser {
  ScrambledZipfian zipfian;
  [[nodiscard]] uint64_t next(Rng& rng, uint64_t /*last*/) const { return zipfian.next(rng); }
};

/// zipfian_exact: rank r of a zipfian over just the records there are is key number first + r
/// (hashed key names scatter neighbours anyway).
struct ExactZipfianChooser {
  uint64_t first;
  Zipfian zipfian;
  [[nodiscard]] uint64_t next(Rng& rng, uint64_t /*last*/) const { return first + zipfian.next(rng); }
};

/// latest: the last acknowledged insert is the hottest, older ones cool off by a zipfian.
struct LatestChooser {
  Zipfian zipfian;
  [[nodiscard]] uint64_t next(Rng& rng, uint64_t last) {
    if (last == 0) return 0;
    zipfian.grow_to(last);
    return last - zipfian.next(rng);
  }
};

/// hotspot: `hot_share` of the draws go to the first `hot_count` keys; uniform inside both sets.
struct HotspotChooser {
  uint64_t first;
  uint64_t hot_count;
  uint64_t cold_count;
  double hot_share;
  [[nodiscard]] uint64_t next(Rng& rng, uint64_t /*last*/) const {
    const bool hot = cold_count == 0 || (hot_count != 0 && rng.uniform() < hot_share);
    return hot ? first + rng.below(hot_count) : first + hot_count + rng.below(cold_count);
  }
};

/// exponential: distance from the last insert is exponential, so that `percentile` per cent of the
/// draws fall within `range` of it.
class ExponentialChooser {
 public:
  ExponentialChooser(double percentile, double range);
  [[nodiscard]] uint64_t next(Rng& rng, uint64_t last) const;

 private:
  double mean_;
};

/// sequential: all threads together walk [first, first + count) round and round.
struct SequentialChooser {
  uint64_t first;
  uint64_t count;
  std::shared_ptr<std::atomic<uint64_t>> position;
  [[nodiscard]] uint64_t next(Rng& /*rng*/, uint64_t /*last*/) const {
    return first + position->fetch_add(1, std::memory_order_relaxed) % count;
  }
};

using KeyChooser = std::variant<UniformChooser, ScrambledChooser, ExactZipfianChooser, LatestChooser, HotspotChooser,
                                ExponentialChooser, SequentialChooser>;

/// Picks operation kinds by weight, in YCSB's order READ, UPDATE, INSERT, SCAN, READ-MODIFY-WRITE.
class KindChooser {
 public:
  static constexpr std::array<OpKind, 5> kOrder = {OpKind::kRead, OpKind::kUpdate, OpKind::kInsert, OpKind::kScan,
                                                   OpKind::kReadModifyWrite};
  /// Weights need not sum to one; at least one must be positive.
  explicit KindChooser(const std::array<double, 5>& weights);

  [[nodiscard]] OpKind next(Rng& rng) const { return kind_of(rng.uniform()); }
  [[nodiscard]] OpKind kind_of(double u) const;

 private:
  std::array<double, 5> limits_{};  // running sums, normalised; the last positive one is 1
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_KEY_CHOOSERS_H_
