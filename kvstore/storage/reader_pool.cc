#include "kvstore/storage/reader_pool.h"

#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/mpsc_ring.h"

namespace skua::kv {

// `tickets_` counts jobs in the ring that no thread has claimed. A thread that takes a ticket then pops one job. A
// mutex, which only readers take, serialises the pops.
class ReaderPool::Impl {
 public:
  explicit Impl(const Options& options) : ring_(options.queue_jobs_max) {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { run(); });
  }

  absl::Status submit(ReadJob& job) {
    if (stopping_.load(std::memory_order_relaxed)) {
      return absl::UnavailableError("the reader pool has stopped");
    }
    if (!ring_.try_push(&job)) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return absl::ResourceExhaustedError(
          absl::StrCat(ring_.capacity(), " reads wait for the disk, which is as many as may; try again later"));
    }
    jobs_.fetch_add(1, std::memory_order_relaxed);
    add_tickets(1);
    return absl::OkStatus();
  }

  void stop() {
    if (threads_.empty()) return;
    stopping_.store(true, std::memory_order_release);
    add_tickets(static_cast<int>(threads_.size()));  // one ticket without a job for each thread
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  bool step() {
    ReadJob* job = nullptr;
    if (!ring_.try_pop(job)) return false;
    job->run();
    return true;
  }

  Counters counters() const {
    return {jobs_.load(std::memory_order_relaxed), refused_.load(std::memory_order_relaxed)};
  }

 private:
  void add_tickets(int count) {
    tickets_.fetch_add(count, std::memory_order_release);
    for (int i = 0; i < count; ++i) tickets_.notify_one();
  }

  void take_ticket() {
    for (;;) {
      int tickets = tickets_.load(std::memory_order_acquire);
      while (tickets > 0) {
        if (tickets_.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acquire)) return;
      }
      tickets_.wait(0, std::memory_order_acquire);
    }
  }

  /// The oldest job; nullptr if the pool stops and no job is left.
  ReadJob* take_job() {
    const std::lock_guard lock(consumer_mutex_);
    for (;;) {
      // Read before the ring, so that a job that was submitted before stop() is found.
      const bool stopping = stopping_.load(std::memory_order_acquire);
      ReadJob* job = nullptr;
      if (ring_.try_pop(job)) return job;
      if (stopping) return nullptr;
      std::this_thread::yield();  // an earlier submitter has not finished its push yet
    }
  }

  void run() {
    for (;;) {
      take_ticket();
      ReadJob* job = take_job();
      if (job == nullptr) return;
      job->run();
    }
  }

  MpscRing<ReadJob*> ring_;
  std::atomic<int> tickets_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> jobs_{0};
  std::atomic<uint64_t> refused_{0};
  std::mutex consumer_mutex_;  // makes the readers one consumer of the ring
  std::vector<std::thread> threads_;
};

ReaderPool::ReaderPool(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

ReaderPool::~ReaderPool() {
  stop();
}

absl::Status ReaderPool::submit(ReadJob& job) {
  return impl_->submit(job);
}

void ReaderPool::stop() {
  impl_->stop();
}

bool ReaderPool::step() {
  return impl_->step();
}

ReaderPool::Counters ReaderPool::counters() const {
  return impl_->counters();
}

}  // namespace skua::kv
