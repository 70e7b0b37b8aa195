#include "ycsb/core/zipfian.h"

#include <algorithm>
#include <cmath>

#include "rpc/base/check.h"

namespace skua::ycsb {
namespace {

/// From here on the Euler-Maclaurin formula's first neglected term is below 1e-15.
constexpr uint64_t kSummedExactly = 8192;

constexpr uint64_t kScrambledItems = 10'000'000'001;  // YCSB's 0..10^10, both ends included
/// The constant that YCSB carries for zeta(10^10) at theta 0.99.
constexpr double kScrambledZeta = 26.46902820178302;

double sum_terms(double sum, uint64_t from, uint64_t to, double theta) {
  for (uint64_t i = from; i < to; ++i) sum += std::pow(static_cast<double>(i + 1), -theta);
  return sum;
}

/// Sum of x^-theta for x = from+1..to, from large.
double tail(uint64_t from, uint64_t to, double theta) {
  const auto a = static_cast<double>(from);
  const auto b = static_cast<double>(to);
  const double p = 1 - theta;
  const double integral = std::pow(a, p) * std::expm1(p * std::log(b / a)) / p;
  const double fa = std::pow(a, -theta);
  const double fb = std::pow(b, -theta);
  return integral + (fb - fa) / 2 + theta * (fa / a - fb / b) / 12;
}

}  // namespace

double extend_zeta(double sum, uint64_t from, uint64_t to, double theta) {
  if (from >= to) return sum;
  if (to - from <= kSummedExactly) return sum_terms(sum, from, to, theta);
  const uint64_t middle = std::max(from, kSummedExactly);
  return sum_terms(sum, from, middle, theta) + tail(middle, to, theta);
}

double zeta(uint64_t n, double theta) {
  return extend_zeta(0, 0, n, theta);
}

Zipfian::Zipfian(uint64_t items, double theta) : Zipfian(items, theta, zeta(items, theta)) {}

Zipfian::Zipfian(uint64_t items, double theta, double zeta_of_items)
    : first_items_(items),
      items_(items),
      theta_(theta),
      zeta_(zeta_of_items),
      zeta_of_two_(zeta(2, theta)),
      second_limit_(1 + std::pow(0.5, theta)),
      alpha_(1 / (1 - theta)) {
  SKUA_CHECK(items >= 1, "a zipfian needs at least one item");
  SKUA_CHECK(theta > 0 && theta < 1, "the method is defined for theta between 0 and 1");
  compute_eta();
}

void Zipfian::compute_eta() {
  const double share = 2.0 / static_cast<double>(first_items_);
  eta_ = (1 - std::pow(share, 1 - theta_)) / (1 - zeta_of_two_ / zeta_);
}

void Zipfian::grow_to(uint64_t items) {
  if (items <= items_) return;
  zeta_ = extend_zeta(zeta_, items_, items, theta_);
  items_ = items;
  compute_eta();
}

uint64_t Zipfian::rank_of(double u) const {
  const double uz = u * zeta_;
  if (uz < 1) return 0;
  if (uz < second_limit_ || items_ <= 2) return items_ - 1 < 1 ? 0 : 1;  // eta is 0/0 for two
  const auto n = static_cast<double>(items_);
  const auto rank = static_cast<uint64_t>(n * std::pow(eta_ * u - eta_ + 1, alpha_));
  return std::min(rank, items_ - 1);
}

ScrambledZipfian::ScrambledZipfian(uint64_t first, uint64_t count, KeyHash hash, double theta)
    : first_(first),
      count_(count),
      hash_(hash),
      ranks_(theta == kZipfianTheta ? Zipfian(kScrambledItems, theta, kScrambledZeta)
                                    : Zipfian(kScrambledItems, theta)) {
  SKUA_CHECK(count >= 1, "a scrambled zipfian needs at least one key");
}

}  // namespace skua::ycsb
