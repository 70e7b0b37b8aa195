// Reports: what skua-perf prints.
#ifndef SKUA_RPC_TOOLS_PERF_REPORT_H_
#define SKUA_RPC_TOOLS_PERF_REPORT_H_

#include <string>

#include "rpc/tools/perf_run.h"

namespace skua::rpc::perf {

/// A table for people.
std::string text_report(const std::string& mode, const TestOptions& options, const TestResult& result);
/// A JSON object; all names contain their units.
std::string json_report(const std::string& mode, const TestOptions& options, const TestResult& result);

}  // namespace skua::rpc::perf

#endif  // SKUA_RPC_TOOLS_PERF_REPORT_H_
