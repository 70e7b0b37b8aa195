// rpc_sim: the engine over a simulated network, seed by seed (tests/simulation/seed_runner.h). Besides:
//
//   rpc_sim --memory-taken-back --seeds 300     sessions end while their peers read their memory
//   rpc_sim --connections --seeds 300           by connections that break, as over TCP
//   rpc_sim --sealed --seeds 300                packets are sealed, with a new key every four frames
//   rpc_sim --differential --seeds 100          a scripted load has the same outcomes with bundles and without
//   rpc_sim --bundles on --seeds 300            all nodes speak version 2 of the protocol, or none does
//   rpc_sim --soak 1000000 --loss 0.01          one long world with messages up to 8 MiB, and the goodput against no loss
//   rpc_sim --incast 16 [--gbps 25] [--buffer-kib 512] [--budget-kib 62] [--queue-target-us 20] [--congestion none]
//                                               N large responses to one client at once, and a bystander
//
// Some mutants are caught by such a world only. It is theirs if the command line names none.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/transport/sealed/seal_mutants.h"
#include "tests/sim/incast_world.h"
#include "tests/sim/rpc_world.h"
#include "tests/sim/script_world.h"
#include "tests/simulation/seed_runner.h"

namespace skua::rpc::sim {
namespace {

constexpr double kBystanderRatioMax = 3;
constexpr double kLinkUseMin = 0.9;

struct Settings {
  uint64_t soak = 0;
  double loss = 0.01;
  bool memory_taken_back = false;
  bool connections = false;
  bool sealed = false;
  bool differential = false;
  std::optional<CongestionControl> congestion;
  std::optional<bool> bundles;
  uint64_t incast = 0;
  uint64_t gbps = 0;
  uint64_t buffer_kib = 0;
  uint64_t budget_kib = 0;
  uint64_t queue_target_us = 0;
};
Settings g_settings;

bool names_a_world(const Settings& settings) {
  return settings.memory_taken_back || settings.connections || settings.sealed || settings.differential ||
         settings.soak > 0 || settings.incast > 0;
}

/// A mutant, and the world that catches it; null: the usual ones.
simulation::NamedMutant in_world(const char* name, Mutant which, void (*choose)(Settings&) = nullptr) {
  return {name, [which, choose] {
            active_mutant<Mutant> = which;
            if (choose != nullptr && !names_a_world(g_settings)) choose(g_settings);
          }};
}
simulation::NamedMutant in_sealed_world(const char* name, SealMutant which) {
  return {name, [which] {
            active_mutant<SealMutant> = which;
            if (!names_a_world(g_settings)) g_settings.sealed = true;
          }};
}
void by_connections(Settings& settings) {
  settings.connections = true;
}
void memory_taken_back(Settings& settings) {
  settings.memory_taken_back = true;
}

// What breaks no promise to a caller, only the network.
void incast_without_policy(Settings& settings) {
  settings.incast = 100;
  settings.congestion = CongestionControl::kNone;
}
void incast_at_slow_link(Settings& settings) {
  settings.incast = 100;
  settings.gbps = 25;
  settings.budget_kib = 61;
  settings.queue_target_us = 5;
}

const simulation::NamedMutant kMutants[] = {
    in_world("ack-hole", Mutant::kAckHole),
    in_world("reuse-generation", Mutant::kReuseGeneration),
    in_world("run-handler-twice", Mutant::kRunHandlerTwice),
    in_world("lose-credit", Mutant::kLoseCredit),
    in_world("release-lease-early", Mutant::kReleaseLeaseEarly),
    in_world("ignore-deadline", Mutant::kIgnoreDeadline),
    in_world("free-before-tx-done", Mutant::kFreeBeforeTxDone),
    in_world("accept-stale-response", Mutant::kAcceptStaleResponse),
    in_world("keep-budget", Mutant::kKeepBudget),
    in_world("forget-lost", Mutant::kForgetLost, by_connections),
    in_world("keep-binding", Mutant::kKeepBinding, by_connections),
    in_world("ignore-budget", Mutant::kIgnoreBudget, incast_without_policy),
    in_world("ignore-departure", Mutant::kIgnoreDeparture, incast_at_slow_link),
    in_world("no-sever", Mutant::kNoSever, memory_taken_back),
    in_world("any-connection", Mutant::kAnyConnection, memory_taken_back),
    in_world("drop-lent", Mutant::kDropLent, memory_taken_back),
    in_world("any-life", Mutant::kAnyLife),
    in_world("foreign-echo", Mutant::kForeignEcho),
    in_world("believe-cut", Mutant::kBelieveCut),
    in_world("lose-small-credit", Mutant::kLoseSmallCredit),
    in_world("reuse-number", Mutant::kReuseNumber),
    in_world("forget-answer", Mutant::kForgetAnswer),
    in_sealed_world("reuse-frame-number", SealMutant::kReuseNumber),
    in_sealed_world("one-key", SealMutant::kOneKey),
    in_sealed_world("keep-keys", SealMutant::kKeepKeys),
};
constexpr size_t kSealMutants = 3;
static_assert(std::size(kMutants) - kSealMutants == static_cast<size_t>(Mutant::kForgetAnswer),
              "a mutant without a name");

class RpcWorld final : public simulation::World {
 public:
  explicit RpcWorld(const WorldOptions& options) : options_(options) {}

