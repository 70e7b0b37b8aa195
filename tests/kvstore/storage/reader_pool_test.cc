#include "kvstore/storage/reader_pool.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace skua::kv {
namespace {

/// Counts itself, after waiting at a gate.
struct CountingJob final : ReadJob {
  void run() override {
    std::unique_lock lock(*mutex);
    changed->wait(lock, [&] { return *open; });
    ++*count;
    changed->notify_all();
  }
  std::mutex* mutex;
  std::condition_variable* changed;
  bool* open;
  int* count;
};

class ReaderPoolTest : public ::testing::Test {
 protected:
  CountingJob make_job() {
    CountingJob job;
    job.mutex = &mutex_;
    job.changed = &changed_;
    job.open = &open_;
    job.count = &count_;
    return job;
  }
  void open_gate() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_count(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int count_ = 0;
};

TEST_F(ReaderPoolTest, Submit_RunsEachJobOnce) {
  ReaderPool pool({.threads = 3, .queue_jobs_max = 1024});
  std::vector<CountingJob> jobs(1000, make_job());
  for (CountingJob& job : jobs) ASSERT_TRUE(pool.submit(job).ok());
  wait_for_count(1000);
  pool.stop();
  EXPECT_EQ(count_, 1000);
}

TEST_F(ReaderPoolTest, Submit_FromManyThreads) {
  ReaderPool pool({.threads = 2, .queue_jobs_max = 4096});
  std::vector<std::vector<CountingJob>> jobs(3, std::vector<CountingJob>(1000, make_job()));
  std::vector<std::thread> submitters;
  for (auto& mine : jobs) {
    submitters.emplace_back([&pool, &mine] {
      for (CountingJob& job : mine) EXPECT_TRUE(pool.submit(job).ok());
    });
  }
  for (std::thread& thread : submitters) thread.join();
  wait_for_count(3000);
}

TEST_F(ReaderPoolTest, Submit_RefusesWhenFull) {
  open_ = false;
  ReaderPool pool({.threads = 1, .queue_jobs_max = 4});
  std::vector<CountingJob> jobs(20, make_job());
  int accepted = 0;
  absl::Status refusal;
  for (CountingJob& job : jobs) {
    const absl::Status status = pool.submit(job);
    if (status.ok()) {
      ++accepted;
    } else {
      refusal = status;
    }
  }
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refusal.message().find("4 reads wait for the disk"), absl::string_view::npos) << refusal;
  EXPECT_GE(accepted, 4);
  EXPECT_LE(accepted, 5) << "four queued and one that runs";
  open_gate();
  pool.stop();
  EXPECT_EQ(count_, accepted);
}

TEST_F(ReaderPoolTest, Stop_RunsWhatIsQueuedAndRefusesMore) {
  open_ = false;
  ReaderPool pool({.threads = 2, .queue_jobs_max = 128});
  std::vector<CountingJob> jobs(100, make_job());
  for (CountingJob& job : jobs) ASSERT_TRUE(pool.submit(job).ok());
  std::thread opener([this] { open_gate(); });
  pool.stop();
  opener.join();
  EXPECT_EQ(count_, 100);
  EXPECT_EQ(pool.submit(jobs[0]).code(), absl::StatusCode::kUnavailable);
  pool.stop();
}

}  // namespace
}  // namespace skua::kv
