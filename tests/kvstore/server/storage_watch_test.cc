#include "kvstore/server/storage_watch.h"

#include <gtest/gtest.h>

namespace skua::kv {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(GrowthGate, Look_TellsChangesOnlyAndWhatIsFull) {
  GrowthGate gate("/data", 80 * kMiB);
  EXPECT_FALSE(gate.look(100 * kMiB).has_value());
  EXPECT_FALSE(gate.look(80 * kMiB).has_value());
  const auto closed = gate.look(79 * kMiB);
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*closed));
  for (const char* word : {"/data", "79 MiB", "80 MiB", "--disk-reserve"}) {
    EXPECT_NE(closed->ToString().find(word), std::string::npos) << word;
  }
  EXPECT_FALSE(gate.look(0).has_value());
}

TEST(GrowthGate, Look_OpensAgainAnEighthAbove) {
  GrowthGate gate("/data", 80 * kMiB);
  ASSERT_TRUE(gate.look(0).has_value());
  EXPECT_FALSE(gate.look(89 * kMiB).has_value());
  const auto open = gate.look(90 * kMiB);
  ASSERT_TRUE(open.has_value());
  EXPECT_TRUE(open->ok());
  EXPECT_FALSE(gate.look(85 * kMiB).has_value());
}

TEST(FreeBytesOf, Any_NamesThePathThatIsMissing) {
  EXPECT_TRUE(free_bytes_of("/").ok());
  EXPECT_NE(free_bytes_of("/no/such").status().ToString().find("/no/such"), std::string::npos);
}

}  // namespace
}  // namespace skua::kv
