// rpc_sim: runs the engine in the simulator, seed by seed.
//
//   rpc_sim --seeds 2000                  2,000 worlds, each with its own faults
//   rpc_sim --first-seed 4711 --seeds 1 --verbose    replays one
//   rpc_sim --replay --seeds 40           each seed twice: the traces must be equal
//   rpc_sim --mutant ack-hole             a deliberate fault: succeeds if some seed catches it
//   rpc_sim --mutant ignore-budget --incast 100      the same for faults that cost no correctness: the incast must not hold
//   rpc_sim --memory-taken-back --seeds 300          sessions end while their peers read their memory
//   rpc_sim --connections --seeds 300                by connections that break, as over TCP
//   rpc_sim --differential --seeds 100               a scripted load has the same outcomes with bundles and without
//   rpc_sim --bundles on --seeds 300                 all nodes speak version 2 of the protocol, or none does
//   rpc_sim --soak 1000000 --loss 0.01    one long world with messages up to 8 MiB, and the goodput
//   against no loss
//   rpc_sim --incast 16 [--gbps 25] [--buffer-kib 512] [--budget-kib 62] [--queue-target-us 20] [--congestion none]
//                                         N large responses to one client at once, and a bystander
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "rpc/protocol/protocol_mutants.h"
#include "tests/sim/incast_world.h"
#include "tests/sim/rpc_world.h"
#include "tests/sim/script_world.h"

namespace skua::rpc::sim {
namespace {

constexpr double kBystanderRatioMax = 3;
constexpr double kLinkUseMin = 0.9;
/// So many seeds cover everything that there is to see.
constexpr uint64_t kCoveringSeeds = 300;

struct Arguments {
  uint64_t first_seed = 1;
  uint64_t seeds = 100;
  uint64_t soak = 0;
  double loss = 0.01;
  bool replay = false;
  bool memory_taken_back = false;
  bool connections = false;
  bool differential = false;
  bool verbose = false;
  Mutant mutant = Mutant::kNone;
  std::optional<CongestionControl> congestion;
  std::optional<bool> bundles;
  uint64_t incast = 0;
  uint64_t gbps = 0;
  uint64_t buffer_kib = 0;
  uint64_t budget_kib = 0;
  uint64_t queue_target_us = 0;
};

bool parse_mutant(const char* name, Mutant& out) {
  static constexpr std::pair<const char*, Mutant> kNames[] = {
      {"ack-hole", Mutant::kAckHole},
      {"reuse-generation", Mutant::kReuseGeneration},
      {"run-handler-twice", Mutant::kRunHandlerTwice},
      {"lose-credit", Mutant::kLoseCredit},
      {"release-lease-early", Mutant::kReleaseLeaseEarly},
      {"ignore-deadline", Mutant::kIgnoreDeadline},
      {"free-before-tx-done", Mutant::kFreeBeforeTxDone},
      {"accept-stale-response", Mutant::kAcceptStaleResponse},
      {"keep-budget", Mutant::kKeepBudget},
      {"forget-lost", Mutant::kForgetLost},
      {"keep-binding", Mutant::kKeepBinding},
      {"ignore-budget", Mutant::kIgnoreBudget},
      {"ignore-departure", Mutant::kIgnoreDeparture},
      {"no-sever", Mutant::kNoSever},
      {"any-connection", Mutant::kAnyConnection},
      {"drop-lent", Mutant::kDropLent},
      {"any-life", Mutant::kAnyLife},
      {"foreign-echo", Mutant::kForeignEcho},
      {"believe-cut", Mutant::kBelieveCut},
      {"lose-small-credit", Mutant::kLoseSmallCredit},
      {"reuse-number", Mutant::kReuseNumber},
      {"forget-answer", Mutant::kForgetAnswer},
  };
  static_assert(std::size(kNames) == static_cast<size_t>(Mutant::kForgetAnswer), "a mutant without a name");
  for (const auto& [known, mutant] : kNames) {
    if (std::strcmp(known, name) == 0) {
      out = mutant;
      return true;
    }
  }
  return false;
}

bool parse_congestion(const std::string& name, std::optional<CongestionControl>& out) {
  if (name == "none") out = CongestionControl::kNone;
  if (name == "timely") out = CongestionControl::kTimely;
  if (name == "swift") out = CongestionControl::kSwift;
  return out.has_value();
}

/// An option with a value; false if there is no such option, or the value means nothing.
bool take(const std::string& flag, const char* value, Arguments& out) {
  static constexpr std::pair<const char*, uint64_t Arguments::*> kNumbers[] = {
      {"--seeds", &Arguments::seeds},
      {"--first-seed", &Arguments::first_seed},
      {"--soak", &Arguments::soak},
      {"--incast", &Arguments::incast},
      {"--gbps", &Arguments::gbps},
      {"--buffer-kib", &Arguments::buffer_kib},
      {"--budget-kib", &Arguments::budget_kib},
      {"--queue-target-us", &Arguments::queue_target_us},
  };
  for (const auto& [name, number] : kNumbers) {
    if (flag != name) continue;
    out.*number = std::strtoull(value, nullptr, 10);
    return true;
  }
  if (flag == "--loss") {
    out.loss = std::strtod(value, nullptr);
    return true;
  }
  if (flag == "--bundles") {
    out.bundles = std::strcmp(value, "on") == 0;
    return *out.bundles || std::strcmp(value, "off") == 0;
  }
  if (flag == "--congestion") return parse_congestion(value, out.congestion);
  return flag == "--mutant" && parse_mutant(value, out.mutant);
}

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--replay") {
      out.replay = true;
    } else if (flag == "--memory-taken-back") {
      out.memory_taken_back = true;
    } else if (flag == "--connections") {
      out.connections = true;
    } else if (flag == "--differential") {
      out.differential = true;
    } else if (flag == "--verbose") {
      out.verbose = true;
    } else {
      ++i;
      if (i == argc || !take(flag, argv[i], out)) return false;
    }
  }
  return true;
}

