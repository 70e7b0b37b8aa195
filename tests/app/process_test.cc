#include "app/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace skua::app {
namespace {

TEST(ProcessDeathTest, CheckProcess_FewFilesAreAnError) {
  const auto run = [] {
    const rlimit few{.rlim_cur = 16, .rlim_max = 16};
    setrlimit(RLIMIT_NOFILE, &few);
    check_process("skuad", 64);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(2),
              "^skuad: only 16 files may be open here, and it needs 64 at least: raise the limit with ulimit -n 65536");
}

TEST(ProcessDeathTest, CheckProcess_RaisesTheSoftLimit) {
  const auto run = [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t most = limit.rlim_max;
    limit.rlim_cur = 16;
    setrlimit(RLIMIT_NOFILE, &limit);
    check_process("skuad", 64);
    getrlimit(RLIMIT_NOFILE, &limit);
    std::exit(limit.rlim_cur == most ? 0 : 1);  // NOLINT(concurrency-mt-unsafe): one thread
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(ProcessDeathTest, CheckProcess_NoFileTakesAClosedStream) {
  const auto run = [] {
    close(STDOUT_FILENO);
    check_process("skuad", 16);
    const bool free_number = open("/dev/null", O_RDONLY) > STDERR_FILENO;
    std::exit(free_number && write(STDOUT_FILENO, "x", 1) < 0 ? 0 : 1);  // NOLINT(concurrency-mt-unsafe): one thread
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(CheckThreads, ThatAreToBeHadAreFine) {
  EXPECT_TRUE(check_threads("a test", 0).ok());
  EXPECT_TRUE(check_threads("a test", 50).ok());
}

}  // namespace
}  // namespace skua::app
