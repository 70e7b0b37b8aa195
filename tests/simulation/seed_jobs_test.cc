// Jobs that are processes of their own, with worlds that do as they are told.
#include "tests/simulation/seed_jobs.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>

namespace skua::simulation {
namespace {

using Counts = std::vector<std::pair<std::string, uint64_t>>;

Summary counted(uint64_t number) {
  return {.counts = {{"things", number}, {"other things", 1}},
          .probes = {{"a rare branch", number}},
          .virtual_s = 0.5 * static_cast<double>(number)};
}

JobsResult run(uint64_t jobs, bool stop_early, const std::function<bool(uint64_t, const JobReport&)>& job) {
  Progress progress("seed_jobs_test", 100);
  return run_jobs(jobs, stop_early, progress, job);
}

TEST(SeedJobsTest, SumsWhatAllJobsCounted) {
  const JobsResult result = run(3, true, [](uint64_t number, const JobReport& report) {
    report.begin_world(number);
    report.end(counted(number));
    return true;
  });
  EXPECT_TRUE(result.all_held);
  EXPECT_EQ(result.total.counts, (Counts{{"things", 0 + 1 + 2}, {"other things", 3}}));
  EXPECT_EQ(result.total.probes.at("a rare branch"), 3);
  EXPECT_DOUBLE_EQ(result.total.virtual_s, 1.5);
}

TEST(SeedJobsTest, JobThatSaysNothingCountsNothing) {
  const JobsResult result = run(2, true, [](uint64_t number, const JobReport& report) {
    if (number == 1) report.end(counted(7));
    return true;
  });
  EXPECT_TRUE(result.all_held);
  EXPECT_EQ(result.total.counts, (Counts{{"things", 7}, {"other things", 1}}));
}

TEST(SeedJobsTest, BrokenPromiseOfOneJobIsTheRuns) {
  const JobsResult result = run(2, false, [](uint64_t number, const JobReport& report) {
    report.end(counted(1));
    return number == 1;
  });
  EXPECT_FALSE(result.all_held);
  EXPECT_EQ(result.total.counts, (Counts{{"things", 2}, {"other things", 2}}));
}

TEST(SeedJobsTest, JobThatCrashesBreaksItsPromiseAndItsSeedIsTold) {
  ::testing::internal::CaptureStdout();
  const JobsResult result = run(2, false, [](uint64_t number, const JobReport& report) {
    report.begin_world(40 + number);
    if (number == 1) std::abort();
    return true;
  });
  EXPECT_FALSE(result.all_held);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "seed 41: ended by signal 6\n");
}

TEST(SeedJobsTest, StopsTheOthersEarlyIfAsked) {
  const JobsResult result = run(2, true, [](uint64_t number, const JobReport& report) {
    report.begin_world(number);
    if (number == 0) ::pause();
    return false;
  });
  EXPECT_FALSE(result.all_held);
  EXPECT_TRUE(result.total.counts.empty());
}

}  // namespace
}  // namespace skua::simulation
