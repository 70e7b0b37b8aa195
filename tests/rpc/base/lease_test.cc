#include "rpc/base/lease.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace skua::rpc {
namespace {

class Recorder final : public LeaseOwner {
 public:
  virtual ~Recorder() = default;
  void return_lease(uint64_t cookie) override { returned.push_back(cookie); }
  std::vector<uint64_t> returned;
};

TEST(Lease, Destructor_ReturnsOnce) {
  Recorder owner;
  {
    const Lease lease(as_byte_span("abc"), &owner, 7);
    EXPECT_EQ(as_string_view(lease.bytes()), "abc");
    EXPECT_EQ(lease.size(), 3u);
    EXPECT_TRUE(owner.returned.empty());
  }
  EXPECT_EQ(owner.returned, (std::vector<uint64_t>{7}));
}

TEST(Lease, Move_TakesTheDutyAlong) {
  Recorder owner;
  Lease first(as_byte_span("abc"), &owner, 1);
  Lease second(std::move(first));
  // NOLINTNEXTLINE(bugprone-use-after-move): what a moved-from lease is
  EXPECT_EQ(first.size(), 0u);
  EXPECT_TRUE(owner.returned.empty());
  Lease third(as_byte_span("de"), &owner, 2);
  third = std::move(second);
  EXPECT_EQ(owner.returned, (std::vector<uint64_t>{2}));
  EXPECT_EQ(as_string_view(third.bytes()), "abc");
  Lease& self = third;
  third = std::move(self);
  EXPECT_EQ(owner.returned.size(), 1u);
  third = Lease();
  EXPECT_EQ(owner.returned, (std::vector<uint64_t>{2, 1}));
}

TEST(Lease, Reset_ReturnsAndEmpties) {
  Recorder owner;
  Lease lease(as_byte_span("abc"), &owner, 3);
  lease.reset();
  lease.reset();
  EXPECT_EQ(owner.returned, (std::vector<uint64_t>{3}));
  EXPECT_EQ(lease.size(), 0u);
}

TEST(Lease, WithoutOwner_NobodyIsTold) {
  Lease lease(as_byte_span("abc"), nullptr, 0);
  lease.reset();
  EXPECT_EQ(lease.size(), 0u);
}

}  // namespace
}  // namespace skua::rpc
