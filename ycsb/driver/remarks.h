// What is said on standard error after the report: first failures, operations that waited, and loudly whether the
// figures mean anything at all.
#ifndef SKUA_YCSB_DRIVER_REMARKS_H_
#define SKUA_YCSB_DRIVER_REMARKS_H_

#include <cstdint>
#include <ostream>
#include <string_view>

#include "ycsb/core/workload_options.h"
#include "ycsb/driver/driver_options.h"
#include "ycsb/driver/run.h"

namespace skua::ycsb {

/// What a run was to do, for the words of remarks.
struct RunContext {
  const DriverOptions& driver;
  const WorkloadOptions& workload;
  std::string_view binding;
};

/// More than half of the operations failed: the report's latencies and throughput are those of failures.
[[nodiscard]] bool most_operations_failed(const RunResult& result);

/// A line for each remark.
void print_remarks(const RunResult& result, const RunContext& context, std::ostream& err);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_REMARKS_H_
