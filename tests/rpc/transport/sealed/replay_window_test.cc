#include "rpc/transport/sealed/replay_window.h"

#include <gtest/gtest.h>

#include <set>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

/// The dumb twin: remembers all numbers.
class AllNumbers {
 public:
  [[nodiscard]] bool is_new(uint64_t number) const {
    const bool is_too_old = !seen_.empty() && number + ReplayWindow::kNumbers <= *seen_.rbegin();
    return !is_too_old && !seen_.contains(number);
  }
  void mark(uint64_t number) { seen_.insert(number); }

 private:
  std::set<uint64_t> seen_;
};

TEST(ReplayWindow, TakesEachNumberOnce) {
  ReplayWindow window;
  EXPECT_TRUE(window.is_new(0));
  window.mark(0);
  EXPECT_FALSE(window.is_new(0));
  EXPECT_TRUE(window.is_new(1));
  EXPECT_EQ(window.end(), 1u);
}

TEST(ReplayWindow, ForgetsWhatIsTooOldByRefusingIt) {
  ReplayWindow window;
  window.mark(10 * ReplayWindow::kNumbers);
  EXPECT_FALSE(window.is_new(9 * ReplayWindow::kNumbers));
  EXPECT_TRUE(window.is_new(9 * ReplayWindow::kNumbers + 1));
  EXPECT_FALSE(window.is_new(0));
}

TEST(ReplayWindow, DoesAsItsTwin) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    ReplayWindow window;
    AllNumbers twin;
    uint64_t newest = 0;
    for (int i = 0; i < 20'000; ++i) {
      // Mostly the next ones; late ones; jumps; now and then one that is far behind.
      const uint64_t dice = rng.below(100);
      const uint64_t back = dice < 60 ? 0 : rng.below(dice < 98 ? 80 : 3 * ReplayWindow::kNumbers);
      const uint64_t number =
          dice < 1 ? newest + rng.below(3 * ReplayWindow::kNumbers) : newest + 2 - std::min(newest + 2, back);
      ASSERT_EQ(window.is_new(number), twin.is_new(number)) << seed << ": " << number << " of " << newest;
      if (!window.is_new(number)) continue;
      window.mark(number);
      twin.mark(number);
      newest = std::max(newest, number);
    }
  }
}

}  // namespace
}  // namespace skua::rpc