  std::optional<std::string> run() override {
    result_ = run_world(options_);
    if (result_.violations.empty()) return std::nullopt;
    return absl::StrJoin(result_.violations, "\n  ");
  }
  [[nodiscard]] uint64_t trace() const override { return result_.trace_hash; }
  [[nodiscard]] simulation::Summary summary() const override {
    simulation::Summary summary{.counts = {{"calls", result_.calls},
                                           {"calls ok", result_.ok},
                                           {"retransmits", result_.retransmits},
                                           {"bytes verified", result_.bytes_verified}},
                                .probes = result_.coverage,
                                .virtual_s = static_cast<double>(result_.virtual_ns) / 1e9};
    for (const auto& [name, count] : result_.outcomes) summary.probes["outcome " + name] = count;
    return summary;
  }
  [[nodiscard]] std::string describe() const override { return result_.faults + "\n"; }
  [[nodiscard]] const WorldResult& result() const { return result_; }

 private:
  WorldOptions options_;
  WorldResult result_;
};

std::unique_ptr<simulation::World> make_world(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.congestion = g_settings.congestion;
  options.memory_taken_back = g_settings.memory_taken_back;
  options.connections = g_settings.connections;
  options.sealed = g_settings.sealed;
  options.bundles = g_settings.bundles;
  return std::make_unique<RpcWorld>(options);
}

std::vector<std::string> probes_of_seals() {
  std::vector<std::string> names = {"frame of an unknown channel", "channel made", "opened by keys OK",
                                    "opened by keys ABORTED", "opened by keys UNAVAILABLE"};
  if (g_settings.connections) {
    names.insert(names.end(), {"connection broken", "frame missing"});
  } else {
    names.insert(names.end(), {"frame replayed", "frame forged", "frame of another generation"});
  }
  return names;
}

/// What some of many seeds must do; otherwise the checks of such things have proved nothing.
std::vector<std::string> probes() {
  if (g_settings.memory_taken_back || g_settings.bundles.has_value()) return {};
  if (g_settings.sealed) return probes_of_seals();
  std::vector<std::string> names = {
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
  if (g_settings.connections) return names;
  for (const char* of_packets :
       {"bundle cut", "missing bundle told", "drop stale_bundle", "drop unknown_association"}) {
    names.emplace_back(of_packets);
  }
  return names;
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

bool run_differential(uint64_t first_seed, uint64_t seeds) {
  constexpr uint32_t kAll = (1u << kScriptNodes) - 1;
  int failed = 0;
  uint64_t calls = 0;
  uint64_t records = 0;
  std::map<absl::StatusCode, uint64_t> codes;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
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
  return failed == 0;
}

bool run_soak(const Settings& settings, uint64_t seed) {
  double goodput[2] = {0, 0};
  bool held = true;
  for (int lossy = 0; lossy < 2; ++lossy) {
    const auto begun = std::chrono::steady_clock::now();
    WorldOptions options;
    options.seed = seed;
    options.node_count = 2;
    options.call_count = static_cast<uint32_t>(settings.soak);
    options.message_max_bytes = 8u << 20;
    options.large_one_in = 3000;
    options.fixed_loss = lossy == 1 ? settings.loss : 0;
    options.crashes = false;
    options.congestion = settings.congestion;
    options.bundles = settings.bundles;
    RpcWorld world(options);
    const auto broken = world.run();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    simulation::print_summary(lossy == 1 ? "lossy" : "lossless", world.summary(), seconds.count());
    const WorldResult& result = world.result();
    if (broken || result.ok != result.calls) {
      std::printf("seed %" PRIu64 ": %s\n%s", seed, broken.value_or("a call failed").c_str(), world.describe().c_str());
      held = false;
    }
    goodput[lossy] = static_cast<double>(result.bytes_verified) / static_cast<double>(result.busy_ns);
  }
  std::printf("goodput at loss %.4f: %.3f of lossless (%.2f against %.2f GB per virtual second)\n", settings.loss,
              goodput[1] / goodput[0], goodput[1], goodput[0]);
  return held;
}

bool run_incast_mode(const Settings& settings, uint64_t seed) {
  IncastOptions options;
  options.seed = seed;
  if (settings.gbps > 0) options.gigabits_per_s = settings.gbps;
  if (settings.buffer_kib > 0) options.buffer_bytes = settings.buffer_kib << 10;
  if (settings.budget_kib > 0) options.protocol.receive_budget_bytes = settings.budget_kib << 10;
  options.protocol.congestion = settings.congestion.value_or(options.protocol.congestion);
  if (settings.queue_target_us > 0) {
    options.protocol.swift.queue_target_ns = static_cast<DurationNs>(settings.queue_target_us) * kMicrosecond;
    options.protocol.swift.scaling_range_ns = options.protocol.swift.queue_target_ns;
  }
  options.server_count = 0;
  const IncastResult alone = run_incast(options);
  options.server_count = static_cast<uint32_t>(settings.incast);
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
  return held;
}

std::optional<bool> run_instead(uint64_t first_seed, uint64_t seeds) {
  if (g_settings.incast > 0) return run_incast_mode(g_settings, first_seed);
  if (g_settings.differential) return run_differential(first_seed, seeds);
  if (g_settings.soak > 0) return run_soak(g_settings, first_seed);
  return std::nullopt;
}

void declare(app::Command& line) {
  Settings& to = g_settings;
  line.add_bool("memory-taken-back", &to.memory_taken_back, "Sessions end while their peers read their memory.");
  line.add_bool("connections", &to.connections, "By connections that break, as over TCP.");
  line.add_bool("sealed", &to.sealed, "Packets are sealed, with a new key every four frames.");
  line.add_bool("differential", &to.differential, "A scripted load ends the same with bundles and without.");
  line.add_choice<std::optional<bool>>("bundles", &to.bundles, {{"any", std::nullopt}, {"on", true}, {"off", false}},
                                       "Whether all nodes speak version 2 of the protocol.");
  line.add_choice<std::optional<CongestionControl>>("congestion", &to.congestion,
                                                    {{"any", std::nullopt},
                                                     {"none", CongestionControl::kNone},
                                                     {"timely", CongestionControl::kTimely},
                                                     {"swift", CongestionControl::kSwift}},
                                                    "The policy of all nodes.");
  line.add_int("soak", &to.soak, "So many calls in one world, and the goodput against no loss.").value_name("CALLS");
  line.add_double("loss", &to.loss, "Of the packets of --soak.").range_double(0, 1);
  line.add_int("incast", &to.incast, "So many large responses to one client at once, and a bystander.");
  line.add_int("gbps", &to.gbps, "The link's rate in an incast; 0: 100.");
  line.add_int("buffer-kib", &to.buffer_kib, "The switch's buffer in an incast; 0: 512.");
  line.add_int("budget-kib", &to.budget_kib, "What the client lets be sent to it in an incast; 0: as in production.");
  line.add_int("queue-target-us", &to.queue_target_us, "Swift's, in an incast; 0: as in production.");
  line.example("rpc_sim --soak 1000000 --loss 0.01", "a million calls of up to 8 MiB");
  line.example("rpc_sim --incast 100 --gbps 25", "a hundred servers answer one client at once");
}

}  // namespace
}  // namespace skua::rpc::sim

int main(int argc, char** argv) {
  using namespace skua::rpc::sim;
  const skua::simulation::Program program{
      .name = "rpc_sim",
      .about = "the engine over a simulated network, seed by seed",
      .make = [](uint64_t seed, bool /*trace*/) { return make_world(seed); },
      .mutants = kMutants,
      .probes = probes,
      .covering_seeds = 300,
      .seeds = 100,
      .seeds_of_a_mutant = 1500,  // any-life takes a late duplicate, and a new session in the same place
      .declare = declare,
      .run_instead = run_instead,
  };
  return skua::simulation::run_program(program, argc, argv);
}
