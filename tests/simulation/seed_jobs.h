// A long run of worlds: how far it is, and jobs that run beside each other.
//
// A job is a process of its own, forked from the program. It writes lines into a pipe, which the program reads:
//
//   seed 4711                  begins with this world
//   count 17 NAME              at its end what its worlds counted, a line for each name of a Summary
//   probe 3 NAME
//   virtual_s 1234.5
#ifndef SKUA_TESTS_SIMULATION_SEED_JOBS_H_
#define SKUA_TESTS_SIMULATION_SEED_JOBS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/simulation/summary.h"

namespace skua::simulation {

/// Says on standard error how many worlds have begun, once a minute.
class Progress {
 public:
  Progress(std::string program, uint64_t worlds);
  void count_world();

 private:
  std::string program_;
  uint64_t worlds_;
  uint64_t begun_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_line_;
};

/// A job tells what it does through this.
class JobReport {
 public:
  /// `pipe` stays the caller's.
  explicit JobReport(int pipe) : pipe_(pipe) {}
  void begin_world(uint64_t seed) const;
  void end(const Summary& summary) const;

 private:
  int pipe_;
};

struct JobsResult {
  /// Every job returned true.
  bool all_held = true;
  /// Of the jobs that ran to their end.
  Summary total = {};
};

/// Runs `job(number, report)` in a process for each number below `jobs`, and waits for all of them. A job returns
/// whether its worlds kept their promises. A job that ends by a signal has broken one: the seed of its world is
/// printed. With `stop_early` the other jobs are killed when one has broken a promise.
[[nodiscard]] JobsResult run_jobs(uint64_t jobs, bool stop_early, Progress& progress,
                                  const std::function<bool(uint64_t number, const JobReport& report)>& job);

}  // namespace skua::simulation

#endif  // SKUA_TESTS_SIMULATION_SEED_JOBS_H_
