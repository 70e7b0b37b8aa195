#include "rpc/base/short_slices.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

namespace skua {
namespace {

TEST(ShortSlices, AskForShortSlices_KeepsPolicyAndPriority) {
  std::thread([] {
    const auto self = static_cast<id_t>(::gettid());
    ASSERT_EQ(::setpriority(PRIO_PROCESS, self, 3), 0);
    const int policy = ::sched_getscheduler(0);
    ask_for_short_slices();
    EXPECT_EQ(::sched_getscheduler(0), policy);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, self), 3);
  }).join();
}

}  // namespace
}  // namespace skua
