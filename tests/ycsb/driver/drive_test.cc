// The whole driver in this process, with `basic`.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <thread>

#include "ycsb/bindings/basic.h"
#include "ycsb/driver/driver.h"

namespace skua::ycsb {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

/// Of a hundred operations, failing.percent end with failing.status. Belongs to the thread that opened it, as sessions
/// may.
class FailingSession final : public BindingSession {
 public:
  FailingSession(uint64_t percent, Status status) : percent_(percent), status_(status) {}
  ~FailingSession() override { EXPECT_EQ(std::this_thread::get_id(), owner_); }
  void submit(const Operation& /*op*/, CompletionFn done) override {
    OpResult result(count_++ % 100 < percent_ ? status_ : Status::kOk);
    if (!is_ok(result.status)) result.message = "the test wants it";
    done(result);
  }
  absl::Status poll(DurationNs /*timeout*/) override { return absl::OkStatus(); }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  const uint64_t percent_;
  const Status status_;
  uint64_t count_ = 0;
};

class FailingBinding final : public Binding {
 public:
  explicit FailingBinding(const BindingContext& context) : properties_(context.properties) {}
  absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& /*options*/) override {
    PropertyReader in(properties_);
    if (opened_++ >= in.whole("failing.opens", UINT64_MAX, 0, UINT64_MAX)) {
      return absl::UnavailableError("no session: the test wants it");
    }
    const uint64_t percent = in.whole("failing.percent", 100, 0, 100);
    const std::string name = in.text("failing.status", "NOT_FOUND");
    const auto at = std::find(kStatusNames.begin(), kStatusNames.end(), name) - kStatusNames.begin();
    return std::make_unique<FailingSession>(percent, static_cast<Status>(at));
  }

 private:
  const Properties& properties_;
  std::atomic<uint64_t> opened_{0};
};

constexpr std::array<std::array<std::string_view, 3>, 3> kFailingProperties = {
    {{"failing.percent", "100", ""}, {"failing.status", "NOT_FOUND", ""}, {"failing.opens", "all", ""}}};

absl::StatusOr<std::string> read_whole_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(path + ": No such file or directory");
  return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Outcome run(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const BindingEntry failing = {.name = "failing",
                                .java_class = "",
                                .help = "",
                                .properties = kFailingProperties,
                                .make = [](const BindingContext& context) -> absl::StatusOr<std::unique_ptr<Binding>> {
                                  return std::make_unique<FailingBinding>(context);
                                }};
  const std::vector<BindingEntry> bindings = {basic_binding(), failing};
  const int code = drive(arguments, bindings, {.read_file = &read_whole_file}, out, err);
  return {code, out.str(), err.str()};
}

