#include "tests/simulation/seed_runner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/exit.h"
#include "tests/simulation/seed_jobs.h"

namespace skua::simulation {
namespace {

constexpr uint64_t kReplayOneIn = 50;
constexpr uint64_t kMostJobs = 256;

struct Arguments {
  uint64_t first_seed = 1;
  uint64_t seeds = 0;
  uint64_t seed = 0;
  bool replay = false;
  bool trace = false;
  bool probes = false;
  bool keep_going = false;
  bool all_mutants = false;
  uint64_t jobs = 1;
  std::string mutant;
};

/// The world that broke a promise may be in no state to be taken down.
[[noreturn]] void end_here(int code) {
  std::fflush(stdout);
  std::_Exit(code);
}

class Runner {
 public:
  explicit Runner(const Program& program) : program_(program) {}

  void parse(int argc, char** argv) {
    app::Program line({.name = program_.name, .summary = program_.about});
    arguments_.seeds = program_.seeds;
    const app::Option& seeds = line.add_int("seeds", &arguments_.seeds, "How many worlds.").at_least(1);
    line.add_int("first-seed", &arguments_.first_seed, "The seed of the first world.");
    const app::Option& seed = line.add_int("seed", &arguments_.seed, "This world only.");
    line.add_bool("replay", &arguments_.replay, "Runs each seed twice: the traces must be equal.");
    line.add_bool("keep-going", &arguments_.keep_going, "Goes on behind a seed that fails.");
    line.add_int("jobs", &arguments_.jobs, "So many worlds beside each other, in processes of their own.")
        .range(1, kMostJobs);
    if (program_.has_trace) {
      line.add_bool("trace", &arguments_.trace, "Says what happens in the worlds.");
      line.add_bool("verbose", &arguments_.trace, "The same as --trace.");
    }
    if (program_.probes) line.add_bool("probes", &arguments_.probes, "Fails if a rare branch was never taken.");
    declare_mutants(line);
    if (program_.declare) program_.declare(line);
    add_examples(line);
    line.parse_or_exit(argc, argv);
    if (seed.is_set()) arguments_.first_seed = arguments_.seed;
    if (seed.is_set()) arguments_.seeds = 1;
    seeds_given_ = seeds.is_set() || seed.is_set();
    own_words_ = own_words(argc, argv);
  }

  int run() {
    if (arguments_.all_mutants) return run_mutants();
    for (const NamedMutant& mutant : program_.mutants) {
      if (arguments_.mutant == mutant.name) return run_mutant(mutant);
    }
    return run_here();
  }

 private:
  void declare_mutants(app::Program& line) {
    std::vector<std::string> names;
    for (const NamedMutant& mutant : program_.mutants) names.emplace_back(mutant.name);
    line.description("Deliberate faults: " + absl::StrJoin(names, ", ") + ".");
    line.add_string("mutant", &arguments_.mutant, "A deliberate fault: succeeds if a seed catches it.")
        .one_of(std::move(names))
        .value_name("NAME");
    line.add_bool("mutants", &arguments_.all_mutants, "Each deliberate fault, one after the other.");
  }

  void add_examples(app::Program& line) const {
    const std::string name = program_.name;
    line.example(name + " --seeds 2000", "2,000 worlds, each with its own faults");
    line.example(name + " --seed 4711" + (program_.has_trace ? " --trace" : ""), "one of them again");
    line.example(name + " --seeds 20000 --jobs 2 --keep-going", "as many as two processors can, all of them");
    line.example(name + " --replay --seeds 20", "each seed twice: the traces must be equal");
    line.example(absl::StrCat(name, " --mutant ", program_.mutants.front().name), "a deliberate fault must be caught");
  }

  /// What the command line says of all worlds: a replay needs it, too.
  static std::string own_words(int argc, char** argv) {
    static constexpr std::string_view kNumbers[] = {"--seeds", "--first-seed", "--seed", "--jobs"};
    static constexpr std::string_view kFlags[] = {"--replay", "--keep-going", "--trace", "--verbose", "--probes"};
    std::string words;
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const std::string_view option = word.substr(0, word.find('='));
      const bool is_number = std::ranges::find(kNumbers, option) != std::end(kNumbers);
      if (is_number && option == word) ++i;
      if (!is_number && std::ranges::find(kFlags, option) == std::end(kFlags)) absl::StrAppend(&words, " ", argv[i]);
    }
    return words;
  }

  [[nodiscard]] std::optional<bool> run_instead() const {
    if (!program_.run_instead) return std::nullopt;
    return program_.run_instead(arguments_.first_seed, arguments_.seeds);
  }

