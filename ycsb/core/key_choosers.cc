#include "ycsb/core/key_choosers.h"

#include <cmath>

#include "rpc/base/check.h"

namespace skua::ycsb {

ExponentialChooser::ExponentialChooser(double percentile, double range)
    : mean_(range / -std::log(1 - percentile / 100)) {}

uint64_t ExponentialChooser::next(Rng& rng, uint64_t last) const {
  for (;;) {
    const double distance = -std::log(1 - rng.uniform()) * mean_;  // 1-u is never 0
    if (distance < static_cast<double>(last) + 1) {
      const auto whole = static_cast<uint64_t>(distance);
      if (whole <= last) return last - whole;
    }
  }
}

KindChooser::KindChooser(const std::array<double, 5>& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  SKUA_CHECK(sum > 0, "at least one proportion must be positive");
  double running = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    running += weights[i];
    limits_[i] = weights[i] > 0 ? running / sum : -1;
  }
  for (size_t i = limits_.size(); i-- > 0;) {
    if (limits_[i] < 0) continue;
    limits_[i] = 1;  // rounding must not leave a gap at the top
    break;
  }
}

OpKind KindChooser::kind_of(double u) const {
  for (size_t i = 0; i < limits_.size(); ++i)
    if (u < limits_[i]) return kOrder[i];
  return OpKind::kRead;  // u is below 1 and the last positive limit is 1
}

}  // namespace skua::ycsb
