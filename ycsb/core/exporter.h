// Where a report's lines go: Java YCSB's three exporters.
//
//   text        [READ], Operations, 500
//   JSON        { "metric" : "READ", "measurement" : "Operations", "value" : 500 }   one after
//   another JSONArray   the same objects in one array
//
// The JSON forms are pretty-printed as Java's library does it.
#ifndef SKUA_YCSB_CORE_EXPORTER_H_
#define SKUA_YCSB_CORE_EXPORTER_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string_view>

#include "absl/status/statusor.h"

namespace skua::ycsb {

/// Thread: one at a time.
class Exporter {
 public:
  virtual ~Exporter() = default;
  virtual void write(std::string_view metric, std::string_view measurement, uint64_t value) = 0;
  virtual void write(std::string_view metric, std::string_view measurement, double value) = 0;
  /// A fact about the run that is no number. The text form leaves these out: scripts expect
  /// numbers there.
  virtual void write_fact(std::string_view metric, std::string_view name, std::string_view value) = 0;
  /// After the last line.
  virtual void close() = 0;
};

/// By Java's class name (site.ycsb.measurements.exporter.TextMeasurementsExporter and so on, with
/// any package) or text, json, jsonarray. `out` must outlive the exporter. Errors:
/// INVALID_ARGUMENT.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Exporter>> make_exporter(std::string_view name, std::ostream& out);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_EXPORTER_H_
