#include "rpc/transport/dpdk/path_search.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace skua::rpc::dpdk {
namespace {

constexpr uint16_t kDevice = 9000;
constexpr uint64_t kNonce = 77;

FrameSource source(uint8_t last) {
  FrameSource out;
  out.ip_low = 0x0a4d0000 + last;
  out.udp_port = 18'600;
  return out;
}

class PathSearchTest : public testing::Test, protected PathSearch::Wire {
 protected:
  [[nodiscard]] bool has_link(PeerId /*peer*/) const override { return link; }
  void ask(PeerId peer, const PathProbe& probe) override {
    EXPECT_EQ(probe.kind, PathProbe::Kind::kAsk);
    asked.emplace_back(peer, probe);
  }
  void on_path_mtu(PeerId peer, uint16_t before) override { changes.push_back({peer, before, search.mtu(peer)}); }

  void echo(PeerId from, uint64_t nonce, uint16_t ip_bytes) {
    std::array<std::byte, PathProbe::kBytes> bytes;
    PathProbe{nonce, ip_bytes, PathProbe::Kind::kEcho}.write(bytes.data());
    search.on_echo(from, bytes);
  }
  /// Runs the search over paths that carry so much each.
  void run(std::vector<std::pair<PeerId, uint16_t>> carries, DurationNs time) {
    for (const TimeNs end = now + time; now < end; now += 10 * kMillisecond) {
      search.turn(now);
      for (const auto& [peer, probe] : std::exchange(asked, {})) {
        for (const auto& [id, most] : carries) {
          if (id == peer && probe.ip_bytes <= most) echo(peer, probe.nonce, probe.ip_bytes);
        }
      }
    }
  }

  struct Change {
    PeerId peer;
    uint16_t before;
    uint16_t now;
    bool operator==(const Change&) const = default;
  };
  bool link = true;
  TimeNs now = kSecond;
  std::vector<std::pair<PeerId, PathProbe>> asked;
  std::vector<Change> changes;
  PathSearch search{*this};
};

TEST_F(PathSearchTest, NobodyWanted_NothingIsKnown) {
  search.turn(now);
  EXPECT_EQ(search.mtu(0), 0);
  EXPECT_EQ(search.mtu(kNoPeer), 0);
  echo(kNoPeer, 0, kDevice);
  EXPECT_TRUE(asked.empty());
}

TEST_F(PathSearchTest, EachPeerHasItsPath) {
  for (const PeerId id : {0u, 5u, 2u}) search.want(id, source(static_cast<uint8_t>(id)), kDevice, kNonce + id, now);
  EXPECT_EQ(search.searching_count(), 3u);
  EXPECT_EQ(search.mtu(5), kDevice) << "believed until shown otherwise";
  run({{0, kDevice}, {5, 1600}, {2, 1300}}, kSecond);
  EXPECT_EQ(search.searching_count(), 0u);
  EXPECT_EQ(search.mtu(0), kDevice);
  EXPECT_EQ(search.mtu(5), 1500);
  EXPECT_EQ(search.mtu(2), 1280);
  EXPECT_EQ(search.mtu(1), 0);
  EXPECT_EQ(changes, (std::vector<Change>{{5, kDevice, 1500}, {2, kDevice, 1280}}));
}

TEST_F(PathSearchTest, WantedAgain_IsSearchedOnce) {
  search.want(0, source(0), kDevice, kNonce, now);
  search.want(0, source(0), kDevice, kNonce + 1, now);
  EXPECT_EQ(search.searching_count(), 1u);
  search.turn(now);
  EXPECT_EQ(asked.size(), 5u);
  EXPECT_EQ(asked[0].second.nonce, kNonce);
}

TEST_F(PathSearchTest, IdOfAnotherAddress_IsAnotherPath) {
  search.want(0, source(0), kDevice, kNonce, now);
  run({{0, 1500}}, kSecond);
  ASSERT_EQ(search.mtu(0), 1500);
  search.want(0, source(1), kDevice, kNonce + 1, now);
  EXPECT_EQ(search.mtu(0), kDevice);
  EXPECT_EQ(search.searching_count(), 1u);
  echo(0, kNonce, 1280);  // of the other search
  run({{0, kDevice}}, kSecond);
  EXPECT_EQ(search.mtu(0), kDevice);
  EXPECT_EQ(changes.size(), 1u);
}

TEST_F(PathSearchTest, NoLink_WaitsForIt) {
  link = false;
  search.want(0, source(0), kDevice, kNonce, now);
  run({{0, 1500}}, 5 * kSecond);
  EXPECT_EQ(search.searching_count(), 1u);
  EXPECT_EQ(search.mtu(0), kDevice);
  link = true;
  run({{0, 1500}}, kSecond);
  EXPECT_EQ(search.mtu(0), 1500);
}

TEST_F(PathSearchTest, LateLargeEcho_IsTold) {
  search.want(0, source(0), kDevice, kNonce, now);
  run({{0, 1500}}, kSecond);
  echo(0, kNonce, kDevice);
  EXPECT_EQ(changes, (std::vector<Change>{{0, kDevice, 1500}, {0, 1500, kDevice}}));
  const std::array<std::byte, PathProbe::kBytes> garbage{};
  search.on_echo(0, garbage);
  search.on_echo(7, garbage);
  EXPECT_EQ(changes.size(), 2u);
}

}  // namespace
}  // namespace skua::rpc::dpdk
