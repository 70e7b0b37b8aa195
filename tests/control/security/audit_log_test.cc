#include "control/security/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/control/slow_disk.h"
#include "tests/control/temp_dir.h"

namespace skua::control {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class AuditLogTest : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<AuditLog> open(uint64_t file_bytes_max = 8 << 20, int files_max = 8) {
    return open({.path = path_, .file_bytes_max = file_bytes_max, .files_max = files_max});
  }
  [[nodiscard]] std::unique_ptr<AuditLog> open(AuditLogOptions options) {
    options.now = [this] { return now_.load(); };
    auto log = AuditLog::open(std::move(options));
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }

  static AuditEntry call_of(const std::string& who) { return {.event = "call", .fields = {{"who", who}}}; }
  static void write(AuditLog& log, const std::string& who) {
    log.write_change(call_of(who));
    log.flush();
  }

  [[nodiscard]] static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  /// All files of a chain, oldest first.
  [[nodiscard]] std::vector<std::string> files(const std::string& end = "") const {
    const std::string path = path_ + end;
    std::vector<std::string> found = {path};
    for (int n = 1; std::filesystem::exists(absl::StrCat(path, ".", n)); ++n) {
      found.insert(found.begin(), absl::StrCat(path, ".", n));
    }
    return found;
  }

  /// What happened, of lines that join; what does not is told.
  [[nodiscard]] std::vector<std::string> events(const std::string& end = "") const {
    std::vector<std::string> events;
    AuditVerifier verifier;
    for (const std::string& file : files(end)) {
      verifier.next_file();
      std::istringstream lines(read(file));
      for (std::string line; std::getline(lines, line);) {
        if (const absl::Status status = verifier.take(line); !status.ok()) {
          events.emplace_back(status.message());
          return events;
        }
        const auto parsed = parse_audit_line(line);
        events.push_back(parsed->event);
        for (const auto& [name, value] : parsed->fields) absl::StrAppend(&events.back(), " ", value);
      }
    }
    return events;
  }

  TempDir directory_;
  const std::string path_ = directory_.path() + "/audit.jsonl";
  std::atomic<WallMillis> now_{0};
  SlowDisk disk_;
};

TEST_F(AuditLogTest, TheChainGoesOnOverRestarts) {
  write(*open(), "a");
  write(*open(), "b");
  const auto log = open();
  EXPECT_EQ(log->head().sequence, 3U);
  EXPECT_THAT(events(), ElementsAre("begin", "call a", "call b"));
}

TEST_F(AuditLogTest, NobodyElseReadsIt) {
  put("");
  chmod(path_.c_str(), 0644);
  const auto log = open();
  struct stat about {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
}

TEST_F(AuditLogTest, HasOneWriter) {
  const auto log = open();
  const auto second = AuditLog::open({.path = path_});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process writes to"));
}

TEST_F(AuditLogTest, OtherFilesAreLeftAlone) {
  put("my notes");
  EXPECT_THAT(std::string(AuditLog::open({.path = path_}).status().message()), HasSubstr("is no audit log"));
  EXPECT_EQ(read(path_), "my notes");
  EXPECT_THAT(std::string(AuditLog::open({.path = directory_.path()}).status().message()),
              HasSubstr("cannot be opened"));
  EXPECT_THAT(std::string(AuditLog::open({.path = "/dev/null"}).status().message()), HasSubstr("is no file"));
  EXPECT_THAT(std::string(AuditLog::open({.path = directory_.path() + "/no/log"}).status().message()),
              HasSubstr("No such file"));
}

TEST_F(AuditLogTest, FilesAreLimitedAndTheChainGoesOnAcrossThem) {
  {
    const auto log = open(1000, 4);
    for (int i = 0; i < 40; ++i) write(*log, absl::StrCat("caller ", i));
  }
  EXPECT_EQ(files().size(), 4U);
  for (const std::string& file : files()) EXPECT_LT(read(file).size(), 1300U);
  std::vector<std::string> told = events();
  EXPECT_EQ(told.back(), "call caller 39");
  // Also when a file is full at the start.
  const auto log = open(1, 4);
  write(*log, "next");
  told = events();
  EXPECT_EQ(told.back(), "call next");
  EXPECT_EQ(told[told.size() - 2], "begin");
  EXPECT_EQ(files().size(), 4U);
}

TEST_F(AuditLogTest, AFileThatIsMissingIsFound) {
  {
    const auto log = open(1000, 8);
    for (int i = 0; i < 15; ++i) write(*log, "a");
  }
  ASSERT_GE(files().size(), 3U);
  std::filesystem::rename(path_ + ".2", path_ + ".1");
  EXPECT_THAT(events().back(), HasSubstr("are missing"));
}

TEST_F(AuditLogTest, ATornLineIsCutOff) {
  write(*open(), "a");
  write(*open(), "b");
  const std::string whole = read(path_);
  const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t cut = last + 1; cut < whole.size(); ++cut) {
    put(whole.substr(0, cut));
    write(*open(), "c");
    ASSERT_THAT(events(), ElementsAre("begin", "call a", absl::StrCat("torn ", cut - last), "call c"));
  }
  // As a power cut leaves it on some file systems.
  put(whole + std::string(100, '\0'));
  write(*open(), "c");
  EXPECT_THAT(events(), ElementsAre("begin", "call a", "call b", "torn 100", "call c"));
}

