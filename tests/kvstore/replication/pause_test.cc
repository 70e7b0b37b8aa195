#include "kvstore/replication/pause.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

TEST(Pause, IsNotInTheTimeSince) {
  const Pause pause{100, 150};
  EXPECT_EQ(pause.moved(80), 130);
  EXPECT_EQ(pause.moved(120), 150) << "no time lies in the future because of it";
  EXPECT_EQ(pause.moved(170), 170);
}

}  // namespace
}  // namespace skua::kv
