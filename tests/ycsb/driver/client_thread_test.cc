#include "ycsb/driver/client_thread.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/ycsb/driver/memory_binding.h"

namespace skua::ycsb {
namespace {

/// Sets one up from properties and runs it in the calling thread.
class ClientThreadTest : public testing::Test {
 protected:
  absl::Status run(std::string_view text) {
    Properties p;
    EXPECT_TRUE(p.parse(text).ok());
    const auto driver = DriverOptions::parse(p, 1);
    EXPECT_TRUE(driver.ok()) << driver.status();
    driver_ = *driver;
    const auto measurements = MeasurementOptions::parse(p, driver->target > 0);
    EXPECT_TRUE(measurements.ok()) << measurements.status();
    measurement_options_ = *measurements;
    const auto options = WorkloadOptions::parse(p);
    EXPECT_TRUE(options.ok()) << options.status();
    auto workload = CoreWorkload::make(*options, "");
    EXPECT_TRUE(workload.ok()) << workload.status();
    workload_ = *std::move(workload);
    binding_ = std::make_unique<MemoryBinding>(store_, workload_->schema());
    control_.start = SteadyClock().now_ns();
    client_ = std::make_unique<ClientThread>(driver_, measurement_options_, *workload_, control_, 0, Rng(1));
    EXPECT_TRUE(client_->open(*binding_).ok());
    const absl::Status status = client_->run();
    most_in_flight_ = binding_->last_session->most_in_flight;
    client_->close();
    return status;
  }

  std::map<std::string, uint64_t> counts() {
    std::map<std::string, uint64_t> out;
    client_->measurements().active().for_each(
        [&](const std::string& name, const Series& s) { out[name] = s.latencies().count(); });
    return out;
  }
  std::map<std::string, uint64_t> returns(std::string_view series) {
    std::map<std::string, uint64_t> out;
    client_->measurements().active().for_each([&](const std::string& name, const Series& s) {
      if (name != series) return;
      for (size_t i = 0; i < kStatusCount; ++i)
        if (s.returns().at(i) != 0) out.emplace(kStatusNames.at(i), s.returns().at(i));
    });
    return out;
  }

