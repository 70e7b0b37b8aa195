#include "app/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

TEST(LockFile, Acquire_CreatesTheDirectory) {
  const TempDir dir;
  const std::string deep = dir.path() + "/a/b";
  auto lock = DirectoryLock::acquire(deep, "skuad");
  ASSERT_TRUE(lock.ok()) << lock.status();
  struct stat info {};
  ASSERT_EQ(stat(deep.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750u);
  EXPECT_EQ(dir.read("a/b/skua.lock"), std::to_string(getpid()) + " skuad\n");
}

TEST(LockFile, Acquire_NoDirectoryCanBeThere) {
  const TempDir dir;
  const std::string file = dir.write("file", "x");
  EXPECT_EQ(DirectoryLock::acquire(file + "/d", "skuad").status().message(),
            "cannot make the data directory " + file + "/d: Not a directory; give another --data-dir");
}

TEST(LockFile, Acquire_NoDirectoryIsCalledLikeAHome) {
  EXPECT_THAT(std::string(DirectoryLock::acquire("~/no-such-directory", "skuad").status().message()),
              testing::HasSubstr("begins with ~"));
  EXPECT_FALSE(std::filesystem::exists("~"));
}

TEST(LockFile, Acquire_SaysWhoHoldsIt) {
  const TempDir dir;
  auto first = DirectoryLock::acquire(dir.path(), "skuad");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DirectoryLock::acquire(dir.path(), "skua-control");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.status().message(), "the data directory " + dir.path() + " is in use by process " +
                                           std::to_string(getpid()) +
                                           " (skuad); stop it, or give this one another --data-dir");
}

TEST(LockFile, Acquire_AfterTheHolderLetGo) {
  const TempDir dir;
  {
    auto first = DirectoryLock::acquire(dir.path(), "skuad");
    ASSERT_TRUE(first.ok()) << first.status();
    const DirectoryLock moved = *std::move(first);
    EXPECT_FALSE(DirectoryLock::acquire(dir.path(), "skuad").ok());
  }
  EXPECT_TRUE(DirectoryLock::acquire(dir.path(), "skuad").ok());
}

TEST(LockFile, Acquire_AfterTheHolderWasKilled) {
  const TempDir dir;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = DirectoryLock::acquire(dir.path(), "skuad");
    (void)!write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(std::string(DirectoryLock::acquire(dir.path(), "skuad").status().message()),
              testing::HasSubstr("process " + std::to_string(child) + " (skuad)"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(DirectoryLock::acquire(dir.path(), "skuad").ok());
  close(ready[0]);
  close(ready[1]);
}

TEST(LockFile, Acquire_NotADirectory) {
  const TempDir dir;
  const std::string file = dir.write("file", "");
  const auto lock = DirectoryLock::acquire(file, "skuad");
  EXPECT_FALSE(lock.ok());
  EXPECT_THAT(std::string(lock.status().message()), testing::HasSubstr(file));
}

}  // namespace
}  // namespace skua::app
