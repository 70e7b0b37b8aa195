// When a driver thread's operations are due.
//
//   unpaced    a new operation as soon as one of the in-flight slots is free (closed loop)
//   ticks      operation k at start + k * gap: -target, and arrival=uniform
//   poisson    exponential gaps of the same mean: arrival=poisson
//
// A due time passes whether or not a slot is free then; latency counted from the due time
// (intended latency) therefore includes the wait for a slot.
#ifndef SKUA_YCSB_DRIVER_PACER_H_
#define SKUA_YCSB_DRIVER_PACER_H_

#include <cmath>
#include <cstdint>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::ycsb {

class Pacer {
 public:
  [[nodiscard]] static Pacer unpaced() { return {Kind::kUnpaced, 0, 0}; }
  /// gap_ns > 0.
  [[nodiscard]] static Pacer ticks(TimeNs start, double gap_ns) { return {Kind::kTicks, start, gap_ns}; }
  [[nodiscard]] static Pacer poisson(TimeNs start, double mean_gap_ns, Rng& rng) {
    Pacer pacer(Kind::kPoisson, start, mean_gap_ns);
    pacer.advance(rng);  // the first arrival, too, comes after a random gap
    return pacer;
  }

  [[nodiscard]] bool paced() const { return kind_ != Kind::kUnpaced; }
  /// When the next operation is due; the distant past if unpaced.
  [[nodiscard]] TimeNs due() const { return paced() ? start_ + static_cast<TimeNs>(offset_ns_) : INT64_MIN; }

  /// The next operation has been started.
  void advance(Rng& rng) {
    switch (kind_) {
      case Kind::kUnpaced: break;
      case Kind::kTicks: offset_ns_ = gap_ns_ * static_cast<double>(++count_); break;
      case Kind::kPoisson: offset_ns_ -= std::log(1 - rng.uniform()) * gap_ns_; break;
    }
  }

 private:
  enum class Kind : uint8_t { kUnpaced, kTicks, kPoisson };
  Pacer(Kind kind, TimeNs start, double gap_ns) : kind_(kind), start_(start), gap_ns_(gap_ns) {}

  Kind kind_;
  TimeNs start_;
  double gap_ns_;
  double offset_ns_ = 0;  // from start_; a double is exact to the nanosecond for 100 days
  uint64_t count_ = 0;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_PACER_H_
