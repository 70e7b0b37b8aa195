#include "control/server/cluster_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

class StatusDeskTest : public testing::Test {
 protected:
  StatusDeskTest() : states_(store_) {
    auto state = states_.load_or_create({}, kClusterId);
    controller_ = std::make_unique<Controller>(ControllerOptions{}, states_, *std::move(state), clock_, hub_);
    controller_->start();
    status_ = std::make_unique<StatusDesk>(*controller_, hub_);
    EXPECT_TRUE(step(RegisterNode{kClusterId, test_node(1), 0}).ok());
    EXPECT_TRUE(step(CreateTable{"t", 3, false}).ok());
  }
  ~StatusDeskTest() override { controller_->stop(); }

  absl::Status step(Event event) {
    std::promise<absl::Status> promise;
    const auto queued = controller_->submit(
        std::move(event), [&](const Decision& decision, const ClusterCore&) { promise.set_value(decision.status); });
    return queued.ok() ? promise.get_future().get() : queued;
  }
  StatusMessage ask(void (StatusDesk::*what)(StatusBoard::AnswerFn)) {
    std::promise<StatusMessage> promise;
    (status_.get()->*what)([&](const absl::StatusOr<StatusMessage>& status) { promise.set_value(status.value()); });
    return promise.get_future().get();
  }

  SteadyClock clock_;
  MemoryStore store_;
  StateStore states_;
  MapHub hub_;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<StatusDesk> status_;
};

/// A table list needs no look at each node, which costs as many looks at all shards.
TEST_F(StatusDeskTest, TablesAloneHaveNoNodes) {
  const StatusMessage all = ask(&StatusDesk::ask);
  const StatusMessage tables = ask(&StatusDesk::ask_tables);
  EXPECT_EQ(all->nodes_size(), 1);
  EXPECT_EQ(tables->nodes_size(), 0);
  ASSERT_EQ(all->tables_size(), 1);
  ASSERT_EQ(tables->tables_size(), 1);
  EXPECT_EQ(tables->tables(0).SerializeAsString(), all->tables(0).SerializeAsString());
  EXPECT_EQ(tables->tables(0).shard_count(), 3u);
  EXPECT_EQ(tables->map_revision(), all->map_revision());
}

TEST_F(StatusDeskTest, TablesAreThoseAfterTheLastChange) {
  EXPECT_EQ(ask(&StatusDesk::ask_tables)->tables_size(), 1);
  ASSERT_TRUE(step(CreateTable{"u", 1, false}).ok());
  EXPECT_EQ(ask(&StatusDesk::ask_tables)->tables_size(), 2);
}

TEST_F(StatusDeskTest, SaysThatTheStoreTakesNoChanges) {
  EXPECT_EQ(ask(&StatusDesk::ask)->troubles_size(), 0);
  store_.fail_transactions(absl::ResourceExhaustedError("no space left on device"));
  ASSERT_FALSE(step(CreateTable{"u", 1, false}).ok());
  const StatusMessage failing = ask(&StatusDesk::ask);
  ASSERT_EQ(failing->troubles_size(), 1);
  EXPECT_THAT(failing->troubles(0), testing::AllOf(testing::HasSubstr("takes no changes: no space left on device"),
                                                   testing::HasSubstr("Make")));
  store_.fail_transactions(absl::OkStatus());
  ASSERT_TRUE(step(CreateTable{"u", 1, false}).ok());
  EXPECT_EQ(ask(&StatusDesk::ask)->troubles_size(), 0);
}

}  // namespace
}  // namespace skua::control
