#include "ycsb/driver/driver_options.h"

#include <gtest/gtest.h>

namespace skua::ycsb {
namespace {

absl::StatusOr<DriverOptions> parse(std::string_view text) {
  Properties p;
  EXPECT_TRUE(p.parse(text).ok());
  return DriverOptions::parse(p, 77);
}

TEST(DriverOptions, Parse_Defaults) {
  const auto o = parse("");
  ASSERT_TRUE(o.ok());
  EXPECT_TRUE(o->transactions);
  EXPECT_EQ(o->operation_count, 0U);
  EXPECT_EQ(o->threads, 1U);
  EXPECT_EQ(o->in_flight, 1U);
  EXPECT_EQ(o->target, 0);
  EXPECT_EQ(o->seed, 77U);
  EXPECT_EQ(o->status_interval, 10 * kSecond);
}

TEST(DriverOptions, Parse_LoadCounts) {
  EXPECT_EQ(parse("dotransactions=false\nrecordcount=50\noperationcount=7")->operation_count, 50U);
  EXPECT_EQ(parse("dotransactions=false\nrecordcount=50\ninsertstart=40")->operation_count, 50U);
  EXPECT_EQ(parse("dotransactions=false\nrecordcount=50\ninsertcount=10")->operation_count, 10U);
}

TEST(DriverOptions, Parse_LoadWithoutCountIsRefused) {
  EXPECT_EQ(parse("dotransactions=false").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(parse("dotransactions=false\nmaxexecutiontime=5").ok());
}

TEST(DriverOptions, OperationsOf_SharesAddUp) {
  const auto o = parse("operationcount=11\nthreadcount=4");
  EXPECT_EQ(o->operations_of(0), 3U);
  EXPECT_EQ(o->operations_of(1), 3U);
  EXPECT_EQ(o->operations_of(2), 3U);
  EXPECT_EQ(o->operations_of(3), 2U);
}

TEST(DriverOptions, Parse_NoMoreThreadsThanOperations) {
  EXPECT_EQ(parse("operationcount=3\nthreadcount=8")->threads, 3U);
}

TEST(DriverOptions, Parse_OpenLoopNeedsARate) {
  EXPECT_EQ(parse("arrival=poisson").status().code(), absl::StatusCode::kInvalidArgument);
  const auto o = parse("arrival=poisson\ntarget=1000");
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(o->in_flight, 256U);
  EXPECT_EQ(parse("arrival=uniform\ntarget=0.5\nkv.inflight=4")->in_flight, 4U);
}

TEST(DriverOptions, Parse_RefusesNonsense) {
  for (const char* text : {"threadcount=0", "kv.inflight=0", "kv.inflight=1000000", "target=-1", "status.interval=0",
                           "arrival=sometimes", "seed=x"}) {
    EXPECT_EQ(parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace skua::ycsb
