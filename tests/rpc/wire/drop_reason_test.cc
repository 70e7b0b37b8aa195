#include "rpc/wire/drop_reason.h"

#include <gtest/gtest.h>

#include <set>

namespace skua::rpc {
namespace {

TEST(DropReason, Name_EachReasonHasItsOwn) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kDropReasonCount; ++i) {
    const std::string_view name = drop_reason_name(static_cast<DropReason>(i));
    EXPECT_NE(name, "unknown") << i;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(drop_reason_name(static_cast<DropReason>(kDropReasonCount)), "unknown");
}

}  // namespace
}  // namespace skua::rpc
