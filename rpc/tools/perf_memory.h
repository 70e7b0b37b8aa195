// perf_memory: measures READ, WRITE and FETCH_ADD on a server's memory without the engine, as perftest's ib_read_lat,
// ib_write_bw and so on do. It uses a transport's one-sided operations (rpc/transport/one_sided.h).
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
  /// The name of the command: "read-lat".
  std::string name;
  OneSidedOperation::Kind kind = OneSidedOperation::Kind::kRead;
  bool bandwidth = false;
};

/// Serves one client whose plan names memory. FAILED_PRECONDITION: the transport has no one-sided operations.
/// INVALID_ARGUMENT: the plan wants more than 16 MiB.
absl::Status serve_memory(const Socket& control, const Place& place, const TestPlan& plan,
                          const std::atomic<bool>& stop);

/// Runs operations of options.request_bytes (atomics: 8 bytes), with options.outstanding of them in flight. `stop` as
/// for run_client().
absl::StatusOr<TestResult> run_memory_client(const Socket& control, const Place& place, const MemoryTest& test,
                                             const TestOptions& options, const std::atomic<bool>& stop);

/// Two lines with perftest's columns.
std::string memory_report(const MemoryTest& test, const TestOptions& options, const TestResult& result);

}  // namespace skua::rpc::perf

#endif  // SKUA_RPC_TOOLS_PERF_MEMORY_H_