  MemoryStore store_;
  DriverOptions driver_;
  MeasurementOptions measurement_options_;
  std::unique_ptr<CoreWorkload> workload_;
  std::unique_ptr<MemoryBinding> binding_;
  RunControl control_;
  std::unique_ptr<ClientThread> client_;
  size_t most_in_flight_ = 0;
};

constexpr std::string_view kLoad = "dotransactions=false\nfieldcount=2\nfieldlength=10\n";

TEST_F(ClientThreadTest, Run_LoadInsertsEveryRecordOnce) {
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=1000\nkv.inflight=16").ok());
  EXPECT_EQ(store_.records().size(), 1000U);
  EXPECT_EQ(store_.log().size(), 1000U);
  EXPECT_EQ(client_->operations_done(), 1000U);
  EXPECT_EQ(client_->operations_left(), 0U);
  EXPECT_EQ(counts(), (std::map<std::string, uint64_t>{{"INSERT", 1000}, {"CLEANUP", 1}}));
  EXPECT_EQ(returns("INSERT"), (std::map<std::string, uint64_t>{{"OK", 1000}}));
  EXPECT_EQ(most_in_flight_, 16U);
}

TEST_F(ClientThreadTest, Run_OneInFlightIsTheDefault) {
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=50").ok());
  EXPECT_EQ(most_in_flight_, 1U);
}

TEST_F(ClientThreadTest, Run_EveryKindOfTransaction) {
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=200\nkv.inflight=4").ok());
  ASSERT_TRUE(run("recordcount=200\nfieldcount=2\nfieldlength=10\noperationcount=3000\nkv.inflight=8\n"
                  "readproportion=0.3\nupdateproportion=0.2\ninsertproportion=0.2\nscanproportion=0.1\n"
                  "readmodifywriteproportion=0.2\nrequestdistribution=latest\nmaxscanlength=10\n")
                  .ok());
  auto seen = counts();
  EXPECT_EQ(client_->operations_done(), 3000U);
  const uint64_t rmw = seen["READ-MODIFY-WRITE"];
  EXPECT_GT(rmw, 400U);
  // Reads and updates of read-modify-writes are counted as such, too.
  EXPECT_EQ(seen["READ"] + seen["UPDATE"] + seen["INSERT"] + seen["SCAN"], 3000 + rmw);
  EXPECT_GT(seen["SCAN-LATENCY-PER-RECORD"], 0U);
  EXPECT_EQ(store_.records().size(), 200 + seen["INSERT"]);
  // Nothing that was asked for was missing: choosers wait for acknowledged inserts.
  EXPECT_EQ(seen.count("READ-FAILED"), 0U);
  EXPECT_EQ(seen.count("UPDATE-FAILED"), 0U);
}

TEST_F(ClientThreadTest, Run_ReadModifyWriteUpdatesTheRecordItRead) {
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=100").ok());
  const size_t loaded = store_.log().size();
  ASSERT_TRUE(run("recordcount=100\noperationcount=200\nreadproportion=0\nupdateproportion=0\n"
                  "readmodifywriteproportion=1\nfieldcount=2\nfieldlength=10")
                  .ok());
  const auto log = store_.log();
  ASSERT_EQ(log.size(), loaded + 400);
  for (size_t i = loaded; i < log.size(); i += 2) {
    EXPECT_EQ(log[i].first, OpKind::kRead);
    EXPECT_EQ(log[i + 1].first, OpKind::kUpdate);
    EXPECT_EQ(log[i].second, log[i + 1].second);
  }
}

// Java's doTransactionReadModifyWrite: db.read(), then db.update() whatever that gave, then measure() of the whole
// under its plain name. It calls no reportStatus(), so only READ and UPDATE have `Return=` lines.
TEST_F(ClientThreadTest, Run_ReadModifyWriteUpdatesAfterAFailedReadAndHasNoReturnCode) {
  ASSERT_TRUE(run("recordcount=100\noperationcount=20\nreadproportion=0\nupdateproportion=0\n"
                  "readmodifywriteproportion=1")
                  .ok());
  EXPECT_EQ(counts(), (std::map<std::string, uint64_t>{{"READ", 0},
                                                       {"READ-FAILED", 20},
                                                       {"UPDATE", 0},
                                                       {"UPDATE-FAILED", 20},
                                                       {"READ-MODIFY-WRITE", 20},
                                                       {"CLEANUP", 1}}));
  const std::map<std::string, uint64_t> all_missing = {{"NOT_FOUND", 20}};
  EXPECT_EQ(returns("READ"), all_missing);
  EXPECT_EQ(returns("UPDATE"), all_missing);
  EXPECT_TRUE(returns("READ-MODIFY-WRITE").empty());
  const auto log = store_.log();
  ASSERT_EQ(log.size(), 40U);
  for (size_t i = 0; i < log.size(); i += 2) {
    EXPECT_EQ(log[i], std::pair(OpKind::kRead, log[i + 1].second));
    EXPECT_EQ(log[i + 1].first, OpKind::kUpdate);
  }
  EXPECT_EQ(client_->first_failure().substr(0, 9), "READ user");
  EXPECT_EQ(client_->operations_done(), 20U);
  EXPECT_EQ(client_->failures().at(static_cast<size_t>(Status::kNotFound)), 20U);
}

TEST_F(ClientThreadTest, Run_AFailedReadDoesNotKeepAnUpdateFromSucceeding) {
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=100").ok());
  store_.fault = [](const Operation& op) { return op.kind == OpKind::kRead ? Status::kTimeout : Status::kOk; };
  ASSERT_TRUE(run("recordcount=100\noperationcount=20\nreadproportion=0\nupdateproportion=0\nfieldcount=2\n"
                  "fieldlength=10\nreadmodifywriteproportion=1")
                  .ok());
  EXPECT_EQ(counts()["UPDATE"], 20U);
  // Yet the operation as a whole is one that failed.
  EXPECT_EQ(client_->failures().at(static_cast<size_t>(Status::kTimeout)), 20U);
}

// Java's getIntendedStartTimeNs() is the current time if no schedule has set one: DBWrapper asks before the read and
// again before the update, the workload before both.
TEST_F(ClientThreadTest, Run_WithoutATargetIntendedLatenciesAreThoseOfTheOperations) {
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=100").ok());
  ASSERT_TRUE(run("recordcount=100\noperationcount=500\nreadproportion=0.2\nupdateproportion=0.2\nfieldcount=2\n"
                  "fieldlength=10\nreadmodifywriteproportion=0.6\nmeasurement.interval=both\nkv.inflight=4")
                  .ok());
  std::map<std::string, std::vector<double>> latencies;
  client_->measurements().active().for_each([&](const std::string& name, const Series& s) {
    const Histogram& h = s.latencies();
    latencies[name] = {static_cast<double>(h.count()), h.mean(), static_cast<double>(h.min()),
                       static_cast<double>(h.max())};
  });
  for (const char* name : {"READ", "UPDATE", "READ-MODIFY-WRITE"})
    EXPECT_EQ(latencies[name], latencies[std::string("Intended-") + name]) << name;
}

// With a schedule, both parts are due when the whole is.
TEST_F(ClientThreadTest, Run_WithATargetAnUpdateIsDueBeforeItsRead) {
  store_.fault = [](const Operation& op) {
    const SteadyClock clock;
    const DurationNs busy = op.kind == OpKind::kRead ? 300 * kMicrosecond : 0;
    for (const TimeNs end = clock.now_ns() + busy; clock.now_ns() < end;) {
    }
    return Status::kOk;
  };
  ASSERT_TRUE(run("recordcount=10\noperationcount=20\ntarget=1000\nreadproportion=0\nupdateproportion=0\n"
                  "readmodifywriteproportion=1\nfieldcount=1")
                  .ok());
  uint64_t least = 0;
  client_->measurements().active().for_each([&](const std::string& name, const Series& s) {
    if (name == "Intended-UPDATE-FAILED") least = s.latencies().min();
  });
  EXPECT_GE(least, 300U);
}

TEST_F(ClientThreadTest, Run_FailuresAreCountedAndTheRunGoesOn) {
  int calls = 0;
  store_.fault = [&](const Operation&) { return ++calls % 4 == 0 ? Status::kError : Status::kOk; };
  ASSERT_TRUE(run("recordcount=10\noperationcount=100\nreadproportion=0\nupdateproportion=0\n"
                  "insertproportion=1\nfieldcount=1")
                  .ok());
  EXPECT_EQ(counts(), (std::map<std::string, uint64_t>{{"INSERT", 75}, {"INSERT-FAILED", 25}, {"CLEANUP", 1}}));
  EXPECT_EQ(returns("INSERT"), (std::map<std::string, uint64_t>{{"OK", 75}, {"ERROR", 25}}));
  EXPECT_EQ(workload_->last_acknowledged(), 109U);  // failed ones are acknowledged as well
}

TEST_F(ClientThreadTest, Run_LoadStopsAtAFailedInsert) {
  store_.fault = [&](const Operation& op) { return op.key_number == 20 ? Status::kError : Status::kOk; };
  const absl::Status status = run(std::string(kLoad) + "recordcount=1000");
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_NE(std::string(status.message()).find("load stopped: INSERT user"), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find(": ERROR: as the test wants it. With core_workload_insertion_retry_l"),
            std::string::npos)
      << status;
  EXPECT_EQ(client_->operations_done(), 20U);
  EXPECT_EQ(store_.records().size(), 20U);
}

TEST_F(ClientThreadTest, Run_LoadRetriesFailedInserts) {
  std::map<uint64_t, int> tries;
  store_.fault = [&](const Operation& op) {
    return op.key_number % 10 == 0 && ++tries[op.key_number] <= 2 ? Status::kError : Status::kOk;
  };
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=100\nkv.inflight=8\ncore_workload_insertion_retry_limit=2\n"
                                       "core_workload_insertion_retry_interval=0")
                  .ok());
  EXPECT_EQ(store_.records().size(), 100U);
  EXPECT_EQ(client_->operations_done(), 100U);
  EXPECT_EQ(counts()["INSERT-FAILED"], 20U);
  EXPECT_EQ(client_->failures(), (std::array<uint64_t, kStatusCount>{}));  // in the end all were inserted
}

