// A few threads that wait for disks, so that workers need not: for GETs of values that are not in memory, and for
// SCANs.
#ifndef SKUA_KVSTORE_STORAGE_READER_POOL_H_
#define SKUA_KVSTORE_STORAGE_READER_POOL_H_

#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "rpc/base/mpsc_ring.h"

namespace skua::kv {

/// The most jobs that may wait for the reader pool. A further job is refused with RESOURCE_EXHAUSTED.
inline constexpr size_t kReadQueueJobsMax = 4096;

/// Work for a reader thread. The submitter derives from this class, owns the job, and keeps it alive until run() has
/// returned. Then it may submit the job again.
class ReadJob {
 public:
  virtual ~ReadJob() = default;
  /// Called once per accepted submit(), on a reader thread. Reports back through the worker's mailbox. The pool does
  /// not touch the job after the call.
  virtual void run() = 0;
};

class ReaderPool {
 public:
  struct Options {
    int threads = 2;                            ///< 0: the owner calls step() (simulations)
    size_t queue_jobs_max = kReadQueueJobsMax;  ///< rounded up to a power of two
  };

  explicit ReaderPool(const Options& options);
  /// Calls stop().
  ~ReaderPool();
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  /// Queues a job. Jobs start in the order of submission. Never waits, takes no lock. Errors: RESOURCE_EXHAUSTED if the
  /// queue is full, UNAVAILABLE after stop(); then the job will not run. Thread: any, but not while stop() runs.
  [[nodiscard]] absl::Status submit(ReadJob& job);

  /// Runs the queued jobs and ends the threads. A second call does nothing.
  void stop();

  /// Without threads: runs the oldest job. False: no job is queued.
  bool step();

 private:
  void add_tickets(int count);
  void take_ticket();
  /// The oldest job; nullptr if the pool stops and no job is left.
  [[nodiscard]] ReadJob* take_job();
  void run();

  // `tickets_` counts jobs in the ring that no thread has claimed. A thread that takes a ticket then pops one job. A
  // mutex, which only readers take, serialises the pops.
  MpscRing<ReadJob*> ring_;
  std::atomic<int> tickets_{0};
  std::atomic<bool> stopping_{false};
  std::mutex consumer_mutex_;  // makes the readers one consumer of the ring
  std::vector<std::thread> threads_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_READER_POOL_H_
