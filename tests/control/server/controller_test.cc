#include "control/server/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <utility>

#include "control/core/cluster_limits.h"
#include "control/proto/redirect.h"
#include "control/server/controller_limits.h"
#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A controller on a memory store that tests can reach behind its back.
class ControllerTest : public testing::Test {
 protected:
  ControllerTest() : states_(store_) {
    auto state = states_.load_or_create({}, kClusterId);
    controller_ = std::make_unique<Controller>(
        ControllerOptions{.core = {.suspect_after_ns = 3600 * kSecond},
                          .tick_ns = 2 * kMillisecond,
                          .log = [this](bool, const std::string& line) { log_ += line + "\n"; },
                          .on_denied =
                              [this](uint64_t, const std::vector<std::string>& denied) {
                                denied_ = denied;
                                hub_when_told_ = hub_.current() == nullptr ? 0 : hub_.current()->map().revision();
                              }},
        states_, *std::move(state), clock_, hub_);
    controller_->start();
  }

  Decision step(Event event, const std::string& principal = "") {
    std::promise<Decision> promise;
    const auto status = controller_->submit(
        std::move(event), [&](const Decision& decision, const ClusterCore&) { promise.set_value(decision); }, "host",
        principal);
    if (!status.ok()) return {status, {}, {}, {}, std::nullopt};
    return promise.get_future().get();
  }
  Decision register_node(uint64_t n) { return step(RegisterNode{kClusterId, test_node(n), 0}); }

  SteadyClock clock_;
  MemoryStore store_;
  StateStore states_;
  MapHub hub_;
  std::string log_;  // written on the control thread; read after stop()
  // Written on the control thread; read after step() has answered.
  std::vector<std::string> denied_;
  uint64_t hub_when_told_ = 0;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, CommitsAndPublishesBeforeItAnswers) {
  EXPECT_EQ(hub_.current()->map().revision(), 1u);
  ASSERT_TRUE(register_node(1).status.ok());
  EXPECT_EQ(hub_.current()->map().revision(), 2u);
  EXPECT_EQ(StateStore(store_).load()->nodes.size(), 1u);
  controller_->stop();
  EXPECT_THAT(log_, HasSubstr("registered node " + test_uuid(1)));
}

TEST_F(ControllerTest, TellsWhoIsRevokedBeforeTheMap) {
  ASSERT_TRUE(step(RevokeIdentity{"client/app"}).status.ok());
  EXPECT_EQ(denied_, std::vector<std::string>{"client/app"});
  EXPECT_EQ(hub_.current()->map().denied(0), "client/app");
  EXPECT_EQ(hub_when_told_, hub_.current()->map().revision() - 1);
  ASSERT_TRUE(step(UnrevokeIdentity{"client/app"}).status.ok());
  EXPECT_THAT(denied_, IsEmpty());
  controller_->stop();
  EXPECT_THAT(log_, HasSubstr("revoked client/app"));
}

/// What waits behind the revocation, or came as far as a handler before it, changes nothing any more: not the list
/// either.
TEST_F(ControllerTest, AnEventOfSomebodyWhoWasRevokedMeanwhileIsRefused) {
  ASSERT_TRUE(step(RevokeIdentity{"admin/eve"}).status.ok());
  std::promise<absl::Status> promise;
  ASSERT_TRUE(controller_
                  ->submit(
                      UnrevokeIdentity{"admin/eve"},
                      [&](const Decision& decision, const ClusterCore&) { promise.set_value(decision.status); }, "host",
                      "admin/eve")
                  .ok());
  EXPECT_EQ(promise.get_future().get().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(denied_, ElementsAre("admin/eve"));
}

TEST_F(ControllerTest, RefusalThatIsRepeatedIsLoggedOnce) {
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(step(DropTable{"nothing"}).status.ok());
  EXPECT_FALSE(step(DropTable{"else"}).status.ok());
  controller_->stop();
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 2) << log_;
}