void report(uint64_t seed, const WorldResult& result, const char* world = "") {
  std::printf("seed %" PRIu64 ": %s\n", seed, result.faults.c_str());
  for (const std::string& violation : result.violations) std::printf("  %s\n", violation.c_str());
  std::printf("  replay: rpc_sim %s--first-seed %" PRIu64 " --seeds 1 --verbose\n", world, seed);
}

void add(WorldResult& total, const WorldResult& one) {
  total.calls += one.calls;
  total.ok += one.ok;
  total.retransmits += one.retransmits;
  total.bytes_verified += one.bytes_verified;
  total.virtual_ns += one.virtual_ns;
  for (const auto& [name, count] : one.outcomes) total.outcomes[name] += count;
  for (const auto& [name, count] : one.coverage) total.coverage[name] += count;
}

void print_total(const char* what, uint64_t seeds, const WorldResult& total, double seconds) {
  std::printf("%s: %" PRIu64 " seeds, %" PRIu64 " calls (%" PRIu64 " ok), %" PRIu64
              " retransmits, %.1f MB verified, "
              "%.1f virtual s in %.1f s\n",
              what, seeds, total.calls, total.ok, total.retransmits, static_cast<double>(total.bytes_verified) / 1e6,
              static_cast<double>(total.virtual_ns) / 1e9, seconds);
  for (const auto& [name, count] : total.outcomes) std::printf("  outcome %-24s %" PRIu64 "\n", name.c_str(), count);
  for (const auto& [name, count] : total.coverage) std::printf("  covered %-24s %" PRIu64 "\n", name.c_str(), count);
}

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

/// What no seed did although some should have; the checks of such things have proved nothing.
int count_uncovered(const Arguments& arguments, const WorldResult& total) {
  static constexpr const char* kAlways[] = {
      "small call",
      "answer in a bundle",
      "bundle of several records",
      "bundle of eight records",
      "small call answered",
      "small call answered in packets",
      "small call repeated in a packet",
      "small call cancelled",
      "small call timed out",
      "small call broken with its session",
      "small call closed with its session",
      "join",
      "joined",
      "call before its session joined",
      "call of a new node to an old one",
      "call of an old node to a new one",
      "close inside a completion",
  };
  static constexpr const char* kOfPackets[] = {"bundle cut", "missing bundle told", "drop stale_bundle",
                                               "drop unknown_association"};
  int missing = 0;
  const auto look_for = [&](const char* what) {
    const auto found = total.coverage.find(what);
    if (found != total.coverage.end() && found->second > 0) return;
    std::printf("never covered: %s\n", what);
    ++missing;
  };
  for (const char* what : kAlways) look_for(what);
  if (!arguments.connections) {
    for (const char* what : kOfPackets) look_for(what);
  }
  return missing;
}

