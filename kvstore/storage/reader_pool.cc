#include "kvstore/storage/reader_pool.h"

#include "absl/strings/str_cat.h"

namespace skua::kv {

ReaderPool::ReaderPool(const Options& options) : ring_(options.queue_jobs_max) {
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { run(); });
}

ReaderPool::~ReaderPool() {
  stop();
}

absl::Status ReaderPool::submit(ReadJob& job) {
  if (stopping_.load(std::memory_order_relaxed)) return absl::UnavailableError("the reader pool has stopped");
  if (!ring_.try_push(&job)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(ring_.capacity(), " reads wait for the disk, which is as many as may; try again later"));
  }
  add_tickets(1);
  return absl::OkStatus();
}

void ReaderPool::stop() {
  if (threads_.empty()) return;
  stopping_.store(true, std::memory_order_release);
  add_tickets(static_cast<int>(threads_.size()));  // one ticket without a job for each thread
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool ReaderPool::step() {
  ReadJob* job = nullptr;
  if (!ring_.try_pop(job)) return false;
  job->run();
  return true;
}

void ReaderPool::add_tickets(int count) {
  tickets_.fetch_add(count, std::memory_order_release);
  for (int i = 0; i < count; ++i) tickets_.notify_one();
}

void ReaderPool::take_ticket() {
  for (;;) {
    int tickets = tickets_.load(std::memory_order_acquire);
    while (tickets > 0) {
      if (tickets_.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acquire)) return;
    }
    tickets_.wait(0, std::memory_order_acquire);
  }
}

ReadJob* ReaderPool::take_job() {
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

void ReaderPool::run() {
  for (;;) {
    take_ticket();
    ReadJob* const job = take_job();
    if (job == nullptr) return;
    job->run();
  }
}

}  // namespace skua::kv
