// A program's exit codes and what it prints, with worlds that do as they are told.
#include "tests/simulation/seed_runner.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_split.h"

namespace skua::simulation {
namespace {

uint64_t g_broken_seed = 0;  // 0: none
bool g_replays = true;
bool g_aborts = false;
bool g_other = false;

class FakeWorld final : public World {
 public:
  explicit FakeWorld(uint64_t seed) : seed_(seed) {}
  std::optional<std::string> run() override {
    if (g_aborts) std::abort();
    return seed_ == g_broken_seed ? std::optional<std::string>("it broke") : std::nullopt;
  }
  [[nodiscard]] uint64_t trace() const override {
    static uint64_t asked = 0;
    return g_replays ? seed_ : ++asked;
  }
  [[nodiscard]] Summary summary() const override {
    return {.counts = {{"things", seed_}}, .probes = {{"odd", seed_ % 2}, {"rare", seed_ == 9 ? 1 : 0}}};
  }

 private:
  uint64_t seed_;
};

const NamedMutant kMutants[] = {
    mutant_of<g_broken_seed>("breaks", 7),
    mutant_of<g_aborts>("aborts", true),
    mutant_of<g_replays>("harmless", true),
};

/// What `fake_sim` prints on standard output, and its exit code.
std::pair<std::string, int> run(const std::string& arguments) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    std::vector<std::string> words = absl::StrSplit("fake_sim " + arguments, ' ', absl::SkipEmpty());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    const Program program{
        .name = "fake_sim",
        .about = "worlds that do as they are told",
        .make = [](uint64_t seed, bool /*trace*/) { return std::make_unique<FakeWorld>(seed); },
        .mutants = kMutants,
        .probes =
            [] {
              return std::vector<std::string>{"odd", "rare"};
            },
        .covering_seeds = 100,
        .seeds = 3,
        .seeds_of_a_mutant = 20,
        .declare =
            [](app::Command& line) {
              line.add_int("break", &g_broken_seed, "This seed breaks.");
              line.add_bool("replays", &g_replays, "Whether traces are equal.");
              line.add_bool("other", &g_other, "No worlds.");
            },
        .run_instead = [](uint64_t first,
                          uint64_t) { return g_other ? std::optional<bool>(first == 2) : std::nullopt; },
    };
    const int code = run_program(program, static_cast<int>(argv.size()), argv.data());
    std::fflush(stdout);
    _exit(code);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

TEST(SeedRunnerTest, SumsWhatItsWorldsCount) {
  const auto [text, code] = run("");
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(text.starts_with("3 seeds: 6 things; ")) << text;
  EXPECT_TRUE(text.ends_with("\nprobes: odd 2\n")) << text;
}

TEST(SeedRunnerTest, BrokenSeedSaysHowToReplayIt) {
  EXPECT_EQ(run("--break 2 --first-seed 1 --seeds=9 --keep-going=false"),
            std::pair(std::string("seed 2: it broke\nreplay: fake_sim --break 2 --seed 2 --trace\n"), 1));
  EXPECT_EQ(run("--break 2 --seed 3").second, 0);
}

TEST(SeedRunnerTest, KeepsGoingIfAsked) {
  const auto [text, code] = run("--break 2 --keep-going");
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(text.starts_with("seed 2: it broke\n3 seeds: 6 things; ")) << text;
}

TEST(SeedRunnerTest, JobsShareTheSeeds) {
  const auto [text, code] = run("--jobs 2 --seeds 9 --probes");
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(text.starts_with("9 seeds: 45 things; ")) << text;
  EXPECT_TRUE(text.ends_with("\nprobes: odd 5, rare 1\n")) << text;
  EXPECT_EQ(run("--jobs 2 --seeds 8 --probes").second, 1);
}

TEST(SeedRunnerTest, BrokenSeedOfAJobSaysHowToReplayIt) {
  EXPECT_EQ(run("--break 2 --jobs 2"),
            std::pair(std::string("seed 2: it broke\nreplay: fake_sim --break 2 --seed 2 --trace\n"), 1));
  const auto [text, code] = run("--break 2 --jobs 2 --keep-going");
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(text.starts_with("seed 2: it broke\n3 seeds: 6 things; ")) << text;
}

TEST(SeedRunnerTest, TracesMustBeEqual) {
  EXPECT_EQ(run("--replay").second, 0);
  EXPECT_EQ(run("--no-replays").second, 0);
  EXPECT_EQ(run("--no-replays --replay"), std::pair(std::string("seed 1 does not replay\n"), 1));
  EXPECT_EQ(run("--no-replays --seed 50").second, 1) << "every 50th seed is run again anyway";
}

TEST(SeedRunnerTest, ProbesMustBeHit) {
  EXPECT_EQ(run("--probes").second, 1);
  EXPECT_TRUE(run("--probes").first.ends_with("\nnever hit: rare\n"));
  EXPECT_EQ(run("--probes --seeds 9").second, 0);
  EXPECT_EQ(run("--first-seed 10 --seeds 99").second, 0);
  EXPECT_EQ(run("--first-seed 10 --seeds 100").second, 1) << "so many seeds cover everything";
}

TEST(SeedRunnerTest, MutantsMustBeCaught) {
  EXPECT_EQ(run("--mutant breaks"), std::pair(std::string("breaks: caught by seed 7: it broke\n"), 0));
  EXPECT_EQ(run("--mutant breaks --seeds 6"), std::pair(std::string("breaks: not caught by 6 seeds\n"), 1));
  EXPECT_EQ(run("--mutant aborts"), std::pair(std::string("aborts: caught by a check\n"), 0));
  const auto [text, code] = run("--mutants");
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(text.ends_with("\nharmless: not caught by 20 seeds\n2 of 3 mutants caught\n")) << text;
}

TEST(SeedRunnerTest, RunsSomethingElseIfAsked) {
  EXPECT_EQ(run("--other --seed 2"), std::pair(std::string(), 0));
  EXPECT_EQ(run("--other"), std::pair(std::string(), 1));
  EXPECT_EQ(run("--other --mutant harmless"), std::pair(std::string("harmless: caught\n"), 0));
}

TEST(SeedRunnerTest, WrongUsageIsRefused) {
  for (const char* words : {"--sede 3", "--seeds", "--seeds x", "--seeds 0", "--mutant none", "--jobs 0", "more"}) {
    EXPECT_EQ(run(words), std::pair(std::string(), 2)) << words;
  }
}

}  // namespace
}  // namespace skua::simulation
