// READ, WRITE and FETCH_ADD on a server's memory, without the engine: what perftest's ib_read_lat, ib_write_bw and so on measure,
// through a transport's one-sided operations (rpc/transport/one_sided.h).
//
//   client                                   server
//     | ---- plan with memory_bytes ---------> |
//     | ---- descriptor ---------------------> |   opens a region for peers
//     | <--- descriptor, address, key -------- |
//     |   post, reap, post, reap ...           |   only keeps the connection
#ifndef SKUA_RPC_TOOLS_PERF_MEMORY_H_
#define SKUA_RPC_TOOLS_PERF_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "rpc/tools/perf_run.h"
#include "rpc/transport/one_sided.h"

namespace skua::rpc::perf {

struct MemoryTest {
  /// As people call it: "read-lat".
  std::string name;
  OneSidedOperation::Kind kind = OneSidedOperation::Kind::kRead;
  bool bandwidth = false;
};

/// Serves one client whose plan names memory. FAILED_PRECONDITION: the transport has no one-sided operations.
absl::Status serve_memory(const Socket& control, const Place& place, const TestPlan& plan,
                          const std::atomic<bool>& stop);

/// Operations of options.request_bytes, options.outstanding of them in flight; `stop` as in run_client.
absl::StatusOr<TestResult> run_memory_client(const Socket& control, const Place& place, const MemoryTest& test,
                                             const TestOptions& options, const std::atomic<bool>& stop);

/// Two lines with the columns of perftest.
std::string memory_report(const MemoryTest& test, const TestOptions& options, const TestResult& result);

}  // namespace skua::rpc::perf

#endif  // SKUA_RPC_TOOLS_PERF_MEMORY_H_