TEST_F(ClientThreadTest, Run_LoadKeepsGoingIfToldTo) {
  store_.fault = [&](const Operation& op) { return op.key_number % 10 == 0 ? Status::kError : Status::kOk; };
  ASSERT_TRUE(run(std::string(kLoad) + "recordcount=100\ncore_workload_insertion_keep_going_on_error=true").ok());
  EXPECT_EQ(store_.records().size(), 90U);
  EXPECT_EQ(client_->operations_done(), 100U);
}

TEST_F(ClientThreadTest, Run_DataIntegrityIsVerified) {
  constexpr std::string_view kRecords = "recordcount=50\nfieldcount=2\nfieldlength=60\ndataintegrity=true\n";
  ASSERT_TRUE(run(std::string(kRecords) + "dotransactions=false").ok());
  ASSERT_TRUE(run(std::string(kRecords) +
                  "operationcount=500\nkv.inflight=4\nreadproportion=0.5\nupdateproportion=0.3\n"
                  "readmodifywriteproportion=0.2")
                  .ok());
  auto verified = returns("VERIFY");
  EXPECT_EQ(verified.size(), 1U);
  EXPECT_EQ(verified["OK"], counts()["READ"]);
}

TEST_F(ClientThreadTest, Run_WrongDataIsSeen) {
  constexpr std::string_view kRecords = "recordcount=50\nfieldcount=2\nfieldlength=60\n";
  ASSERT_TRUE(run(std::string(kRecords) + "dotransactions=false").ok());  // random values
  ASSERT_TRUE(run(std::string(kRecords) + "dataintegrity=true\noperationcount=30\nreadproportion=1\n"
                                          "updateproportion=0")
                  .ok());
  EXPECT_EQ(returns("VERIFY"), (std::map<std::string, uint64_t>{{"UNEXPECTED_STATE", 30}}));
  EXPECT_NE(client_->first_failure().find("UNEXPECTED_STATE"), std::string::npos);
  EXPECT_EQ(client_->failures().at(static_cast<size_t>(Status::kUnexpectedState)), 30U);
}

