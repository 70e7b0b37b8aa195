// Zipfian choice after Gray et al., "Quickly Generating Billion-Record Synthetic Databases"
// (SIGMOD 1994), in the two forms that YCSB uses.
//
// Zipfian draws a rank: rank r of n has weight 1/(r+1)^theta. The method needs the weights' sum
// zeta(n) once; then a draw costs one pow():
//
//   u uniform in [0,1)      u * zeta(n) < 1                -> rank 0
//                           u * zeta(n) < 1 + 0.5^theta    -> rank 1
//                           otherwise   n * (eta*u - eta + 1)^alpha, truncated
//   alpha = 1 / (1 - theta)      eta = (1 - (2/n)^(1-theta)) / (1 - zeta(2)/zeta(n))
//
// ScrambledZipfian is what `requestdistribution=zipfian` means in YCSB: always a zipfian over
// 10^10 + 1 ranks, each rank hashed onto the key numbers that there are. Hence the hottest key gets
// 3.78 % of the draws whatever the number of records, and ranks beyond it collide at random: it is
// milder than a true zipfian over the records (`zipfian_exact`).
#ifndef SKUA_YCSB_CORE_ZIPFIAN_H_
#define SKUA_YCSB_CORE_ZIPFIAN_H_

#include <cstdint>

#include "rpc/base/rng.h"
#include "ycsb/core/key_hash.h"

namespace skua::ycsb {

inline constexpr double kZipfianTheta = 0.99;

/// Sum of 1/i^theta for i = 1..n, theta in (0, 1). Exact summation for the first few thousand
/// terms, Euler-Maclaurin beyond (relative error below 1e-12), so a billion items cost nothing.
[[nodiscard]] double zeta(uint64_t n, double theta);

/// zeta(to) given zeta(from) as `sum`; from <= to.
[[nodiscard]] double extend_zeta(double sum, uint64_t from, uint64_t to, double theta);

class Zipfian {
 public:
  /// Ranks 0..items-1; items >= 1, theta in (0, 1).
  Zipfian(uint64_t items, double theta);
  /// With zeta(items) known already.
  Zipfian(uint64_t items, double theta, double zeta_of_items);

  [[nodiscard]] uint64_t next(Rng& rng) const { return rank_of(rng.uniform()); }

  /// Extends to `items` ranks if that is more than before. As in Java, zeta grows while eta keeps
  /// the first item count in its numerator: the skew stays YCSB's own.
  void grow_to(uint64_t items);

  /// The rank that a uniform draw `u` in [0, 1) selects.
  [[nodiscard]] uint64_t rank_of(double u) const;
  [[nodiscard]] uint64_t items() const { return items_; }
  [[nodiscard]] double zeta_of_items() const { return zeta_; }

 private:
  void compute_eta();

  uint64_t first_items_;
  uint64_t items_;
  double theta_;
  double zeta_;
  double zeta_of_two_;
  double second_limit_;  // 1 + 0.5^theta
  double alpha_;
  double eta_ = 0;
};

class ScrambledZipfian {
 public:
  /// Key numbers first .. first+count-1, count >= 1.
  ScrambledZipfian(uint64_t first, uint64_t count, KeyHash hash, double theta = kZipfianTheta);

  [[nodiscard]] uint64_t next(Rng& rng) const { return key_of_rank(ranks_.next(rng)); }
  [[nodiscard]] uint64_t key_of_rank(uint64_t rank) const { return first_ + hash_key_number(rank, hash_) % count_; }

 private:
  uint64_t first_;
  uint64_t count_;
  KeyHash hash_;
  Zipfian ranks_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_ZIPFIAN_H_