TEST_F(AuditLogTest, ATornFirstLineIsCutOff) {
  write(*open(), "a");
  const std::string whole = read(path_);
  for (const std::string& start : {whole.substr(0, 1), whole.substr(0, 60), std::string(5, '\0')}) {
    put(start);
    write(*open(), "b");
    ASSERT_THAT(events(), ElementsAre("begin", absl::StrCat("torn ", start.size()), "call b"));
  }
}

/// The process ended after the file was renamed, and before the next one had a line.
TEST_F(AuditLogTest, ARotationThatWasInterruptedGoesOn) {
  for (const bool is_there : {false, true}) {
    write(*open(), "a");
    std::filesystem::rename(path_, path_ + ".1");
    if (is_there) put("");
    write(*open(), "b");
    EXPECT_THAT(events(), ElementsAre("begin", "call a", "begin", "call b"));
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".1");
  }
}

/// What was changed stays visible, and the log goes on.
TEST_F(AuditLogTest, ADamagedLastLineBeginsANewChain) {
  write(*open(), "a");
  std::string bytes = read(path_);
  bytes[bytes.size() - 100] ^= 1;
  put(bytes);
  write(*open(), "b");
  EXPECT_EQ(read(path_ + ".1"), bytes);
  EXPECT_THAT(events(), ElementsAre("begin", HasSubstr("was changed")));
  std::filesystem::remove(path_ + ".1");
  EXPECT_THAT(events(), ElementsAre(HasSubstr("begin the lines before cannot be continued"), "call b"));
}

TEST_F(AuditLogTest, ALineWithoutEndBeginsANewChain) {
  put("{" + std::string(5 * kAuditLineMax, 'x'));
  write(*open(), "b");
  EXPECT_THAT(events(), ElementsAre(HasSubstr("it is too long")));
  EXPECT_EQ(std::filesystem::file_size(path_ + ".1"), 5 * kAuditLineMax + 1);
}

/// The next file cannot be made because its directory is gone.
TEST_F(AuditLogTest, SaysHowManyLinesWereLost) {
  const auto log = open(1);
  write(*log, "a");
  EXPECT_EQ(log->trouble(), "");
  const std::string moved = directory_.path() + "-moved";
  std::filesystem::rename(directory_.path(), moved);
  write(*log, "b");
  write(*log, "c");
  EXPECT_THAT(log->trouble(), HasSubstr("2 lines are lost"));
  std::filesystem::rename(moved, directory_.path());
  write(*log, "d");
  EXPECT_EQ(log->trouble(), "");
  const std::vector<std::string> told = events();
  EXPECT_THAT(told, Contains("lost 2"));
  EXPECT_EQ(told.back(), "call d");
}

/// Nobody else may be refused for long.
TEST_F(AuditLogTest, WhatWasLostOfRefusalsIsToldWithTheNextChange) {
  const auto log = open(1);
  log->write_other({.event = "refused"});
  log->flush();
  const std::string moved = directory_.path() + "-moved";
  std::filesystem::rename(directory_.path(), moved);
  log->write_other({.event = "refused"});
  log->flush();
  EXPECT_THAT(log->trouble(), HasSubstr("1 line is lost"));
  std::filesystem::rename(moved, directory_.path());
  write(*log, "a");
  EXPECT_EQ(log->trouble(), "");
}

TEST_F(AuditLogTest, WhatChangedNothingHasFilesOfItsOwn) {
  {
    const auto log = open(1000, 3);
    write(*log, "ada");
    for (int i = 0; i < 100; ++i) log->write_other({.event = "refused", .fields = {{"who", "eve"}}});
    log->flush();
    write(*log, "bob");
  }
  EXPECT_THAT(events(), ElementsAre("begin", "call ada", "call bob"));
  EXPECT_EQ(files(".refused").size(), 3U);
  const std::vector<std::string> others = events(".refused");
  EXPECT_EQ(others.front(), "begin refusals");
  EXPECT_EQ(others.back(), "refused eve");
  const auto log = open();
  EXPECT_EQ(log->head().sequence, 3U);
  EXPECT_GT(log->head(AuditChain::kOthers).sequence, 100U);
  EXPECT_EQ(log->path(AuditChain::kOthers), path_ + ".refused");
}

TEST_F(AuditLogTest, AChangeIsToldOfWhenItIsOnTheDisk) {
  const auto log = open({.path = path_, .sync = disk_.sync()});
  disk_.hang();
  std::atomic<bool> told = false;
  log->write_change(call_of("ada"), [&] { told = true; });
  disk_.wait_until_asked();
  EXPECT_FALSE(told);
  disk_.go();
  log->flush();
  EXPECT_TRUE(told);
}