TEST_F(ClientThreadTest, Run_LostSessionEndsTheThread) {
  store_.lost_after = 10;
  const absl::Status status = run(std::string(kLoad) +
                                  "recordcount=1000\nkv.inflight=4\n"
                                  "core_workload_insertion_keep_going_on_error=true");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(client_->operations_done(), 1000U);
}

TEST_F(ClientThreadTest, Run_EndTimeAndStopEndARunWithoutCount) {
  control_.end = SteadyClock().now_ns() + 300 * kMillisecond;
  ASSERT_TRUE(run("recordcount=10\noperationcount=0\nkv.inflight=4").ok());
  EXPECT_GT(client_->operations_done(), 0U);
  control_.end = kTimeNever;
  control_.stop = true;
  ASSERT_TRUE(run("recordcount=10\noperationcount=0").ok());
  EXPECT_EQ(client_->operations_done(), 0U);
}

// 200 operations at 2,000 per second: the last is due 99.5 ms after the start.
TEST_F(ClientThreadTest, Run_TargetIsKeptAndBothLatenciesReported) {
  const SteadyClock clock;
  const TimeNs before = clock.now_ns();
  ASSERT_TRUE(run("recordcount=10\noperationcount=200\ntarget=2000").ok());
  EXPECT_GE(clock.now_ns() - before, 99 * kMillisecond);
  auto seen = counts();
  EXPECT_EQ(seen["READ-FAILED"], seen["Intended-READ-FAILED"]);
  EXPECT_EQ(seen["READ-FAILED"] + seen["UPDATE-FAILED"], 200U);
}

TEST_F(ClientThreadTest, Run_OpenLoopStartsWithoutWaitingForAnswers) {
  ASSERT_TRUE(run("recordcount=10\noperationcount=500\ntarget=20000\narrival=poisson").ok());
  EXPECT_EQ(client_->operations_done(), 500U);
}

// A rate far beyond what one slot can do: the schedule runs away, and intended latencies show it.
TEST_F(ClientThreadTest, Run_IntendedLatencyIncludesTheWaitForASlot) {
  store_.fault = [](const Operation&) {
    const SteadyClock clock;
    for (const TimeNs end = clock.now_ns() + 200 * kMicrosecond; clock.now_ns() < end;) {
    }
    return Status::kOk;
  };
  ASSERT_TRUE(run("recordcount=10\noperationcount=100\ntarget=1000000\nreadproportion=1\n"
                  "updateproportion=0\nfieldcount=1")
                  .ok());
  std::map<std::string, uint64_t> worst;
  client_->measurements().active().for_each(
      [&](const std::string& name, const Series& s) { worst[name] = s.latencies().max(); });
  EXPECT_GE(worst["Intended-READ-FAILED"], 19'000U);  // 100 x 200 us, less the schedule's 100 us
  EXPECT_GT(client_->late_starts(), 90U);
}

}  // namespace
}  // namespace skua::ycsb
