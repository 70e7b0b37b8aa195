#include "control/server/control_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

#include "control/proto/redirect.h"
#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ControlFigures figures_of_a_leader() {
  ControlFigures figures;
  figures.map_revision = 7;
  figures.nodes = {0, 3, 1, 0};
  figures.tables = 2;
  figures.shards = 12;
  figures.available_shards = 11;
  figures.settled_shards = 8;
  return figures;
}

ControlFigures figures_of_a_follower(const std::string& leader) {
  ControlFigures figures;
  figures.leading = not_leading(leader, "etcd does not answer");
  return figures;
}

std::string failed(const std::vector<HealthCheck>& checks) {
  std::string names;
  for (const HealthCheck& check : checks) names += check.passes ? "" : check.name + " ";
  return names;
}

TEST(ControlHealth, ALeaderTellsOfTheCluster) {
  const std::string text = format_control_metrics(figures_of_a_leader(), 5);
  EXPECT_THAT(text, HasSubstr("skua_control_leader 1\n"));
  EXPECT_THAT(text, HasSubstr("skua_control_watchers 5\n"));
  EXPECT_THAT(text, HasSubstr("skua_control_nodes{liveness=\"alive\"} 3\nskua_control_nodes{liveness=\"suspected\"} 1\n"
                              "skua_control_nodes{liveness=\"stopped\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("skua_control_shards{state=\"settled\"} 8\nskua_control_shards{state=\"unsettled\"} 3\n"
                              "skua_control_shards{state=\"unavailable\"} 1\n"));
  EXPECT_EQ(failed(control_readiness(figures_of_a_leader())), "");
}

TEST(ControlHealth, TheCertificatesEndIsToldIfThereIsOne) {
  EXPECT_THAT(format_control_metrics(figures_of_a_leader(), 5), Not(HasSubstr("certificate")));
  EXPECT_THAT(
      format_control_metrics(figures_of_a_leader(), 5, 1'800'000'000),
      HasSubstr("# TYPE skua_certificate_expires_seconds gauge\nskua_certificate_expires_seconds 1800000000\n"));
}

TEST(ControlHealth, AFollowerTellsOfItself) {
  const std::string text = format_control_metrics(figures_of_a_follower("c2:7400"), 0);
  EXPECT_THAT(text, HasSubstr("skua_control_leader 0\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE skua_control_nodes gauge\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nskua_control_nodes{")));
  const std::vector<HealthCheck> checks = control_readiness(figures_of_a_follower("c2:7400"));
  EXPECT_EQ(failed(checks), "");
  EXPECT_EQ(checks[1].detail, "follows c2:7400");
}

TEST(ControlHealth, WithoutALeaderItIsNotReady) {
  EXPECT_EQ(failed(control_readiness(figures_of_a_follower(""))), "leader ");
}

TEST(ControlHealth, WithoutItsStoreItIsNotReady) {
  ControlFigures figures = figures_of_a_leader();
  figures.is_store_reachable = false;
  EXPECT_EQ(failed(control_readiness(figures)), "metadata ");
  EXPECT_THAT(format_control_metrics(figures, 0), HasSubstr("skua_control_metadata_reachable 0\n"));
}

TEST(ControlHealth, ASilentThreadIsNotReady) {
  EXPECT_EQ(failed(control_readiness(std::nullopt)), "control-thread ");
  EXPECT_THAT(format_control_metrics(std::nullopt, 0), HasSubstr("skua_control_up 0\n"));
}

/// A clock that the test moves while the control thread reads it.
class SteppedClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now_ns() const override { return now_ns_; }
  void advance(DurationNs by) { now_ns_ += by; }

 private:
  std::atomic<TimeNs> now_ns_{kSecond};
};

TEST(ControlHealth, ABusyControlThreadIsAlive_AndAHungOneIsNot) {
  SteppedClock clock;
  MemoryStore store;
  StateStore states(store);
  MapHub hub;
  auto state = states.load_or_create({}, "0123456789abcdef0123456789abcdef");
  ASSERT_TRUE(state.ok()) << state.status();
  std::promise<void> begun;
  std::promise<void> allowed;
  Controller controller({.core = {}, .tick_ns = 2 * kMillisecond, .log = {}, .on_denied = {}}, states,
                        *std::move(state), clock, hub);
  controller.start();
  ControlHealth health(controller, hub, nullptr, kMillisecond);
  ASSERT_TRUE(controller
                  .query(
                      [&](const ClusterCore&, TimeNs) {
                        begun.set_value();
                        allowed.get_future().wait();
                      },
                      [](const absl::Status&) {})
                  .ok());
  begun.get_future().wait();
  // It answers nobody now, as in a call of a slow metadata store.
  clock.advance(kControlHangsAfterNs - 1);
  EXPECT_EQ(failed(health.readiness()), "control-thread ");
  EXPECT_TRUE(health.is_alive());
  clock.advance(1);
  EXPECT_FALSE(health.is_alive());
  allowed.set_value();
  EXPECT_TRUE(eventually([&] { return health.is_alive(); }));
}

TEST(ControlHealth, WhatCameTooLateIsNotTheNextAnswer) {
  SteadyClock clock;
  MemoryStore store;
  StateStore states(store);
  MapHub hub;
  auto state = states.load_or_create({}, kClusterId);
  ASSERT_TRUE(state.ok()) << state.status();
  Controller controller({.core = {}, .tick_ns = 2 * kMillisecond, .log = {}, .on_denied = {}}, states,
                        *std::move(state), clock, hub);
  std::promise<void> allowed;
  ASSERT_TRUE(
      controller.query([&](const ClusterCore&, TimeNs) { allowed.get_future().wait(); }, [](const absl::Status&) {})
          .ok());
  controller.start();
  ControlHealth health(controller, hub, nullptr, kMillisecond);
  EXPECT_THAT(health.metrics(), HasSubstr("skua_control_up 0\n"));
  std::promise<absl::Status> registered;
  std::promise<absl::Status> created;
  const auto tell = [](std::promise<absl::Status>& whom) {
    return [&whom](const Decision& decision, const ClusterCore&) { whom.set_value(decision.status); };
  };
  ASSERT_TRUE(controller.submit(RegisterNode{kClusterId, test_node(1), 0}, tell(registered)).ok());
  allowed.set_value();
  ASSERT_TRUE(registered.get_future().get().ok());
  ASSERT_TRUE(controller.submit(CreateTable{"t", 1, false}, tell(created)).ok());
  ASSERT_TRUE(created.get_future().get().ok());
  std::string first;
  ASSERT_TRUE(eventually([&] {
    first = health.metrics();
    return first.find("skua_control_up 1\n") != std::string::npos;
  }));
  EXPECT_THAT(first, HasSubstr("skua_control_tables 1\n"));
}

}  // namespace
}  // namespace skua::control
