#include "kvstore/node/worker_poll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace skua::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

WorkerStats stats_of(uint32_t worker) {
  WorkerStats stats;
  stats.worker = worker;
  return stats;
}

class WorkerPollTest : public ::testing::Test {
 protected:
  /// Two workers. The first one answers at once, the second one when the test says so.
  WorkerAnswers poll() {
    return poll_.ask({[] {
                        std::promise<WorkerStats> promise;
                        promise.set_value(stats_of(0));
                        return promise.get_future();
                      },
                      [this] {
                        ++questions_;
                        promise_ = {};
                        return promise_.get_future();
                      }});
  }

  WorkerPoll poll_{kMillisecond};
  std::promise<WorkerStats> promise_;
  int questions_ = 0;
};

TEST_F(WorkerPollTest, GoesOnWithoutASilentWorker) {
  const WorkerAnswers answers = poll();
  ASSERT_EQ(answers.stats.size(), 1);
  EXPECT_EQ(answers.stats[0].worker, 0);
  EXPECT_THAT(answers.silent, ElementsAre(1));
}

TEST_F(WorkerPollTest, ASilentWorkerHasOneQuestion) {
  for (int i = 0; i < 5; ++i) EXPECT_THAT(poll().silent, ElementsAre(1));
  EXPECT_EQ(questions_, 1);
  promise_.set_value(stats_of(1));
  EXPECT_THAT(poll().silent, IsEmpty());
  EXPECT_THAT(poll().silent, ElementsAre(1));
  EXPECT_EQ(questions_, 2);
}

TEST_F(WorkerPollTest, AWorkerThatStopsIsSilent) {
  EXPECT_THAT(poll().silent, ElementsAre(1));
  promise_ = {};  // the question is gone without an answer
  EXPECT_THAT(poll().silent, ElementsAre(1));
}

TEST_F(WorkerPollTest, AWorkerThatTakesNoQuestionIsSilent) {
  const auto none = [] { return std::future<WorkerStats>(); };
  EXPECT_THAT(WorkerPoll(kMillisecond).ask({none}).silent, ElementsAre(0));
}

}  // namespace
}  // namespace skua::kv