TEST_F(ControllerTest, DecidesAgainAfterAnotherProcessChangedTheState) {
  StateStore other(store_);
  ASSERT_TRUE(other.load().ok());
  Changes changes;
  changes.put_nodes.push_back(test_node(7));
  changes.map_revision = 2;
  changes.next_table_id = 1;
  ASSERT_TRUE(*other.commit(changes));

  ASSERT_TRUE(register_node(1).status.ok());
  const auto state = StateStore(store_).load();
  EXPECT_EQ(state->nodes.size(), 2u);
  EXPECT_EQ(state->map_revision, 3u);
  EXPECT_EQ(hub_.current()->map().revision(), 3u);
  EXPECT_EQ(hub_.current()->map().nodes_size(), 2);
}

TEST_F(ControllerTest, StoreFailureIsUnavailableAndHeartbeatsGoOn) {
  ASSERT_TRUE(register_node(1).status.ok());
  store_.fail_transactions(absl::UnavailableError("disk on fire"));
  const Decision failed = step(CreateTable{"t", 1, false});
  EXPECT_EQ(failed.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.status.message()), HasSubstr("disk on fire"));
  EXPECT_THAT(std::string(failed.status.message()), HasSubstr("may or may not"));
  const NodeInfo node = test_node(1);
  EXPECT_TRUE(step(NodeHeartbeat{node.uuid, 1, node.instance, 0, false}).status.ok());

  store_.fail_transactions(absl::OkStatus());
  EXPECT_TRUE(step(CreateTable{"t", 1, false}).status.ok());
}

TEST_F(ControllerTest, WhenReadyWaitsForTheOwners) {
  ASSERT_TRUE(register_node(1).status.ok());
  std::promise<std::vector<std::string>> ready;
  std::promise<uint64_t> revision;
  ASSERT_TRUE(controller_
                  ->submit(CreateTable{"t", 1, false},
                           [&](const Decision& decision, const ClusterCore& core) {
                             controller_->when_ready(decision.table->id, core.state().map_revision, kTimeNever,
                                                     [&](const auto& lagging) { ready.set_value(lagging); });
                             revision.set_value(core.state().map_revision);
                           })
                  .ok());
  const uint64_t wanted = revision.get_future().get();
  const NodeInfo node = test_node(1);
  ASSERT_TRUE(step(NodeHeartbeat{node.uuid, 1, node.instance, wanted, false}).status.ok());
  EXPECT_THAT(ready.get_future().get(), IsEmpty());
}

TEST_F(ControllerTest, WhenReadyGivesUpAtItsDeadline) {
  ASSERT_TRUE(register_node(1).status.ok());
  std::promise<std::vector<std::string>> ready;
  ASSERT_TRUE(controller_
                  ->submit(CreateTable{"t", 1, false},
                           [&](const Decision& decision, const ClusterCore& core) {
                             controller_->when_ready(decision.table->id, core.state().map_revision,
                                                     controller_->now_ns() + 5 * kMillisecond,
                                                     [&](const auto& lagging) { ready.set_value(lagging); });
                           })
                  .ok());
  EXPECT_THAT(ready.get_future().get(), ElementsAre(test_uuid(1)));
}

TEST_F(ControllerTest, StopAnswersEverybody) {
  ASSERT_TRUE(register_node(1).status.ok());
  std::promise<std::vector<std::string>> ready;
  std::promise<void> waiting;
  ASSERT_TRUE(controller_
                  ->submit(CreateTable{"t", 1, false},
                           [&](const Decision& decision, const ClusterCore& core) {
                             controller_->when_ready(decision.table->id, core.state().map_revision, kTimeNever,
                                                     [&](const auto& lagging) { ready.set_value(lagging); });
                             waiting.set_value();
                           })
                  .ok());
  waiting.get_future().wait();
  controller_->stop();
  EXPECT_THAT(ready.get_future().get(), ElementsAre(test_uuid(1)));
  EXPECT_EQ(register_node(2).status.code(), StatusCode::kUnavailable);
}

