// The main function of tests that must find mutants (rpc/base/mutant.h).
//
//   all tests run once as they are, and must pass; then once for each mutant, in a process of its own, and one of them
//   must fail, or the process end
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

/// The exit code of the program: 0 if no mutant survives the tests. The tests must not leave threads behind.
inline int find_mutants(int argc, char** argv, std::span<const NamedMutant> mutants) {
  testing::InitGoogleTest(&argc, argv);
  int survivors = 0;
  for (const NamedMutant& mutant : mutants) {
    const pid_t child = fork();
    if (child == 0) run_with(mutant);
    int status = 0;
    const bool is_over = child > 0 && waitpid(child, &status, 0) == child;
    const bool is_caught = is_over && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    std::printf("mutant %-20s %s\n", mutant.name, is_caught ? "caught" : "SURVIVES");
    std::fflush(stdout);
    survivors += is_caught ? 0 : 1;
  }
  const int without = RUN_ALL_TESTS();
  return survivors > 0 ? 1 : without;
}

}  // namespace skua::simulation

#endif  // SKUA_TESTS_MUTANT_MAIN_H_
