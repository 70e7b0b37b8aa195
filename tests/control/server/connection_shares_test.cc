#include "control/server/connection_shares.h"

#include <gtest/gtest.h>

#include <map>

#include "rpc/base/clock.h"

namespace skua::control {
namespace {

Network network(uint8_t number) {
  Network made{};
  made[0] = number;
  return made;
}

/// Descriptors and their sockets, as the kernel has them.
class Kernel {
 public:
  int open() {
    int fd = 0;
    while (open_.contains(fd)) ++fd;
    open_[fd] = ++last_;
    return fd;
  }
  void close(int fd) { open_.erase(fd); }
  uint64_t socket_of(int fd) const { return open_.contains(fd) ? open_.at(fd) : 0; }

 private:
  std::map<int, uint64_t> open_;
  uint64_t last_ = 0;
};

class ConnectionSharesTest : public testing::Test {
 protected:
  bool comes(uint8_t from, TimeNs now = kSecond) {
    const int fd = kernel_.open();
    const bool admitted = shares_.admit(fd, network(from), now);
    if (!admitted) kernel_.close(fd);
    return admitted;
  }

  Kernel kernel_;
  ConnectionShares shares_{8, [this](int fd) { return kernel_.socket_of(fd); }};
};

TEST_F(ConnectionSharesTest, ANetworkHasHalf) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(comes(1));
  EXPECT_FALSE(comes(1));
  EXPECT_TRUE(comes(2));
}

TEST_F(ConnectionSharesTest, ConnectionsThatHaveEndedCountNoMore) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(comes(1));
  EXPECT_FALSE(comes(1, kSecond));
  kernel_.close(2);
  kernel_.close(3);
  for (int fd = 2; fd < 4; ++fd) EXPECT_EQ(kernel_.open(), fd) << "something else has the descriptor now";
  EXPECT_FALSE(comes(1, kSecond + 1)) << "it is looked at once a second";
  EXPECT_TRUE(comes(1, 2 * kSecond));
  EXPECT_TRUE(comes(1, 2 * kSecond));
  EXPECT_FALSE(comes(1, 3 * kSecond));
}

TEST_F(ConnectionSharesTest, ADescriptorThatIsUsedAgainIsTheNewOwners) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(comes(1));
  kernel_.close(0);
  EXPECT_TRUE(comes(2)) << "has descriptor 0";
  EXPECT_TRUE(comes(1));
  EXPECT_FALSE(comes(1));
}

}  // namespace
}  // namespace skua::control
