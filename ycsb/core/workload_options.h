// What YCSB's core workload is told by properties, parsed and checked. Names and defaults are
// Java YCSB's; what Java lacks is marked in docs/ycsb.md.
#ifndef SKUA_YCSB_CORE_WORKLOAD_OPTIONS_H_
#define SKUA_YCSB_CORE_WORKLOAD_OPTIONS_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ycsb/core/key_hash.h"
#include "ycsb/core/properties.h"
#include "ycsb/core/zipfian.h"

namespace skua::ycsb {

enum class RequestDistribution : uint8_t {
  kUniform,
  kZipfian,
  kLatest,
  kHotspot,
  kExponential,
  kSequential,
  kZipfianExact,
};

enum class LengthDistribution : uint8_t { kConstant, kUniform, kZipfian, kHistogram };

struct WorkloadOptions {
  std::string table;
  /// The run phase. A load inserts records and looks at no proportions, nor at where the run's keys lie.
  bool transactions = true;

  // Keys
  uint64_t record_count = 0;
  uint64_t insert_start = 0;
  uint64_t insert_count = 0;
  bool ordered_inserts = false;
  KeyHash key_hash = KeyHash::kJava;
  std::string key_prefix;
  uint64_t zero_padding = 1;

  // Records
  uint64_t field_count = 10;
  std::string field_name_prefix;
  LengthDistribution field_length_distribution = LengthDistribution::kConstant;
  uint64_t field_length = 100;
  uint64_t field_length_min = 1;
  bool data_integrity = false;

  // Operations
  uint64_t operation_count = 0;
  std::array<double, 5> proportions{};  // weights, in KindChooser's order; they need not sum to 1
  bool read_all_fields = true;
  bool read_all_fields_by_name = false;
  bool write_all_fields = false;
  uint64_t scan_length_min = 1;
  uint64_t scan_length_max = 1000;
  bool scan_length_zipfian = false;

  // Which keys
  RequestDistribution request_distribution = RequestDistribution::kUniform;
  double zipfian_theta = kZipfianTheta;
  double hotspot_data_fraction = 0.2;
  double hotspot_operation_fraction = 0.8;
  double exponential_percentile = 95;
  double exponential_fraction = 0.8571428571;

  /// Errors: INVALID_ARGUMENT naming the property, its value and what it may be.
  [[nodiscard]] static absl::StatusOr<WorkloadOptions> parse(const Properties& properties);
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_WORKLOAD_OPTIONS_H_
