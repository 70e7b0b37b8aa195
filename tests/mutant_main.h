// The main function of tests that must find mutants (rpc/base/mutant.h).
//
//   all tests run once as they are, and must pass; then once for each mutant, and one of them must fail, or the process
//   end. Each run is a process of its own.
//
// With an option of googletest's (--gtest_filter) the tests run as they are, once.
#ifndef SKUA_TESTS_MUTANT_MAIN_H_
#define SKUA_TESTS_MUTANT_MAIN_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <span>

#include "tests/simulation/seed_runner.h"

namespace skua::simulation {

/// In a child: what the tests say of a fault that is meant to be there is of no use.
[[noreturn]] inline void run_with(const NamedMutant& mutant) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  mutant.arm();
  _exit(RUN_ALL_TESTS());
}

/// Whether a process with the mutant, or null: without any, passes all tests.
inline bool passes(const NamedMutant* mutant) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0 && mutant != nullptr) run_with(*mutant);
  if (child == 0) _exit(RUN_ALL_TESTS());
  int status = 0;
  const bool is_over = child > 0 && waitpid(child, &status, 0) == child;
  return is_over && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The exit code of the program: 0 if the tests pass and no mutant survives them. The tests leave no threads behind.
inline int find_mutants(int argc, char** argv, std::span<const NamedMutant> mutants) {
  const bool asks_for_some = argc > 1;
  testing::InitGoogleTest(&argc, argv);
  if (asks_for_some) return RUN_ALL_TESTS();
  // Tests that fail anyhow catch nothing.
  if (!passes(nullptr)) return 1;
  bool all_caught = true;
  for (const NamedMutant& mutant : mutants) {
    const bool survives = passes(&mutant);
    std::printf("mutant %-20s %s\n", mutant.name, survives ? "SURVIVES" : "caught");
    all_caught = all_caught && !survives;
  }
  return all_caught ? 0 : 1;
}

}  // namespace skua::simulation

#endif  // SKUA_TESTS_MUTANT_MAIN_H_
