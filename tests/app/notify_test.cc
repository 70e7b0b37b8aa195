// A socket of the test's own stands for the service manager's.
#include "app/notify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "app/service_reporter.h"
#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

class Manager {
 public:
  explicit Manager(const std::string& name) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
  }
  ~Manager() { ::close(fd_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// The next message; empty: none came for a minute.
  std::string next(int limit_ms = 60'000) {
    pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&wanted, 1, limit_ms) != 1) return {};
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }
  /// Reads until `wanted` comes. False: it does not.
  bool hears(const std::string& wanted) {
    while (true) {
      const std::string message = next();
      heard.push_back(message);
      if (message == wanted) return true;
      if (message.empty()) return false;
    }
  }
  std::vector<std::string> heard;

 private:
  const int fd_;
};

TEST(Notifier, SendsEachMessage) {
  const TempDir dir;
  Manager manager(dir.path() + "/notify");
  const Notifier notifier(dir.path() + "/notify");
  notifier.ready();
  EXPECT_EQ(manager.next(), "READY=1");
  notifier.status("two\nlines");
  EXPECT_EQ(manager.next(), "STATUS=two lines");
  notifier.extend_timeout(60 * kSecond);
  EXPECT_EQ(manager.next(), "EXTEND_TIMEOUT_USEC=60000000");
  notifier.alive();
  EXPECT_EQ(manager.next(), "WATCHDOG=1");
  notifier.stopping();
  EXPECT_EQ(manager.next(), "STOPPING=1");
}

TEST(Notifier, KnowsAbstractSockets) {
  const std::string name = "@skua-notify-test-" + std::to_string(getpid());
  Manager manager(name);
  Notifier(name).ready();
  EXPECT_EQ(manager.next(), "READY=1");
}

TEST(Notifier, NobodyListens) {
  EXPECT_FALSE(Notifier("").is_heard());
  EXPECT_FALSE(Notifier("relative").is_heard());
  EXPECT_FALSE(Notifier("/" + std::string(200, 'x')).is_heard());
  Notifier("/nowhere/notify").ready();  // nothing happens
}

// NOLINTBEGIN(concurrency-mt-unsafe): there is one thread
TEST(Notifier, ReadsTheEnvironment) {
  ASSERT_EQ(setenv("NOTIFY_SOCKET", "/run/x", 1), 0);
  ASSERT_EQ(setenv("WATCHDOG_USEC", "30000000", 1), 0);
  EXPECT_TRUE(Notifier::from_environment().is_heard());
  EXPECT_EQ(Notifier::from_environment().watchdog_ns(), 30 * kSecond);
  ASSERT_EQ(setenv("WATCHDOG_PID", "1", 1), 0);
  EXPECT_EQ(Notifier::from_environment().watchdog_ns(), 0);
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ASSERT_EQ(unsetenv(name), 0);
  EXPECT_FALSE(Notifier::from_environment().is_heard());
}
// NOLINTEND(concurrency-mt-unsafe)

class ServiceReporterTest : public testing::Test {
 protected:
  const TempDir dir_;
  Manager manager_{dir_.path() + "/notify"};
  std::atomic<bool> alive_{true};
  const ServiceProbe probe_{.is_alive = [this] { return alive_.load(); }, .status = [] { return "serving"; }};
};

TEST_F(ServiceReporterTest, TellsOfTheWholeLife) {
  ServiceReporter reporter(Notifier(dir_.path() + "/notify", 3 * kMillisecond), kMillisecond);
  EXPECT_EQ(manager_.next(), "STATUS=starting");
  EXPECT_EQ(manager_.next(), "EXTEND_TIMEOUT_USEC=60000000");
  reporter.ready(probe_);
  EXPECT_TRUE(manager_.hears("READY=1"));
  EXPECT_TRUE(manager_.hears("STATUS=serving"));
  EXPECT_TRUE(manager_.hears("WATCHDOG=1"));
  manager_.heard.clear();
  reporter.stopping();
  EXPECT_TRUE(manager_.hears("STOPPING=1"));
  EXPECT_THAT(manager_.heard, testing::Not(testing::Contains("READY=1")));
  EXPECT_TRUE(manager_.hears("EXTEND_TIMEOUT_USEC=60000000"));
  EXPECT_TRUE(manager_.hears("EXTEND_TIMEOUT_USEC=60000000"));
  reporter.stopping();
}

TEST_F(ServiceReporterTest, AsksForMoreTimeForALimitedTimeOnly) {
  ServiceReporter reporter(Notifier(dir_.path() + "/notify"), kMillisecond, 0);
  reporter.ready(probe_);
  EXPECT_TRUE(manager_.hears("STATUS=serving"));
  EXPECT_THAT(manager_.heard, testing::Not(testing::Contains(testing::StartsWith("EXTEND"))));
}

TEST_F(ServiceReporterTest, AProgramThatDoesNotLiveFeedsNoWatchdog) {
  alive_ = false;
  ServiceReporter reporter(Notifier(dir_.path() + "/notify", 3 * kMillisecond), kMillisecond);
  reporter.ready(probe_);
  EXPECT_TRUE(manager_.hears("STATUS=serving"));
  EXPECT_THAT(manager_.heard, testing::Not(testing::Contains("WATCHDOG=1")));
  alive_ = true;
  EXPECT_TRUE(manager_.hears("WATCHDOG=1"));
}

}  // namespace
}  // namespace skua::app
