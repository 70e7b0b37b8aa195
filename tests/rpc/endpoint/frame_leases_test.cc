#include "rpc/frame_leases.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

class FrameLeasesTest : public ::testing::Test {
 protected:
  using Bursts = std::vector<std::vector<RxBufferId>>;

  Lease piece() { return Lease(frames.lend(as_byte_span(text))); }

  Bursts released() {
    parts.memory.flush_releases();
    return std::exchange(wire.released, {});
  }

  const std::string text = "a record";
  testing::ObedientWire wire;
  testing::ContextAndMemory parts{wire};
  FrameLeases frames{parts.memory};
};

TEST_F(FrameLeasesTest, AFrameOfWhichNothingIsKept_GoesBackAtOnce) {
  frames.begin(4);
  piece().reset();
  EXPECT_TRUE(released().empty()) << "it is still being handled";
  frames.end();
  EXPECT_EQ(released(), Bursts({{4}}));
  EXPECT_EQ(parts.memory.lent_count(), 0u);
}

TEST_F(FrameLeasesTest, AFrameGoesBackWithItsLastPiece) {
  frames.begin(4);
  Lease one = piece();
  Lease two = piece();
  frames.end();
  EXPECT_EQ(parts.memory.lent_count(), 1u) << "a frame counts once";
  one.reset();
  EXPECT_TRUE(released().empty());
  two.reset();
  EXPECT_EQ(released(), Bursts({{4}}));
  EXPECT_EQ(parts.memory.lent_count(), 0u);
}

TEST_F(FrameLeasesTest, FramesAreKeptApart) {
  std::vector<Lease> leases;
  for (RxBufferId buffer = 1; buffer <= 3; ++buffer) {
    frames.begin(buffer);
    leases.push_back(piece());
    frames.end();
  }
  leases.erase(leases.begin() + 1);
  EXPECT_EQ(released(), Bursts({{2}}));
  frames.begin(4);  // takes the number of the frame that went back
  leases.push_back(piece());
  frames.end();
  leases.erase(leases.begin());
  EXPECT_EQ(released(), Bursts({{1}}));
  leases.clear();
  EXPECT_EQ(released(), Bursts({{3, 4}}));
}

TEST_F(FrameLeasesTest, BytesWithoutABuffer_GoBackToNobody) {
  frames.begin(kNoBuffer);
  frames.end();
  EXPECT_TRUE(released().empty());
}

}  // namespace
}  // namespace skua::rpc