  int run_here() {
    if (const std::optional<bool> held = run_instead()) return *held ? 0 : 1;
    const auto start = std::chrono::steady_clock::now();
    Progress progress(program_.name, arguments_.seeds);
    bool held = true;
    if (arguments_.jobs == 1) {
      held = run_seeds(0, [&progress](uint64_t /*seed*/) { progress.count_world(); });
    } else {
      const auto job = [this](uint64_t number, const JobReport& report) {
        const bool job_held = run_seeds(number, [&report](uint64_t seed) { report.begin_world(seed); });
        report.end(total_);
        return job_held;
      };
      JobsResult result = run_jobs(arguments_.jobs, !arguments_.keep_going, progress, job);
      held = result.all_held;
      total_ = std::move(result.total);
    }
    if (!held && !arguments_.keep_going) return 1;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    print_summary(absl::StrCat(arguments_.seeds, " seeds"), total_, seconds.count());
    return held && !misses_probes() ? 0 : 1;
  }

  /// Every `jobs`-th seed, from `offset` on; `begin` hears of each. False: a promise was broken.
  bool run_seeds(uint64_t offset, const std::function<void(uint64_t seed)>& begin) {
    bool held = true;
    for (uint64_t i = offset; i < arguments_.seeds && (held || arguments_.keep_going); i += arguments_.jobs) {
      const uint64_t seed = arguments_.first_seed + i;
      begin(seed);
      held = run_seed(seed) && held;
    }
    return held;
  }

  /// False: a promise was broken, or the seed does not replay.
  bool run_seed(uint64_t seed) {
    const auto world = program_.make(seed, arguments_.trace);
    const auto broken = world->run();
    total_.add(world->summary());
    if (broken) {
      std::printf("seed %" PRIu64 ": %s\n", seed, broken->c_str());
      if (arguments_.keep_going) return false;
      std::printf("%sreplay: %s%s --seed %" PRIu64 "%s\n", world->describe().c_str(), program_.name, own_words_.c_str(),
                  seed, program_.has_trace ? " --trace" : "");
      end_here(1);
    }
    if (arguments_.trace) std::printf("seed %" PRIu64 ": %s", seed, world->describe().c_str());
    if (!arguments_.replay && seed % kReplayOneIn != 0) return true;
    const auto again = program_.make(seed, false);
    static_cast<void>(again->run());
    if (again->trace() == world->trace()) return true;
    std::printf("seed %" PRIu64 " does not replay\n", seed);
    return false;
  }

  [[nodiscard]] bool misses_probes() const {
    const bool covers = program_.covering_seeds != 0 && arguments_.seeds >= program_.covering_seeds;
    if (!arguments_.probes && !covers) return false;
    bool misses = false;
    for (const std::string& probe : program_.probes()) {
      const auto found = total_.probes.find(probe);
      if (found != total_.probes.end() && found->second != 0) continue;
      std::printf("never hit: %s\n", probe.c_str());
      misses = true;
    }
    return misses;
  }

  /// In a process of its own: a mutant may be stopped by a check of the code itself, which counts as caught.
  int run_mutant(const NamedMutant& mutant) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) end_here(hunt(mutant));
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const bool is_check = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    std::printf("%s: %s\n", mutant.name, is_check ? "caught by a check" : "ended by a signal");
    return is_check ? 0 : 1;
  }

  /// 0: some seed caught the mutant.
  int hunt(const NamedMutant& mutant) {
    if (!seeds_given_) arguments_.seeds = program_.seeds_of_a_mutant;
    mutant.arm();
    if (const std::optional<bool> held = run_instead()) {
      std::printf("%s: %s\n", mutant.name, *held ? "not caught" : "caught");
      return *held ? 1 : 0;
    }
    for (uint64_t seed = arguments_.first_seed; seed < arguments_.first_seed + arguments_.seeds; ++seed) {
      const auto world = program_.make(seed, arguments_.trace);
      const auto broken = world->run();
      if (!broken) continue;
      std::printf("%s: caught by seed %" PRIu64 ": %s\n", mutant.name, seed,
                  broken->substr(0, broken->find('\n')).c_str());
      end_here(0);
    }
    std::printf("%s: not caught by %" PRIu64 " seeds\n", mutant.name, arguments_.seeds);
    return 1;
  }

  int run_mutants() {
    size_t caught = 0;
    for (const NamedMutant& mutant : program_.mutants) caught += run_mutant(mutant) == 0 ? 1 : 0;
    std::printf("%zu of %zu mutants caught\n", caught, program_.mutants.size());
    return caught == program_.mutants.size() ? 0 : 1;
  }

  const Program& program_;
  Arguments arguments_;
  bool seeds_given_ = false;
  std::string own_words_;
  Summary total_;
};

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  Runner runner(program);
  runner.parse(argc, argv);
  const int code = runner.run();
  return code == 0 ? app::finish_output(program.name) : code;
}

}  // namespace skua::simulation