TEST_F(ControllerTest, QueueIsBounded) {
  // Hold the control thread, then fill the queue behind it.
  std::promise<void> held;
  std::promise<void> release;
  ASSERT_TRUE(controller_
                  ->query(
                      [&](const ClusterCore&, TimeNs) {
                        held.set_value();
                        release.get_future().wait();
                      },
                      [](const absl::Status&) {})
                  .ok());
  held.get_future().wait();
  std::atomic<size_t> answered = 0;
  const auto submit = [&] {
    return controller_->submit(Tick{}, [&](const Decision&, const ClusterCore&) { ++answered; });
  };
  for (size_t i = 0; i < kCommandsMax; ++i) ASSERT_TRUE(submit().ok());
  EXPECT_EQ(submit().code(), StatusCode::kResourceExhausted);
  release.set_value();
  EXPECT_TRUE(eventually([&] { return answered == kCommandsMax; }));
}

TEST_F(ControllerTest, StrangersHeartbeatsTakeNoPlaceAndNodesHaveTheirs) {
  ASSERT_TRUE(register_node(1).status.ok());
  std::promise<void> held;
  std::promise<void> release;
  ASSERT_TRUE(controller_
                  ->query(
                      [&](const ClusterCore&, TimeNs) {
                        held.set_value();
                        release.get_future().wait();
                      },
                      [](const absl::Status&) {})
                  .ok());
  held.get_future().wait();
  std::vector<std::string> order;  // written on the control thread
  std::atomic<size_t> answered = 0;
  const auto submit = [&](Event event, const std::string& name) {
    return controller_->submit(std::move(event), [&order, &answered, name](const Decision&, const ClusterCore&) {
      order.push_back(name);
      ++answered;
    });
  };
  // Everything that a stranger can fill is full.
  for (size_t i = 0; i < kCommandsMax; ++i) ASSERT_TRUE(submit(Tick{}, "other").ok());
  const NodeInfo stranger = test_node(9);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(submit(NodeHeartbeat{stranger.uuid, 1, stranger.instance}, "stranger").code(), StatusCode::kNotFound);
  }
  const NodeInfo node = test_node(1);
  NodeInfo forged = node;
  forged.instance = test_uuid(77);
  EXPECT_EQ(submit(NodeHeartbeat{forged.uuid, 1, forged.instance}, "forged").code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(submit(RegisterNode{kClusterId, test_node(2), 0}, "register").ok());
  EXPECT_TRUE(submit(NodeHeartbeat{node.uuid, 1, node.instance}, "heartbeat").ok());
  EXPECT_EQ(submit(NodeHeartbeat{node.uuid, 1, node.instance}, "again").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(submit(ReplicaReport{node.uuid, 1, node.instance, {}, {}, {}}, "report").ok());
  release.set_value();
  ASSERT_TRUE(eventually([&] { return answered == kCommandsMax + 3; }));
  controller_->stop();
  EXPECT_THAT(std::vector<std::string>(order.begin(), order.begin() + 4),
              ElementsAre("heartbeat", "report", "register", "other"));
}

/// A clock that any thread moves.
class SharedClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now_ns() const override { return now_.load(); }
  void advance(DurationNs by) { now_ += by; }

 private:
  std::atomic<TimeNs> now_{kSecond};
};

TEST_F(ControllerTest, ABusyControlThreadTakesNobodyForSilentWhoHasSpoken) {
  SharedClock clock;
  MemoryStore store;
  StateStore states(store);
  std::string log;
  auto state = states.load_or_create({}, kClusterId);
  controller_ = std::make_unique<Controller>(
      ControllerOptions{.core = {.suspect_after_ns = 3 * kSecond},
                        .tick_ns = 2 * kMillisecond,
                        .log = [&log](bool, const std::string& line) { log += line + "\n"; }},
      states, *std::move(state), clock, hub_);
  controller_->start();
  const NodeInfo node = test_node(1);
  ASSERT_TRUE(register_node(1).status.ok());
  std::promise<void> busy;
  std::promise<void> heard;
  ASSERT_TRUE(controller_
                  ->query(
                      [&](const ClusterCore&, TimeNs) {
                        clock.advance(10 * kSecond);  // what comes meanwhile waits
                        const auto queued = controller_->submit(NodeHeartbeat{node.uuid, 1, node.instance},
                                                                [&](const auto&, const auto&) { heard.set_value(); });
                        EXPECT_TRUE(queued.ok()) << queued;
                        busy.set_value();
                      },
                      [](const absl::Status&) {})
                  .ok());
  busy.get_future().wait();
  heard.get_future().wait();
  controller_->stop();
  EXPECT_THAT(log, testing::Not(HasSubstr("is suspected"))) << "it would lose its shards";
  controller_ = nullptr;
}