TEST_F(AuditLogTest, OnlyChangesAreSynced) {
  const auto log = open({.path = path_, .sync = disk_.sync()});
  for (int i = 0; i < 10; ++i) log->write_other(call_of("eve"));
  log->flush();
  EXPECT_EQ(disk_.count(), 0);
  write(*log, "ada");
  EXPECT_EQ(disk_.count(), 1);
}

TEST_F(AuditLogTest, ChangesThatWaitTogetherAreSyncedTogether) {
  const auto log = open({.path = path_, .sync = disk_.sync()});
  disk_.hang();
  log->write_change(call_of("first"));
  disk_.wait_until_asked();
  for (int i = 0; i < 50; ++i) log->write_change(call_of(absl::StrCat(i)));
  disk_.go();
  log->flush();
  EXPECT_EQ(disk_.count(), 2);
  EXPECT_EQ(events().back(), "call 49");
}

TEST_F(AuditLogTest, ADiskThatHangsHoldsNobodyUp) {
  const auto log =
      open({.path = path_, .changes_queued_max_bytes = 4'000, .others_queued_max_bytes = 2'000, .sync = disk_.sync()});
  disk_.hang();
  log->write_change(call_of("ada"));
  disk_.wait_until_asked();
  EXPECT_EQ(log->trouble(), "");
  now_ = 6'000;
  EXPECT_THAT(log->trouble(), HasSubstr("has not taken a line for 6 s"));
  EXPECT_EQ(log->head().sequence, 1U);
  // What finds no room is lost, and nobody waits for it. Neither chain takes the other's room.
  std::atomic<int> told = 0;
  for (int i = 0; i < 100; ++i) log->write_other(call_of("eve"));
  for (int i = 0; i < 100; ++i) log->write_change(call_of("bob"), [&] { ++told; });
  const int lost = told;
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 100);
  EXPECT_THAT(log->trouble(), HasSubstr("lines are lost"));
  disk_.go();
  log->flush();
  EXPECT_EQ(told, 100);
  write(*log, "cid");
  log->write_other(call_of("eve"));
  log->flush();
  EXPECT_EQ(log->trouble(), "");
  const std::vector<std::string> changes = events();
  EXPECT_EQ(changes[changes.size() - 2], absl::StrCat("lost ", lost));
  EXPECT_EQ(changes.back(), "call cid");
  const std::vector<std::string> others = events(".refused");
  EXPECT_THAT(others[others.size() - 2], HasSubstr("lost "));
}

TEST_F(AuditLogTest, TheEndWritesWhatIsQueued) {
  auto log = open({.path = path_, .sync = disk_.sync()});
  disk_.hang();
  int told = 0;
  for (int i = 0; i < 10; ++i) log->write_change(call_of("ada"), [&] { ++told; });
  log->write_other(call_of("eve"));
  disk_.wait_until_asked();
  std::thread ends([&] { log.reset(); });
  disk_.go();
  ends.join();
  EXPECT_EQ(told, 10);
  EXPECT_EQ(events().size(), 11U);
  EXPECT_EQ(events(".refused").size(), 2U);
}

TEST_F(AuditLogTest, TroubleOfTheDiskEndsWithTheNextLineThatIsOnIt) {
  const auto log = open({.path = path_, .sync = disk_.sync()});
  disk_.fail(true);
  write(*log, "ada");
  EXPECT_THAT(log->trouble(), HasSubstr("cannot be synced"));
  log->write_other(call_of("eve"));
  log->flush();
  EXPECT_THAT(log->trouble(), HasSubstr("cannot be synced"));
  disk_.fail(false);
  write(*log, "bob");
  EXPECT_EQ(log->trouble(), "");
}

TEST_F(AuditLogTest, ALineThatIsNotSyncedEndsNoTrouble) {
  const auto files = AuditFiles::open({.path = path_, .now = [] { return 0; }, .sync = disk_.sync()}).value();
  disk_.fail(true);
  files->write(call_of("ada"));
  files->sync();
  EXPECT_THAT(files->trouble(), HasSubstr("cannot be synced"));
  files->write(call_of("bob"));
  EXPECT_THAT(files->trouble(), HasSubstr("cannot be synced"));
  disk_.fail(false);
  files->sync();
  EXPECT_EQ(files->trouble(), "");
}

TEST_F(AuditLogTest, ManyThreadsMakeOneChain) {
  constexpr int kThreads = 4;
  constexpr int kLines = 50;
  const auto log = open(2000, 100);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < kLines; ++i) write(*log, absl::StrCat("thread ", t));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> told = events();
  EXPECT_EQ(std::count_if(told.begin(), told.end(), [](const auto& event) { return event.starts_with("call thread"); }),
            kThreads * kLines);
}

}  // namespace
}  // namespace skua::control
