#include "ycsb/bindings/basic.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/ycsb/bindings/collected.h"

namespace skua::ycsb {
namespace {

class BasicTest : public testing::Test {
 protected:
  std::unique_ptr<BindingSession> open(std::string_view properties) {
    EXPECT_TRUE(properties_.parse(properties).ok());
    auto binding = basic_binding().make({properties_, schema_, sink_});
    EXPECT_TRUE(binding.ok()) << binding.status();
    binding_ = *std::move(binding);
    auto session = binding_->open_session({.in_flight_max = 16});
    EXPECT_TRUE(session.ok());
    out_.str("");
    return *std::move(session);
  }

  Properties properties_;
  Schema schema_{"usertable", {"field0", "field1"}};
  std::ostringstream out_;
  LineSink sink_{out_};
  std::unique_ptr<Binding> binding_;
};

TEST_F(BasicTest, Submit_QuietAnswersAtOnceAndPrintsNothing) {
  const auto session = open("");
  Operation op;
  Collected result;
  session->submit(op, result.completion());
  EXPECT_TRUE(result.done);
  EXPECT_EQ(result.status, Status::kOk);
  EXPECT_EQ(out_.str(), "");
}

TEST_F(BasicTest, Submit_VerbosePrintsJavasLines) {
  const auto session = open("basicdb.verbose=true");
  Operation op;
  op.key = "user1";
  execute(*session, op);
  op.all_fields = false;
  op.fields = {1};
  execute(*session, op);
  op.kind = OpKind::kScan;
  op.scan_length = 7;
  op.all_fields = true;
  execute(*session, op);
  op.kind = OpKind::kInsert;
  set_values(op, {"a", "b c"});
  execute(*session, op);
  op.kind = OpKind::kUpdate;
  set_values(op, {"x"});
  execute(*session, op);
  op.kind = OpKind::kDelete;
  execute(*session, op);
  EXPECT_EQ(out_.str(),
            "READ usertable user1 [ <all fields>]\nREAD usertable user1 [ field1 ]\n"
            "SCAN usertable user1 7 [ <all fields>]\n"
            "INSERT usertable user1 [ field0=a field1=b c ]\n"
            "UPDATE usertable user1 [ field0=x ]\nDELETE usertable user1\n");
}

TEST_F(BasicTest, OpenSession_VerbosePrintsProperties) {
  ASSERT_TRUE(properties_.parse("basicdb.verbose=true\nrecordcount=5").ok());
  auto binding = basic_binding().make({properties_, schema_, sink_});
  ASSERT_TRUE(binding.ok());
  ASSERT_TRUE((*binding)->open_session({}).ok());
  EXPECT_EQ(out_.str(),
            "***************** properties *****************\n\"basicdb.verbose\"=\"true\"\n"
            "\"recordcount\"=\"5\"\n**********************************************\n");
}

TEST_F(BasicTest, Poll_DelayedOperationsOverlap) {
  const auto session = open("basicdb.simulatedelay=30\nbasicdb.randomizedelay=false");
  Operation op;
  std::deque<Collected> results(16);
  const SteadyClock clock;
  const TimeNs start = clock.now_ns();
  for (Collected& result : results) session->submit(op, result.completion());
  EXPECT_FALSE(results.front().done);
  while (!results.back().done) ASSERT_TRUE(session->poll(kSecond).ok());
  EXPECT_GE(clock.now_ns() - start, 30 * kMillisecond);
  for (const Collected& result : results) EXPECT_TRUE(result.done);
}

TEST_F(BasicTest, Make_RefusesNonsense) {
  ASSERT_TRUE(properties_.parse("basicdb.simulatedelay=soon").ok());
  EXPECT_FALSE(basic_binding().make({properties_, schema_, sink_}).ok());
}

}  // namespace
}  // namespace skua::ycsb
