// A few threads that wait for disks in the workers' stead: GETs that are not in memory, and SCANs.
#ifndef SKUA_KVSTORE_STORAGE_READER_POOL_H_
#define SKUA_KVSTORE_STORAGE_READER_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace skua::kv {

/// Jobs waiting for the reader pool; one more is RESOURCE_EXHAUSTED.
inline constexpr size_t kReadQueueJobsMax = 4096;

/// Something to do on a reader thread. Owned by the submitter, who derives from it, keeps it alive until run() has
/// returned, and reuses it.
class ReadJob {
 public:
  virtual ~ReadJob() = default;
  /// Called once per accepted submit, on a reader thread. Reports back through the worker's mailbox; the pool does not
  /// touch the job after.
  virtual void run() = 0;
};

class ReaderPool {
 public:
  struct Options {
    int threads = 2;                            ///< 0: somebody steps it (simulations)
    size_t queue_jobs_max = kReadQueueJobsMax;  ///< rounded up to a power of two
  };

  struct Counters {
    uint64_t jobs = 0;
    uint64_t refused = 0;  ///< RESOURCE_EXHAUSTED
  };

  explicit ReaderPool(const Options& options);
  /// stop()s.
  ~ReaderPool();
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  /// Queues a job; jobs start in the order of submission. Never waits, takes no lock. Errors: RESOURCE_EXHAUSTED when
  /// the queue is full, UNAVAILABLE after stop(); the job will not run then. Thread: any, but not while stop() runs.
  [[nodiscard]] absl::Status submit(ReadJob& job);

  /// Runs what is queued and ends the threads. A second call does nothing.
  void stop();

  /// Without threads: runs the oldest job. False: there is none.
  bool step();

  /// Thread: any.
  [[nodiscard]] Counters counters() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_READER_POOL_H_