int run_seeds(const Arguments& arguments) {
  const auto begun = std::chrono::steady_clock::now();
  WorldResult total;
  const bool hunting = arguments.mutant != Mutant::kNone;
  const char* world = arguments.memory_taken_back ? "--memory-taken-back "
                      : arguments.connections     ? "--connections "
                                                  : "";
  uint64_t failed = 0;
  for (uint64_t seed = arguments.first_seed; seed < arguments.first_seed + arguments.seeds; ++seed) {
    WorldOptions options;
    options.seed = seed;
    options.congestion = arguments.congestion;
    options.memory_taken_back = arguments.memory_taken_back;
    options.connections = arguments.connections;
    options.bundles = arguments.bundles;
    const WorldResult result = run_world(options);
    add(total, result);
    if (arguments.replay && run_world(options).trace_hash != result.trace_hash) {
      std::printf("seed %" PRIu64 " took another course the second time\n", seed);
      ++failed;
    }
    if (!result.violations.empty()) {
      ++failed;
      if (hunting) {
        std::printf("caught by seed %" PRIu64 ": %s\n", seed, result.violations.front().c_str());
        return 0;
      }
      report(seed, result, world);
      if (failed >= 5) break;
    } else if (arguments.verbose) {
      report(seed, result, world);
    }
  }
  if (hunting) {
    std::printf("the mutant was not caught by %" PRIu64 " seeds\n", arguments.seeds);
    return 1;
  }
  print_total("simulation", arguments.seeds, total, seconds_since(begun));
  const bool covers =
      arguments.seeds >= kCoveringSeeds && !arguments.memory_taken_back && !arguments.bundles.has_value();
  if (failed == 0 && covers && count_uncovered(arguments, total) > 0) return 1;
  return failed == 0 ? 0 : 1;
}

/// 1: the script had other outcomes than without bundles.
int compare_outcomes(uint64_t seed, uint32_t bundles_at, const ScriptResult& without, const ScriptResult& with) {
  for (size_t id = 0; id < without.outcomes.size(); ++id) {
    const ScriptOutcome& one = without.outcomes[id];
    const ScriptOutcome& other = with.outcomes[id];
    if (one == other) continue;
    std::printf("seed %" PRIu64
                ", bundles at nodes %x: call %zu ended %s, %zu bytes, %u completions, %u runs, and "
                "without bundles %s, %zu bytes, %u completions, %u runs\n",
                seed, bundles_at, id, absl::StatusCodeToString(other.code).c_str(), other.bytes.size(),
                other.completions, other.handler_runs, absl::StatusCodeToString(one.code).c_str(), one.bytes.size(),
                one.completions, one.handler_runs);
    return 1;
  }
  return 0;
}

int run_differential(const Arguments& arguments) {
  constexpr uint32_t kAll = (1u << kScriptNodes) - 1;
  int failed = 0;
  uint64_t calls = 0;
  uint64_t records = 0;
  std::map<absl::StatusCode, uint64_t> codes;
  for (uint64_t seed = arguments.first_seed; seed < arguments.first_seed + arguments.seeds; ++seed) {
    const ScriptResult without = run_script({.seed = seed, .bundles_at = 0});
    for (const ScriptOutcome& outcome : without.outcomes) ++codes[outcome.code];
    calls += without.outcomes.size();
    for (const uint32_t bundles_at : {kAll, static_cast<uint32_t>(seed) % kAll}) {
      const ScriptResult with = run_script({.seed = seed, .bundles_at = bundles_at});
      failed += compare_outcomes(seed, bundles_at, without, with);
      records += with.records;
      if (bundles_at != kAll || with.records > with.outcomes.size() / 2) continue;
      std::printf("seed %" PRIu64 ": only %" PRIu64 " records\n", seed, with.records);
      ++failed;
    }
  }
  std::printf("%" PRIu64 " scripted calls without bundles and twice with them, %" PRIu64 " records: %d differ\n", calls,
              records, failed);
  for (const auto& [code, count] : codes) {
    std::printf("  outcome %-24s %" PRIu64 "\n", absl::StatusCodeToString(code).c_str(), count);
  }
  return failed == 0 ? 0 : 1;
}

int run_soak(const Arguments& arguments) {
  double goodput[2] = {0, 0};
  int failed = 0;
  for (int lossy = 0; lossy < 2; ++lossy) {
    const auto begun = std::chrono::steady_clock::now();
    WorldOptions options;
    options.seed = arguments.first_seed;
    options.node_count = 2;
    options.call_count = static_cast<uint32_t>(arguments.soak);
    options.message_max_bytes = 8u << 20;
    options.large_one_in = 3000;
    options.fixed_loss = lossy == 1 ? arguments.loss : 0;
    options.crashes = false;
    options.congestion = arguments.congestion;
    options.bundles = arguments.bundles;
    const WorldResult result = run_world(options);
    print_total(lossy == 1 ? "lossy" : "lossless", 1, result, seconds_since(begun));
    if (!result.violations.empty() || result.ok != result.calls) {
      report(options.seed, result);
      failed = 1;
    }
    goodput[lossy] = static_cast<double>(result.bytes_verified) / static_cast<double>(result.busy_ns);
  }
  std::printf("goodput at loss %.4f: %.3f of lossless (%.2f against %.2f GB per virtual second)\n", arguments.loss,
              goodput[1] / goodput[0], goodput[1], goodput[0]);
  return failed;
}