std::vector<std::string> with_workload(const std::string& phase, const std::string& workload,
                                       std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {phase, "basic", "-P", std::string(SKUA_YCSB_WORKLOADS) + "/" + workload};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

size_t count_of(const std::string& text, const std::string& wanted) {
  size_t count = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++count;
  return count;
}

TEST(Drive, Load_VerbosePrintsEveryInsertAndTheReport) {
  const Outcome r = run(with_workload("load", "workloada", {"-p", "recordcount=20", "-p", "basicdb.verbose=true"}));
  EXPECT_EQ(r.code, kExitFine) << r.err;
  EXPECT_EQ(count_of(r.out, "INSERT usertable user"), 20U);
  EXPECT_NE(r.out.find("INSERT usertable user6284781860667377211 [ field0="), std::string::npos);
  EXPECT_NE(r.out.find("[INSERT], Operations, 20\n"), std::string::npos);
  EXPECT_NE(r.out.find("[INSERT], Return=OK, 20\n"), std::string::npos);
}

TEST(Drive, Run_ReportHasJavasShape) {
  const Outcome r = run(with_workload("run", "workloadc", {"-p", "operationcount=5000"}));
  EXPECT_EQ(r.code, kExitFine) << r.err;
  const std::regex shape(
      R"(\[OVERALL\], RunTime\(ms\), \d+
\[OVERALL\], Throughput\(ops/sec\), \d+\.\d+
\[TOTAL_GCs\], Count, 0
\[TOTAL_GC_TIME\], Time\(ms\), 0
\[TOTAL_GC_TIME_%\], Time\(%\), 0\.0
\[READ\], Operations, 5000
\[READ\], AverageLatency\(us\), \d+\.\d+
\[READ\], MinLatency\(us\), \d+
\[READ\], MaxLatency\(us\), \d+
\[READ\], 50thPercentileLatency\(us\), \d+
\[READ\], 95thPercentileLatency\(us\), \d+
\[READ\], 99thPercentileLatency\(us\), \d+
\[READ\], Return=OK, 5000
\[CLEANUP\], Operations, 1
\[CLEANUP\], AverageLatency\(us\), \d+\.\d+
(\[CLEANUP\], .*\n)+)");
  EXPECT_TRUE(std::regex_match(r.out, shape)) << r.out;
}

TEST(Drive, Run_EveryStandardWorkload) {
  const std::map<std::string, std::vector<std::string>> kinds = {
      {"workloada", {"READ", "UPDATE"}}, {"workloadb", {"READ", "UPDATE"}},
      {"workloadc", {"READ"}},           {"workloadd", {"READ", "INSERT"}},
      {"workloade", {"SCAN", "INSERT"}}, {"workloadf", {"READ", "UPDATE", "READ-MODIFY-WRITE"}}};
  for (const auto& [workload, names] : kinds) {
    const Outcome r = run(with_workload("run", workload, {"-threads", "2", "-inflight", "4"}));
    EXPECT_EQ(r.code, kExitFine) << r.err;
    std::vector<std::string> all = names;
    all.emplace_back("CLEANUP");
    EXPECT_EQ(count_of(r.out, "], Operations, "), all.size()) << workload << r.out;
    for (const std::string& name : all)
      EXPECT_NE(r.out.find("[" + name + "], Operations, "), std::string::npos) << workload;
  }
}

TEST(Drive, Run_ThreadsShareTheOperations) {
  const Outcome r =
      run(with_workload("run", "workloadc", {"-p", "operationcount=1001", "-threads", "4", "-inflight", "3"}));
  EXPECT_NE(r.out.find("[READ], Operations, 1001\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("[CLEANUP], Operations, 4\n"), std::string::npos) << r.out;
}

TEST(Drive, Run_SameSeedSameOperations) {
  const auto arguments =
      with_workload("run", "workloada", {"-p", "seed=5", "-p", "basicdb.verbose=true", "-p", "operationcount=50"});
  const std::string first = run(arguments).out;
  const std::string second = run(arguments).out;
  EXPECT_EQ(first.substr(0, first.find("[OVERALL]")), second.substr(0, second.find("[OVERALL]")));
}

TEST(Drive, Run_StatusLines) {
  const Outcome r = run(with_workload(
      "run", "workloadc",
      {"-s", "-p", "status.interval=1", "-p", "operationcount=1200", "-target", "1000", "-p", "label=mine "}));
  EXPECT_EQ(r.code, kExitFine);
  const std::regex first(R"(mine \d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3} 0 sec: \d+ operations; )");
  const std::regex second(
      R"(1 sec: \d+ operations; [\d.]+ current ops/sec; est completion in \d second \[READ: Count=\d+, Max=\d+, Min=\d+, Avg=[\d.]+, 50=\d+, 90=\d+, 99=\d+, 99.9=\d+, 99.99=\d+\] \[Intended-READ: )");
  EXPECT_TRUE(std::regex_search(r.err, first)) << r.err;
  EXPECT_TRUE(std::regex_search(r.err, second)) << r.err;
  EXPECT_TRUE(std::regex_search(r.err, std::regex("sec: 1200 operations; ")));
  EXPECT_NE(r.out.find("[READ], Operations, 1200\n"), std::string::npos);
  EXPECT_NE(r.out.find("[Intended-READ], Operations, 1200\n"), std::string::npos);
}

TEST(Drive, Run_MaxExecutionTime) {
  const Outcome r =
      run(with_workload("run", "workloadc", {"-p", "operationcount=0", "-p", "maxexecutiontime=1", "-target", "100"}));
  EXPECT_EQ(r.code, kExitFine);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(r.out, match, std::regex(R"(RunTime\(ms\), (\d+))")));
  EXPECT_GE(std::stoi(match[1]), 990);
}

TEST(Drive, Run_JsonHasTheEnvironment) {
  const Outcome r = run(with_workload("run", "workloadc", {"-p", "exporter=jsonarray"}));
  EXPECT_EQ(r.out.substr(0, 4), "[ {\n");
  for (const char* name : {"CPU", "Build type", "Binding", "Threads", "Kernel"}) {
    EXPECT_NE(r.out.find("\"metric\" : \"ENVIRONMENT\",\n  \"measurement\" : \"" + std::string(name)),
              std::string::npos)
        << name;
  }
  EXPECT_NE(r.out.find("\"measurement\" : \"Throughput(ops/sec)\""), std::string::npos);
}

TEST(Drive, Run_ExportFile) {
  const auto path = std::filesystem::temp_directory_path() / ("skua-ycsb-" + std::to_string(getpid()) + ".txt");
  const Outcome r = run(with_workload("run", "workloadc", {"-p", "exportfile=" + path.string()}));
  EXPECT_EQ(r.out, "");
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_NE(text.find("[READ], Operations, 1000\n"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Drive, Run_HdrLogs) {
  const auto directory = std::filesystem::temp_directory_path() / ("skua-ycsb-hdr-" + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  const Outcome r = run(with_workload(
      "run", "workloada",
      {"-p", "hdrhistogram.fileoutput=true", "-p", "hdrhistogram.output.path=" + directory.string() + "/"}));
  EXPECT_EQ(r.code, kExitFine) << r.err;
  for (const char* name : {"READ.hdr", "UPDATE.hdr", "CLEANUP.hdr"}) {
    std::ifstream file(directory / name);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_EQ(count_of(text, "HISTF"), 1U) << name;
  }
  std::filesystem::remove_all(directory);
}

// Nobody measures for hours and finds then that the logs have no place to go.
TEST(Drive, Run_HdrLogsThatCannotBeWrittenAreRefusedBeforehand) {
  const auto directory = std::filesystem::temp_directory_path() / ("skua-ycsb-check-" + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  const Outcome r = run(with_workload(
      "run", "workloada",
      {"-p", "hdrhistogram.fileoutput=true", "-p", "hdrhistogram.output.path=" + directory.string() + "/none/x"}));
  EXPECT_EQ(r.code, kExitUsage);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("/none/xCLEANUP.hdr: No such file or directory\n"), std::string::npos) << r.err;
  // Looking leaves nothing behind.
  EXPECT_EQ(run({"run", "basic", "-p", "recordcount=0x", "-p", "hdrhistogram.fileoutput=true", "-p",
                 "hdrhistogram.output.path=" + directory.string() + "/"})
                .code,
            kExitUsage);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove_all(directory);
}

TEST(Drive, Run_MostOperationsFailed) {
  Outcome r = run({"run", "failing", "-p", "recordcount=77", "-p", "operationcount=1000", "-p", "failing.percent=98"});
  EXPECT_EQ(r.code, kExitFailed);
  EXPECT_NE(r.err.find("skua-ycsb: MOST OPERATIONS FAILED: 980 of 1000 (NOT_FOUND 980): was the table loaded with "
                       "recordcount=77, and with the same insertorder"),
            std::string::npos)
      << r.err;
  EXPECT_NE(r.out.find("[OVERALL], Throughput(ops/sec), "), std::string::npos);

  r = run({"run", "failing", "-p", "recordcount=77", "-p", "operationcount=1000", "-p", "failing.percent=50"});
  EXPECT_EQ(r.code, kExitFine);
  EXPECT_EQ(count_of(r.err, "MOST"), 0U);

  for (const auto& [status, wanted] : std::map<std::string, std::string>{
           {"NOT_IMPLEMENTED", "the store of the binding failing cannot do what this workload asks for"},
           {"TIMEOUT", "the store was away or had more to do than it can"},
           {"UNEXPECTED_STATE", "the records are not what this run expects: was the table loaded by"},
           {"ERROR", "the first failures above say why"}}) {
    r = run({"run", "failing", "-p", "operationcount=10", "-p", "failing.status=" + status});
    EXPECT_EQ(r.code, kExitFailed);
    EXPECT_NE(r.err.find("10 of 10 (" + status + " 10): " + wanted), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("first failure of a thread: "), std::string::npos) << r.err;
  }
}

TEST(Drive, Run_ASessionThatCannotBeOpenedEndsAllOnTheirThreads) {
  const Outcome r = run({"run", "failing", "-p", "operationcount=64", "-threads", "8", "-s", "-p", "failing.opens=5"});
  EXPECT_EQ(r.code, kExitFailed);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err.substr(r.err.find("Starting test.")), "Starting test.\nskua-ycsb: no session: the test wants it\n");
}

TEST(Drive, Run_ManyThreadsThatFailAlikeAreThreeLines) {
  const Outcome r = run({"run", "failing", "-p", "operationcount=64", "-threads", "8"});
  EXPECT_EQ(count_of(r.err, "first failure of a thread: "), 3U);
  EXPECT_NE(r.err.find("so in 5 more threads\n"), std::string::npos) << r.err;
}

TEST(Drive, Load_MostInsertsFailed) {
  const std::vector<std::string> load = {"load", "failing", "-p", "recordcount=100", "-p", "failing.status=TIMEOUT"};
  Outcome r = run(load);
  EXPECT_EQ(r.code, kExitFailed);
  EXPECT_NE(
      r.err.find("skua-ycsb: load stopped: INSERT user6284781860667377211: TIMEOUT: the test wants it. With core"),
      std::string::npos)
      << r.err;
  EXPECT_EQ(count_of(r.err, "the test wants it"), 1U) << r.err;
  // What no repetition mends.
  r = run({"load", "failing", "-p", "recordcount=100", "-p", "failing.status=BAD_REQUEST"});
  EXPECT_NE(r.err.find("BAD_REQUEST: the test wants it\n"), std::string::npos) << r.err;
  std::vector<std::string> keeps_going = load;
  keeps_going.insert(keeps_going.end(), {"-p", "core_workload_insertion_keep_going_on_error=true"});
  r = run(keeps_going);
  EXPECT_EQ(r.code, kExitFailed);
  EXPECT_NE(r.err.find("MOST OPERATIONS FAILED: 100 of 100 (TIMEOUT 100)"), std::string::npos) << r.err;
}

TEST(Drive, Load_OddProportionsAndAFarStart) {
  const Outcome r =
      run(with_workload("load", "workloada",
                        {"-p", "recordcount=20", "-p", "insertstart=1000", "-p", "readproportion=0", "-p",
                         "updateproportion=0", "-p", "insertorder=ordered", "-p", "basicdb.verbose=true"}));
  EXPECT_EQ(r.code, kExitFine) << r.err;
  EXPECT_EQ(count_of(r.out, "INSERT usertable user10"), 20U) << r.out;
}

TEST(Drive, Run_ReportHasNoReturnLineForReadModifyWrite) {
  const Outcome r = run(with_workload("run", "workloadf"));
  EXPECT_NE(r.out.find("[READ-MODIFY-WRITE], Operations, "), std::string::npos);
  EXPECT_EQ(r.out.find("[READ-MODIFY-WRITE], Return="), std::string::npos);
  EXPECT_NE(r.out.find("[UPDATE], Return=OK, "), std::string::npos);
}

TEST(Drive, Warnings_OfWhatIsProbablyNotMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-p", "maxexecutiontime=1", "-p", "operationcount=1"}, ""},
      {{"-p", "operationcount=3", "-threads", "8"}, "fewer operations than threads: 3 threads instead of 8"},
      {{"-p", "operationcount=3", "-p", "hdrhistogram.output.path=x"},
       "no effect without hdrhistogram.fileoutput=true"},
      {{"-p", "operationcount=3", "-p", "hdrhistogram.fileoutput=true", "-p", "measurementtype=raw"},
       "no HdrHistograms"},
      {{"-p", "operationcount=100", "-p", "recordcount=10", "-p", "requestdistribution=zipfian", "-p",
        "insertproportion=50"},
       "draw from 10011 keys (as YCSB does), of which 10 are there"},
  };
  for (const auto& [more, wanted] : cases) {
    std::vector<std::string> arguments = {"run", "basic"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome r = run(arguments);
    EXPECT_EQ(r.code, kExitFine) << r.err;
    EXPECT_EQ(count_of(r.err, "Warning: "), wanted.empty() ? 0U : 1U) << r.err;
    EXPECT_NE(r.err.find(wanted), std::string::npos) << r.err;
  }
}

TEST(Drive, Run_RawPoints) {
  const Outcome r = run(with_workload("run", "workloadc", {"-p", "measurementtype=raw"}));
  EXPECT_EQ(count_of(r.out, "\nREAD,"), 1000U);
  EXPECT_NE(r.out.find("[READ], Total Operations, 1000\n"), std::string::npos);
}

TEST(Drive, Usage_OneLineAndExitCode2) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", "basic", "-frobnicate"},
           {"run", "basic", "-p", "recordcount=lots"},
           {"run", "basic", "-p", "requestdistribution=fair"},
           {"run", "basic", "-p", "exporter=xml"},
           {"run", "basic", "-p", "exportfile=/nonexistent/file"},
           {"run", "basic", "-p", "fieldlengthdistribution=histogram", "-p", "fieldlengthhistogram=/nonexistent"},
           {"run", "basic", "-p", "basicdb.simulatedelay=x"},
           {"run", "basic", "-p", "arrival=poisson"},
           {"run", "basic", "-p", "recordcount=-1"},
           {"run", "basic", "-p", "workload=site.ycsb.workloads.TimeSeriesWorkload"},
           {"run", "basik"},
           {"run", "basic", "-p", "fieldcount=16", "-p", "fieldlength=16777216", "-p", "writeallfields=true",
            "-threads", "1024", "-inflight", "65536"},
           {"run", "basic", "-P", "/bin/sh"},
           {"run", "basic", "-P", "/nonexistent"}}) {
    const Outcome r = run(arguments);
    EXPECT_EQ(r.code, kExitUsage) << arguments.back();
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err.substr(0, 11), "skua-ycsb: ") << r.err;
    EXPECT_EQ(count_of(r.err, "\n"), 1U) << r.err;
  }
}

TEST(Drive, HelpAndVersion) {
  EXPECT_EQ(run({"--help"}).code, kExitFine);
  EXPECT_NE(run({"--help"}).out.find("Examples"), std::string::npos);
  EXPECT_EQ(run({"--version"}).out.substr(0, 10), "skua-ycsb ");
}

TEST(Drive, Warnings_OncePerAlias) {
  const Outcome r = run(with_workload("run", "workloadc", {"-p", "limit.ops=5000"}));
  EXPECT_EQ(count_of(r.err, "limit.ops"), 2U);  // the command line's echo, and the warning
}

}  // namespace
}  // namespace skua::ycsb
