// How the driver drives, as properties say it: threads, pace, what to print.
#ifndef SKUA_YCSB_DRIVER_DRIVER_OPTIONS_H_
#define SKUA_YCSB_DRIVER_DRIVER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "ycsb/core/properties.h"

namespace skua::ycsb {

enum class Arrival : uint8_t { kClosed, kUniform, kPoisson };

struct DriverOptions {
  bool transactions = true;      // run phase, else load
  uint64_t operation_count = 0;  // 0: until stopped
  uint64_t threads = 1;
  uint64_t in_flight = 1;  // per thread
  double target = 0;       // operations per second, all threads together; 0: as fast as possible
  Arrival arrival = Arrival::kClosed;
  DurationNs execution_time_max = 0;  // 0: no limit
  bool spin_sleep = false;

  bool status = false;
  DurationNs status_interval = 10 * kSecond;
  std::string label;
  std::string exporter;
  std::string export_file;  // empty: standard output

  uint64_t seed = 0;

  uint64_t insert_retries = 0;
  DurationNs insert_retry_interval = 3 * kSecond;
  bool keep_going_on_insert_error = false;

  /// `random_seed` is used unless the property `seed` is set. Errors: INVALID_ARGUMENT.
  [[nodiscard]] static absl::StatusOr<DriverOptions> parse(const Properties& properties, uint64_t random_seed);

  /// How many operations thread `index` does: an equal share, the first ones one more.
  [[nodiscard]] uint64_t operations_of(uint64_t index) const {
    return operation_count / threads + (index < operation_count % threads ? 1 : 0);
  }
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_DRIVER_OPTIONS_H_