/// What is read from it may take long, and fail.
class SlowStore final : public MetadataStore {
 public:
  absl::StatusOr<GetResult> get(const std::string& key) override { return store.get(key); }
  absl::StatusOr<RangeResult> range(const std::string& prefix) override {
    if (auto meanwhile = std::exchange(on_read, nullptr)) {
      meanwhile();
      return absl::UnavailableError("it takes long");
    }
    return store.range(prefix);
  }
  absl::StatusOr<TransactionResult> transact(const Transaction& what) override { return store.transact(what); }
  absl::StatusOr<std::unique_ptr<Watch>> watch(const std::string& prefix, uint64_t from) override {
    return store.watch(prefix, from);
  }
  absl::Status compact(uint64_t revision) override { return store.compact(revision); }

  MemoryStore store;
  std::function<void()> on_read;  // by the control thread, but for the first time
};

TEST_F(ControllerTest, AStoreThatFailsSlowlyMakesNobodySilentWhoHasSpoken) {
  SharedClock clock;
  SlowStore store;
  StateStore states(store);
  std::string log;
  auto state = states.load_or_create({}, kClusterId);
  controller_ = std::make_unique<Controller>(
      ControllerOptions{.core = {.suspect_after_ns = 3 * kSecond},
                        .tick_ns = 2 * kMillisecond,
                        .log = [&log](bool, const std::string& line) { log += line + "\n"; }},
      states, *std::move(state), clock, hub_);
  controller_->start();
  ASSERT_TRUE(register_node(1).status.ok());
  const NodeInfo node = test_node(1);
  std::promise<void> heard;
  store.store.fail_transactions(absl::UnavailableError("full"));
  // The change fails, so the next tick reads everything again.
  ASSERT_TRUE(controller_
                  ->submit(CreateTable{"t", 1, false},
                           [&](const Decision&, const ClusterCore&) {
                             store.on_read = [&] {
                               clock.advance(10 * kSecond);
                               const auto queued =
                                   controller_->submit(NodeHeartbeat{node.uuid, 1, node.instance},
                                                       [&](const auto&, const auto&) { heard.set_value(); });
                               EXPECT_TRUE(queued.ok()) << queued;
                             };
                             clock.advance(10 * kMillisecond);  // a tick is due
                           })
                  .ok());
  heard.get_future().wait();
  controller_->stop();
  EXPECT_THAT(log, testing::Not(HasSubstr("is suspected")));
  controller_ = nullptr;
}

/// Cannot be read for a while.
class AbsentStore final : public MetadataStore {
 public:
  absl::StatusOr<GetResult> get(const std::string& key) override { return store.get(key); }
  absl::StatusOr<RangeResult> range(const std::string& prefix) override {
    ++reads;
    return is_away ? absl::StatusOr<RangeResult>(absl::UnavailableError("nobody is there")) : store.range(prefix);
  }
  absl::StatusOr<TransactionResult> transact(const Transaction& what) override { return store.transact(what); }
  absl::StatusOr<std::unique_ptr<Watch>> watch(const std::string& prefix, uint64_t from) override {
    return store.watch(prefix, from);
  }
  absl::Status compact(uint64_t revision) override { return store.compact(revision); }
  void leave() {
    is_away = true;
    store.fail_transactions(absl::UnavailableError("nobody is there"));
  }
  void come_back() {
    is_away = false;
    store.fail_transactions(absl::OkStatus());
  }

  MemoryStore store;
  std::atomic<bool> is_away = false;
  std::atomic<int> reads = 0;
};

