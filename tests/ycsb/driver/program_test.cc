// The program itself: signals, a real Redis and a real memcached.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/ycsb/memcached_server.h"
#include "tests/ycsb/redis_server.h"

namespace skua::ycsb {
namespace {

/// A child process whose standard output is read.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    arguments.insert(arguments.begin(), SKUA_YCSB_PROGRAM);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_);
  }

  /// Reads until `wanted` has appeared; false at the end of output.
  bool read_until(const std::string& wanted) {
    while (text_.find(wanted) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  /// Reads to the end; the exit code.
  int finish() {
    while (read_some()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void signal(int number) const { kill(pid_, number); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  bool read_some() {
    char buffer[4096];
    const ssize_t count = read(output_, buffer, sizeof buffer);
    if (count <= 0) return false;
    text_.append(buffer, static_cast<size_t>(count));
    return true;
  }

  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
};

TEST(Program, Interrupt_StillReports) {
  Child child({"run", "basic", "-p", "recordcount=1000", "-p", "operationcount=0", "-target", "500", "-s", "-p",
               "status.interval=1"});
  ASSERT_TRUE(child.read_until("1 sec: ")) << child.text();
  child.signal(SIGINT);
  EXPECT_EQ(child.finish(), 130) << child.text();
  EXPECT_NE(child.text().find("[OVERALL], Throughput(ops/sec), "), std::string::npos);
}

TEST(Program, UnknownFlag_ExitCode2) {
  Child child({"run", "basic", "--turbo"});
  EXPECT_EQ(child.finish(), 2);
}

class ProgramWithRedis : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(SKUA_YCSB_BINDINGS).find("redis") == std::string::npos)
      GTEST_SKIP() << "the binding redis was left out of this build (no hiredis)";
    if (!RedisServer::installed()) GTEST_SKIP() << "redis-server is not on PATH";
    server_ = std::make_unique<RedisServer>();
    ASSERT_TRUE(server_->running()) << "redis-server does not start";
  }

  std::string run(const std::string& phase, const std::string& workload, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {phase, "redis",
                                          "-P",  std::string(SKUA_YCSB_WORKLOADS) + "/" + workload,
                                          "-p",  "redis.port=" + std::to_string(server_->port()),
                                          "-p",  "fieldcount=3",
                                          "-p",  "fieldlength=40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Child child(arguments);
    EXPECT_EQ(child.finish(), 0) << child.text();
    return child.text();
  }

  std::unique_ptr<RedisServer> server_;
};

TEST_F(ProgramWithRedis, LoadThenEveryWorkload) {
  const std::string load = run("load", "workloada", {"-threads", "2", "-inflight", "16"});
  EXPECT_NE(load.find("[INSERT], Return=OK, 1000\n"), std::string::npos) << load;
  for (const char* workload : {"workloada", "workloadb", "workloadc", "workloadf", "workloadd", "workloade"}) {
    const std::string text = run("run", workload, {"-threads", "2", "-inflight", "8"});
    EXPECT_EQ(text.find("FAILED"), std::string::npos) << workload << "\n" << text;
    EXPECT_NE(text.find("Return=OK"), std::string::npos);
  }
}

TEST_F(ProgramWithRedis, DataIntegrity) {
  run("load", "workloada", {"-p", "dataintegrity=true", "-inflight", "16"});
  const std::string text = run("run", "workloadf", {"-p", "dataintegrity=true", "-inflight", "16"});
  std::smatch match;
  ASSERT_TRUE(std::regex_search(text, match, std::regex(R"(\[VERIFY\], Return=OK, (\d+))"))) << text;
  EXPECT_EQ(match[1], "1000");
  EXPECT_EQ(text.find("[VERIFY], Return=UNEXPECTED_STATE"), std::string::npos);
}

TEST_F(ProgramWithRedis, ServerKilledMeanwhile) {
  run("load", "workloada");
  Child child({"run", "redis", "-p", "recordcount=1000", "-p", "operationcount=0", "-s", "-p", "status.interval=1",
               "-p", "redis.port=" + std::to_string(server_->port()), "-inflight", "4"});
  ASSERT_TRUE(child.read_until("1 sec: ")) << child.text();
  server_->stop(SIGKILL);
  EXPECT_EQ(child.finish(), 1);
  EXPECT_NE(child.text().find("lost the connection to redis at 127.0.0.1"), std::string::npos) << child.text();
  EXPECT_NE(child.text().find("[READ], Operations, "), std::string::npos);
}

TEST(ProgramWithMemcached, LoadThenEveryWorkloadWithoutScans) {
  if (!MemcachedServer::installed()) GTEST_SKIP() << "memcached is not on PATH";
  const MemcachedServer server;
  ASSERT_TRUE(server.running()) << "memcached does not start";
  const auto run = [&](const std::string& phase, const std::string& workload, int code = 0) {
    Child child({phase, "memcached", "-P", std::string(SKUA_YCSB_WORKLOADS) + "/" + workload, "-p",
                 "memcached.port=" + std::to_string(server.port()), "-p", "fieldcount=3", "-p", "dataintegrity=true",
                 "-threads", "2", "-inflight", "8"});
    EXPECT_EQ(child.finish(), code) << child.text();
    return child.text();
  };
  EXPECT_NE(run("load", "workloada").find("[INSERT], Return=OK, 1000\n"), std::string::npos);
  for (const char* workload : {"workloada", "workloadb", "workloadc", "workloadf", "workloadd"}) {
    const std::string text = run("run", workload);
    EXPECT_EQ(text.find("FAILED"), std::string::npos) << workload << "\n" << text;
    EXPECT_EQ(text.find("[VERIFY], Return=UNEXPECTED_STATE"), std::string::npos) << workload << "\n" << text;
  }
  const std::string scans = run("run", "workloade", 1);
  EXPECT_NE(scans.find("[SCAN], Return=NOT_IMPLEMENTED, "), std::string::npos);
  EXPECT_NE(scans.find("MOST OPERATIONS FAILED"), std::string::npos);
}

TEST(ProgramWithRocksdb, LoadThenEveryWorkload) {
  std::string directory = (std::filesystem::temp_directory_path() / "skua-ycsb-program-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const auto run = [&](const std::string& phase, const std::string& workload) {
    Child child({phase, "rocksdb", "-P", std::string(SKUA_YCSB_WORKLOADS) + "/" + workload, "-p",
                 "rocksdb.dir=" + directory, "-p", "fieldcount=3", "-p", "dataintegrity=true", "-threads", "2"});
    EXPECT_EQ(child.finish(), 0) << child.text();
    return child.text();
  };
  EXPECT_NE(run("load", "workloada").find("[INSERT], Return=OK, 1000\n"), std::string::npos);
  for (const char* workload : {"workloada", "workloadb", "workloadc", "workloadf", "workloadd", "workloade"}) {
    const std::string text = run("run", workload);
    EXPECT_EQ(text.find("FAILED"), std::string::npos) << workload << "\n" << text;
    EXPECT_EQ(text.find("[VERIFY], Return=UNEXPECTED_STATE"), std::string::npos) << workload << "\n" << text;
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

TEST_F(ProgramWithRedis, NobodyThere) {
  server_->stop(SIGKILL);
  Child child({"run", "redis", "-p", "redis.port=" + std::to_string(server_->port())});
  EXPECT_EQ(child.finish(), 1);
  EXPECT_NE(child.text().find("cannot connect to redis at 127.0.0.1"), std::string::npos) << child.text();
}

}  // namespace
}  // namespace skua::ycsb
