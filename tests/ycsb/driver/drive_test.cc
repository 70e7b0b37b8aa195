// The whole driver in this process, with `basic`.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "ycsb/bindings/basic.h"
#include "ycsb/driver/driver.h"

namespace skua::ycsb {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome run(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<BindingEntry> bindings = {basic_binding()};
  const int code = drive(arguments, bindings, out, err);
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
  EXPECT_EQ(run(with_workload("run", "workloada",
                              {"-p", "hdrhistogram.fileoutput=true", "-p", "hdrhistogram.output.path=/nonexistent/x"}))
                .code,
            kExitFailed);
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
           {"run", "basic", "-P", "/nonexistent"}}) {
    const Outcome r = run(arguments);
    EXPECT_EQ(r.code, kExitUsage) << arguments.back();
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(count_of(r.err, "skua-ycsb: "), 1U) << r.err;
  }
}

TEST(Drive, HelpAndVersion) {
  EXPECT_EQ(run({"--help"}).code, kExitFine);
  EXPECT_NE(run({}).out.find("Examples"), std::string::npos);
  EXPECT_EQ(run({"--version"}).out.substr(0, 10), "skua-ycsb ");
}

TEST(Drive, Warnings_OncePerAlias) {
  const Outcome r = run(with_workload("run", "workloadc", {"-p", "limit.ops=5000"}));
  EXPECT_EQ(count_of(r.err, "limit.ops"), 2U);  // the command line's echo, and the warning
}

}  // namespace
}  // namespace skua::ycsb
