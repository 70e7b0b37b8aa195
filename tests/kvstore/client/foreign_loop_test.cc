// A client that sleeps in somebody else's epoll: wait_fd(), begin_wait(), end_wait().
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "kvstore/client/async_client.h"
#include "tests/kvstore/client/threaded_cluster.h"

namespace skua::kv {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kLimitMs = 60'000;

/// An event loop that watches nothing but one client's descriptor.
class ForeignLoop {
 public:
  explicit ForeignLoop(AsyncClient& client) : client_(client), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = 7}};
    SKUA_CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, client.wait_fd(), &event) == 0, "epoll_ctl");
  }
  ~ForeignLoop() { close(epoll_); }

  /// False: the loop had nothing to wake up for within the limit.
  template <typename Predicate>
  bool run_until(Predicate done) {
    for (;;) {
      client_.poll();
      if (done()) return true;
      const auto longest = client_.begin_wait();
      if (!longest.has_value()) continue;
      const auto ms = std::chrono::ceil<milliseconds>(std::min<std::chrono::nanoseconds>(*longest, seconds(3600)));
      const int limit = static_cast<int>(std::min<int64_t>(ms.count(), kLimitMs));
      const bool is_awake = wait(limit) > 0 || ms.count() < kLimitMs;
      client_.end_wait();
      if (!is_awake) return false;
    }
  }

  /// Until the client has nothing to do, and its descriptor says so. end_wait() is due then.
  void run_until_idle() {
    for (;;) {
      client_.poll();
      if (!client_.begin_wait().has_value()) continue;
      if (wait(0) == 0) return;
      client_.end_wait();
    }
  }

  int wait(int timeout_ms) {
    epoll_event event{};
    return epoll_wait(epoll_, &event, 1, timeout_ms);
  }

 private:
  AsyncClient& client_;
  const int epoll_;
};

std::unique_ptr<AsyncClient> make_sleepy_client(ThreadedCluster& cluster) {
  ClientOptions options;
  options.spin = std::chrono::nanoseconds(0);
  return cluster.make_client(options);
}

TEST(ForeignLoop, CarriesOperationsOfAllSizes) {
  ThreadedCluster cluster(2, 4);
  auto client = make_sleepy_client(cluster);
  ForeignLoop loop(*client);
  for (const size_t size : {size_t{1}, size_t{4000}, size_t{3} << 20}) {
    const std::string value(size, 'v');
    size_t done = 0;
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(client
                      ->put("t", "key" + std::to_string(i), value, {},
                            [&](WriteResult&& result) {
                              EXPECT_TRUE(result.ok()) << result.status;
                              ++done;
                            })
                      .ok());
    }
    ASSERT_TRUE(loop.run_until([&] { return done == 8; }));
    ASSERT_TRUE(client
                    ->get("t", "key3", {},
                          [&](GetResult&& result) {
                            EXPECT_TRUE(result.value.bytes() == value);
                            ++done;
                          })
                    .ok());
    ASSERT_TRUE(loop.run_until([&] { return done == 9; }));
  }
}

TEST(ForeignLoop, SleepsWhenNothingIsLeft_AndATaskOfAnotherThreadWakesIt) {
  ThreadedCluster cluster(1, 1);
  auto client = make_sleepy_client(cluster);
  ASSERT_TRUE(client->warm_up("t", seconds(60)).ok());
  ForeignLoop loop(*client);
  std::atomic<bool> ran{false};
  for (int round = 0; round < 3; ++round) {
    ran = false;
    loop.run_until_idle();
    std::thread other([&] { EXPECT_TRUE(client->post([&] { ran = true; })); });
    EXPECT_EQ(loop.wait(kLimitMs), 1);
    other.join();
    client->end_wait();
    client->poll();
    EXPECT_TRUE(ran);
  }
}

TEST(ForeignLoop, ATaskThatCameBeforeTheSleepIsWorkLeft) {
  ThreadedCluster cluster(1, 1);
  auto client = make_sleepy_client(cluster);
  ForeignLoop loop(*client);
  loop.run_until_idle();
  client->end_wait();
  client->poll();  // finds nothing
  ASSERT_TRUE(client->post([] {}));
  EXPECT_FALSE(client->begin_wait().has_value());
  client->poll();
}

TEST(ForeignLoop, SleepsNoLongerThanADeadline) {
  ThreadedCluster cluster(1, 1);
  auto client = make_sleepy_client(cluster);
  ForeignLoop loop(*client);
  absl::Status status;
  bool done = false;
  ASSERT_TRUE(client
                  ->get("no such table", "k", {.timeout = milliseconds(300)},
                        [&](GetResult&& result) {
                          status = result.status;
                          done = true;
                        })
                  .ok());
  // Only the operation's own timers can end these sleeps.
  ASSERT_TRUE(loop.run_until([&] { return done; }));
  EXPECT_FALSE(status.ok());
}

TEST(ForeignLoop, NothingMayBeDoneWhileItSleeps) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto sleep_and = [](const std::function<void(AsyncClient&)>& use) {
    ThreadedCluster cluster(1, 1);
    auto client = make_sleepy_client(cluster);
    ForeignLoop(*client).run_until_idle();
    use(*client);
  };
  EXPECT_DEATH(sleep_and([](AsyncClient& client) { client.poll(); }), "poll\\(\\) was called between");
  EXPECT_DEATH(sleep_and([](AsyncClient& client) { (void)client.get("t", "k", {}, [](GetResult&&) {}); }),
               "an operation was submitted between");
}

}  // namespace
}  // namespace skua::kv