int run_incast_mode(const Arguments& arguments) {
  IncastOptions options;
  options.seed = arguments.first_seed;
  if (arguments.gbps > 0) options.gigabits_per_s = arguments.gbps;
  if (arguments.buffer_kib > 0) options.buffer_bytes = arguments.buffer_kib << 10;
  if (arguments.budget_kib > 0) options.protocol.receive_budget_bytes = arguments.budget_kib << 10;
  options.protocol.congestion = arguments.congestion.value_or(options.protocol.congestion);
  if (arguments.queue_target_us > 0) {
    options.protocol.swift.queue_target_ns = static_cast<DurationNs>(arguments.queue_target_us) * kMicrosecond;
    options.protocol.swift.scaling_range_ns = options.protocol.swift.queue_target_ns;
  }
  options.server_count = 0;
  const IncastResult alone = run_incast(options);
  options.server_count = static_cast<uint32_t>(arguments.incast);
  options.rounds = std::max(128 / options.server_count, 4u);
  const IncastResult crowd = run_incast(options);
  const double ratio = static_cast<double>(crowd.bystander_p99_ns) / static_cast<double>(alone.bystander_p99_ns);
  std::printf("%u-way incast, %u rounds of %u bytes, %" PRIu64 " Gbit/s, buffer %zu KiB, budget %zu bytes\n",
              options.server_count, options.rounds, options.response_bytes, options.gigabits_per_s,
              options.buffer_bytes >> 10, options.protocol.receive_budget_bytes);
  std::printf("  dropped     %" PRIu64 " at the switch (peak %zu KiB), %" PRIu64 " at the ring, %" PRIu64 " repeated\n",
              crowd.tail_dropped, crowd.switch_peak_bytes >> 10, crowd.ring_overflowed, crowd.retransmits);
  std::printf("  goodput     %.2f Gbit/s, %.3f of the link\n", crowd.goodput_gigabits_per_s, crowd.link_use);
  for (const IncastResult* one : {&alone, &crowd}) {
    std::printf("  bystander   p50 %.1f us, p99 %.1f us in %" PRIu64 " calls %s incast\n",
                static_cast<double>(one->bystander_p50_ns) / 1e3, static_cast<double>(one->bystander_p99_ns) / 1e3,
                one->bystander_calls, one == &alone ? "without" : "with");
    for (const std::string& violation : one->violations) std::printf("  %s\n", violation.c_str());
  }
  const bool held = crowd.tail_dropped + crowd.ring_overflowed == 0 && ratio <= kBystanderRatioMax &&
                    crowd.link_use >= kLinkUseMin && crowd.violations.empty() && alone.violations.empty();
  std::printf("  ratio       %.2f of p99 (at most %.1f)\n%s\n", ratio, kBystanderRatioMax, held ? "held" : "NOT HELD");
  if (arguments.mutant == Mutant::kNone) return held ? 0 : 1;
  std::printf("the mutant was %s\n", held ? "not caught" : "caught");
  return held ? 1 : 0;
}

}  // namespace
}  // namespace skua::rpc::sim

int main(int argc, char** argv) {
  skua::rpc::sim::Arguments arguments;
  if (!skua::rpc::sim::parse(argc, argv, arguments)) {
    std::fprintf(
        stderr,
        "usage: rpc_sim [--seeds N] [--first-seed N] [--memory-taken-back] [--connections] [--differential] [--replay] "
        "[--verbose] [--mutant NAME] "
        "[--soak CALLS [--loss P]] [--congestion none|timely|swift] [--bundles on|off]\n"
        "       rpc_sim --incast N [--gbps N] [--buffer-kib N] [--budget-kib N] [--queue-target-us N] "
        "[--congestion ...]\n");
    return 2;
  }
  skua::rpc::g_active_mutant = arguments.mutant;
  if (arguments.incast > 0) return skua::rpc::sim::run_incast_mode(arguments);
  if (arguments.differential) return skua::rpc::sim::run_differential(arguments);
  return arguments.soak > 0 ? skua::rpc::sim::run_soak(arguments) : skua::rpc::sim::run_seeds(arguments);
}