TEST_F(ControllerTest, AStoreThatIsAwayIsNotAskedForEachCommand) {
  SharedClock clock;
  AbsentStore store;
  StateStore states(store);
  auto state = states.load_or_create({}, kClusterId);
  controller_ = std::make_unique<Controller>(ControllerOptions{.core = {.suspect_after_ns = 3600 * kSecond}, .log = {}},
                                             states, *std::move(state), clock, hub_);
  controller_->start();
  ASSERT_TRUE(register_node(1).status.ok());
  store.leave();
  EXPECT_FALSE(step(CreateTable{"t", 1, false}).status.ok());
  store.reads = 0;
  for (int i = 0; i < 5; ++i) {
    const Decision refused = step(CreateTable{"t", 1, false});
    EXPECT_EQ(refused.status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("cannot be read: nobody is there"));
  }
  EXPECT_EQ(store.reads, 1);
  store.come_back();
  clock.advance(kSecond);
  EXPECT_TRUE(step(CreateTable{"t", 1, false}).status.ok());
  controller_ = nullptr;
}

/// What nodes say while a tick waits for the store may be much: the thread goes on all the same, and says so.
TEST_F(ControllerTest, HearingManyNodesIsNoHang) {
  SharedClock clock;
  SlowStore store;
  StateStore states(store);
  auto state = states.load_or_create({}, kClusterId);
  controller_ = std::make_unique<Controller>(
      ControllerOptions{.core = {.suspect_after_ns = 3600 * kSecond}, .tick_ns = 2 * kMillisecond, .log = {}}, states,
      *std::move(state), clock, hub_);
  controller_->start();
  ASSERT_TRUE(register_node(1).status.ok());
  ASSERT_TRUE(register_node(2).status.ok());
  std::promise<DurationNs> since_step;
  const auto beat = [&](uint64_t n, std::function<void()> done) {
    const NodeInfo node = test_node(n);
    return controller_->submit(NodeHeartbeat{node.uuid, 1, node.instance},
                               [done = std::move(done)](const auto&, const auto&) { done(); });
  };
  store.store.fail_transactions(absl::UnavailableError("full"));
  // The change fails, so the next tick reads everything again.
  const auto queued = controller_->submit(CreateTable{"t", 1, false}, [&](const Decision&, const ClusterCore&) {
    store.on_read = [&] {
      EXPECT_TRUE(beat(1, [&] { clock.advance(3600 * kSecond); }).ok());
      EXPECT_TRUE(beat(2, [&] { since_step.set_value(clock.now_ns() - controller_->last_step_ns()); }).ok());
    };
    clock.advance(10 * kMillisecond);  // a tick is due
  });
  ASSERT_TRUE(queued.ok()) << queued;
  EXPECT_EQ(since_step.get_future().get(), 0);
  controller_ = nullptr;
}

TEST_F(ControllerTest, ANodeWithMoreShardsThanATransactionTakesCanBeRemoved) {
  ASSERT_TRUE(register_node(1).status.ok());
  for (const char* table : {"a", "b", "c"}) {
    ASSERT_TRUE(step(CreateTable{table, kShardsPerTableMax, false}).status.ok());
  }
  const Decision removed = step(NodeLeave{test_uuid(1), test_node(1).instance, true});
  EXPECT_TRUE(removed.status.ok()) << removed.status;
  const auto state = StateStore(store_).load();
  EXPECT_TRUE(state->nodes.empty());
  EXPECT_EQ(state->replica_count(test_uuid(1)), 0u);
}

TEST_F(ControllerTest, GenerationGrowsWithWhateverIsShown) {
  uint64_t last = controller_->generation();
  const auto grew = [&] { return std::exchange(last, controller_->generation()) < last; };
  ASSERT_TRUE(register_node(1).status.ok());
  EXPECT_TRUE(grew());
  const NodeInfo node = test_node(1);
  ASSERT_TRUE(step(NodeHeartbeat{node.uuid, 1, node.instance}).status.ok());
  EXPECT_FALSE(grew()) << "nothing new";
  ASSERT_TRUE(step(NodeHeartbeat{node.uuid, 1, node.instance, 5}).status.ok());
  EXPECT_TRUE(grew()) << "it serves a newer map";
  ASSERT_TRUE(step(NodeHeartbeat{node.uuid, 1, node.instance, 5, true}).status.ok());
  EXPECT_TRUE(grew()) << "it stops";
}

