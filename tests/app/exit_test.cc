#include "app/exit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

namespace skua::app {
namespace {

TEST(ExitDeathTest, FailUsage_OneLineAndCodeTwo) {
  EXPECT_EXIT(fail_usage("skuad", "port 7400 is in use;\nstop the other one\n"), testing::ExitedWithCode(2),
              "^skuad: port 7400 is in use; stop the other one\n$");
}

TEST(ExitDeathTest, Fail_NothingThatATerminalObeys) {
  EXPECT_EXIT(fail("skuad", "no option \x1b[31m\x80"), testing::ExitedWithCode(1),
              "^skuad: no option \\\\x1b\\[31m\\\\x80\n$");
  EXPECT_LT(error_line("skuad", std::string(1 << 20, 'x')).size(), 5000u);
}

void put_stdout(const char* path) {
  const int fd = open(path, O_WRONLY);
  dup2(fd, STDOUT_FILENO);
}

void finish_and_exit() {
  std::exit(finish_output("skuad"));  // NOLINT(concurrency-mt-unsafe): one thread
}

constexpr char kDiskFull[] = "^skuad: cannot write to standard output: No space left on device\n$";

TEST(FinishOutputDeathTest, AFullDeviceIsAnError) {
  EXPECT_EXIT((put_stdout("/dev/full"), std::fputs("text", stdout), finish_and_exit()), testing::ExitedWithCode(1),
              kDiskFull);
  EXPECT_EXIT((put_stdout("/dev/full"), std::cout << "text", finish_and_exit()), testing::ExitedWithCode(1), kDiskFull);
}

TEST(FinishOutputDeathTest, WhatWasLostBeforeCounts) {
  const auto run = [] {
    put_stdout("/dev/full");
    std::fputs("text", stdout);
    std::fflush(stdout);
    finish_and_exit();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1), kDiskFull);
}

TEST(FinishOutputDeathTest, AllThere) {
  EXPECT_EXIT((put_stdout("/dev/null"), std::fputs("text", stdout), finish_and_exit()), testing::ExitedWithCode(0),
              "^$");
  EXPECT_EXIT((put_stdout("/dev/full"), finish_and_exit()), testing::ExitedWithCode(0), "^$");
}

TEST(FinishOutputDeathTest, AReaderThatWentAwayNeedsNoLine) {
  const auto run = [] {
    int ends[2];
    if (pipe(ends) != 0) return;
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    std::signal(SIGPIPE, SIG_IGN);
    std::fputs("text", stdout);
    finish_and_exit();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1), "^$");
}

TEST(ExitDeathTest, Fail_CodeOne) {
  EXPECT_EXIT(fail("skuad", "disk full"), testing::ExitedWithCode(1), "^skuad: disk full\n$");
}

}  // namespace
}  // namespace skua::app
