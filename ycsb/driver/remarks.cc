#include "ycsb/driver/remarks.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

constexpr std::string_view kProgram = "skua-ycsb: ";
/// With many threads one failure is much like another.
constexpr size_t kFailuresShown = 3;

uint64_t failed_operations(const RunResult& result) {
  return std::accumulate(result.failures.begin(), result.failures.end(), uint64_t{0});
}

std::string was_it_loaded(const WorkloadOptions& workload) {
  return concat("was the table loaded with recordcount=", workload.record_count,
                ", and with the same insertorder, keyhash, keyprefix and zeropadding?");
}

/// The likely cause of what most of the failures are, and the way out.
std::string advice(Status status, const RunContext& context) {
  const bool transactions = context.workload.transactions;
  switch (status) {
    case Status::kNotFound:
      if (transactions) return was_it_loaded(context.workload);
      break;
    case Status::kError:
      // Redis has no other answer for a record that is not there.
      if (transactions && context.binding == "redis") return was_it_loaded(context.workload);
      break;
    case Status::kNotImplemented:
      return concat("the store of the binding ", context.binding,
                    " cannot do what this workload asks for: choose a workload without it");
    case Status::kUnexpectedState:
      return "the records are not what this run expects: was the table loaded by skua-ycsb, with the same "
             "dataintegrity, fieldcount and fieldlength?";
    case Status::kTimeout:
    case Status::kServiceUnavailable:
      return "the store was away or had more to do than it can: look at its state, or lower -threads, -inflight or "
             "-target";
    default: break;
  }
  return "the first failures above say why";
}

void print_most_failed(const RunResult& result, const RunContext& context, std::ostream& err) {
  std::string counts;
  for (size_t i = 0; i < kStatusCount; ++i) {
    if (const uint64_t count = result.failures.at(i); count != 0)
      counts += concat(counts.empty() ? "" : ", ", kStatusNames.at(i), " ", count);
  }
  const auto worst = std::max_element(result.failures.begin(), result.failures.end()) - result.failures.begin();
  err << kProgram << "MOST OPERATIONS FAILED: " << std::to_string(failed_operations(result)) << " of "
      << std::to_string(result.operations) << " (" << counts << "): " << advice(static_cast<Status>(worst), context)
      << '\n';
}

}  // namespace

bool most_operations_failed(const RunResult& result) {
  return failed_operations(result) * 2 > result.operations;
}

void print_remarks(const RunResult& result, const RunContext& context, std::ostream& err) {
  const DriverOptions& driver = context.driver;
  const std::string_view said = message_of(result.status);
  for (size_t i = 0; i < std::min(result.first_failures.size(), kFailuresShown); ++i) {
    const std::string& failure = result.first_failures[i];
    // What stopped a load is the last line.
    if (said.find(failure) == std::string_view::npos)
      err << kProgram << "first failure of a thread: " << failure << '\n';
  }
  if (result.first_failures.size() > kFailuresShown) {
    err << kProgram << "so in " << counted(result.first_failures.size() - kFailuresShown, "more thread") << '\n';
  }
  if (result.late_starts * 100 > result.operations) {
    err << kProgram << std::to_string(result.late_starts) << " of " << std::to_string(result.operations)
        << " operations were due while as many as allowed (" << std::to_string(driver.threads * driver.in_flight)
        << ") were in flight, and waited; intended latencies include that. Raise -inflight or -threads, or lower "
           "-target.\n";
  }
  if (!driver.transactions && result.operations < driver.operation_count) {
    err << kProgram << "the load is not complete: " << std::to_string(result.operations) << " of "
        << std::to_string(driver.operation_count) << " records; begin it again\n";
  }
  if (most_operations_failed(result)) print_most_failed(result, context, err);
}

}  // namespace skua::ycsb