/// A controller that shares its store with others.
class ControllerAmongOthersTest : public ControllerTest {
 protected:
  ControllerAmongOthersTest() {
    controller_ = std::make_unique<Controller>(
        ControllerOptions{.core = {.suspect_after_ns = 3600 * kSecond},
                          .tick_ns = 2 * kMillisecond,
                          .log = {},
                          .on_denied = [this](uint64_t, const std::vector<std::string>& denied) { denied_ = denied; },
                          .alone = false},
        states_, *states_.load(), clock_, hub_);
    controller_->start();
  }
  bool leads() {
    return eventually([&] { return hub_.current() != nullptr; });
  }
  bool follows() {
    return eventually([&] { return hub_.current() == nullptr; });
  }
};

TEST_F(ControllerAmongOthersTest, FollowsUntilItIsToldToLead) {
  const Decision refused = register_node(1);
  EXPECT_EQ(refused.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(redirected_to(refused.status), "");
  EXPECT_EQ(hub_.current(), nullptr);
  controller_->set_leadership({.leads = true, .term = 1, .leader = "us:1", .trouble = ""});
  ASSERT_TRUE(leads());
  EXPECT_TRUE(register_node(1).status.ok());
}

TEST_F(ControllerAmongOthersTest, NamesTheLeaderAndDoesNothing) {
  controller_->set_leadership({.leads = true, .term = 1, .leader = "us:1", .trouble = ""});
  ASSERT_TRUE(leads());
  controller_->set_leadership({.leads = false, .term = 2, .leader = "other:1", .trouble = ""});
  ASSERT_TRUE(follows());
  const Decision refused = register_node(1);
  EXPECT_EQ(redirected_to(refused.status), "other:1");
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("other:1"));
  EXPECT_EQ(redirected_to(hub_.refusal()), "other:1");
  EXPECT_TRUE(StateStore(store_).load()->nodes.empty());
}

TEST_F(ControllerAmongOthersTest, NewLeaderReadsWhatTheLastOneWrote) {
  StateStore other(store_);
  ASSERT_TRUE(other.load().ok());
  Changes changes;
  changes.put_nodes.push_back(test_node(7));
  changes.map_revision = 2;
  changes.next_table_id = 1;
  ASSERT_TRUE(*other.commit(changes));
  controller_->set_leadership({.leads = true, .term = 1, .leader = "us:1", .trouble = ""});
  ASSERT_TRUE(leads());
  EXPECT_EQ(hub_.current()->map().revision(), 2u);
}

/// What it knew of who is revoked may be out of date while another process leads, and it must not keep anybody from
/// being sent there.
TEST_F(ControllerAmongOthersTest, OnlyTheLeaderRefusesWhoIsRevoked) {
  controller_->set_leadership({.leads = true, .term = 1, .leader = "us:1", .trouble = ""});
  ASSERT_TRUE(leads());
  ASSERT_TRUE(step(RevokeIdentity{"client/app"}).status.ok());
  EXPECT_THAT(denied_, ElementsAre("client/app"));
  controller_->set_leadership({.leads = false, .term = 2, .leader = "other:1", .trouble = ""});
  ASSERT_TRUE(follows());
  EXPECT_EQ(redirected_to(step(DropTable{"t"}, "client/app").status), "other:1");
  EXPECT_THAT(denied_, IsEmpty());
  controller_->set_leadership({.leads = true, .term = 3, .leader = "us:1", .trouble = ""});
  ASSERT_TRUE(leads());
  EXPECT_THAT(denied_, ElementsAre("client/app"));
}

TEST_F(ControllerAmongOthersTest, StoreThatKnowsOfAnotherLeaderIsBelieved) {
  controller_->set_leadership({.leads = true, .term = 1, .leader = "us:1", .trouble = ""});
  ASSERT_TRUE(leads());
  store_.fail_transactions(absl::FailedPreconditionError("another leads"));
  EXPECT_TRUE(redirected_to(register_node(1).status).has_value());
}

}  // namespace
}  // namespace skua::control
