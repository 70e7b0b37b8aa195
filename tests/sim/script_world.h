// A scripted load on a perfect network: which calls are made, when and over what session, and what their handlers do
// follows from the seed alone. So does each call's outcome, whatever way its messages go: with bundles, without, or
// with them at some nodes only.
#ifndef SKUA_TESTS_SIM_SCRIPT_WORLD_H_
#define SKUA_TESTS_SIM_SCRIPT_WORLD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace skua::rpc::sim {

struct ScriptOptions {
  uint64_t seed = 1;
  /// Which of the nodes, a bit each, speak version 2 of the protocol.
  uint32_t bundles_at = 0;
  uint32_t call_count = 400;
};

inline constexpr uint32_t kScriptNodes = 3;

struct ScriptOutcome {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string bytes;
  std::string text;  // of an error that the peer answered with
  uint32_t completions = 0;
  uint32_t handler_runs = 0;
  bool operator==(const ScriptOutcome&) const = default;
};

struct ScriptResult {
  std::vector<ScriptOutcome> outcomes;
  uint64_t records = 0;  // of calls and answers, as seen on the wire
  uint64_t packets = 0;  // other ones than bundles
};

[[nodiscard]] ScriptResult run_script(const ScriptOptions& options);

}  // namespace skua::rpc::sim

#endif  // SKUA_TESTS_SIM_SCRIPT_WORLD_H_
