// Drives a Log on a thread of its own, so that no submitter waits for a disk.
//
//    workers --submit--> bounded ring --take all records--> append.. commit --> on_group_done (once per group)
//                          ^                                   |
//                          +----- new records gather here while the disk syncs the group
//
// Group commit: a group has the records that gathered while the last group was written. A lone record is written at
// once if the thread is idle. If clients write again as soon as they are answered, the thread waits for them a moment
// (gather_policy.h).
//
// Order: the records of a shard that one thread submits are written in that order. When a record is refused (disk full,
// a wrong index), the shard's records submitted after it have a gap before them and are refused, too
// (FAILED_PRECONDITION). The owner then waits until its outstanding records are reported, and numbers again from the
// last written record.
#ifndef SKUA_KVSTORE_LOG_LOG_WRITER_H_
#define SKUA_KVSTORE_LOG_LOG_WRITER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kvstore/log/gather_policy.h"
#include "kvstore/log/log.h"
#include "rpc/base/clock.h"
#include "rpc/base/mpsc_ring.h"
#include "rpc/base/wake_up.h"

namespace skua::kv {

/// A record to be written, and its outcome.
struct LogSubmission {
  RecordHeader header;                ///< kData, kShardStart (the shard goes on behind `index`) or kShardEnd
  std::array<ByteSpan, 3> payload{};  ///< pieces, written one after the other; valid until the group is done
  bool urgent = false;                ///< may use the reserve of segments (log.h)
  void* context = nullptr;            ///< for the submitter; not read here

  absl::Status outcome{};                     ///< why append or commit failed, or OK
  Durability achieved = Durability::kMemory;  ///< if OK
};

class LogWriter {
 public:
  /// Called on the log's thread with all submissions of a group and their outcomes. The span is valid during the call.
  /// The function must not block and must not call the LogWriter. If a record of the group achieved kSync, so did all
  /// records that were written before. `health` is what health() returns now. An empty group means that all records
  /// written so far achieved kSync if the log is healthy, and otherwise that the log has failed between two groups.
  using GroupDone = std::function<void(std::span<const LogSubmission> group, const absl::Status& health)>;

  struct Options {
    size_t queue_records_max = 4096;            ///< rounded up to a power of two
    size_t queue_bytes_max = size_t{64} << 20;  ///< payload bytes that wait or are being written
    size_t group_records_max = 1024;
    bool own_thread = true;  ///< false: the owner calls step() (simulations)
  };

  /// Starts the thread if own_thread is set.
  LogWriter(std::unique_ptr<Log> log, const Options& options, GroupDone on_group_done);
  /// Calls stop().
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Queues a record. Never waits and takes no lock. Errors: RESOURCE_EXHAUSTED, which names the limit that the queue
  /// has reached; UNAVAILABLE after stop(). A record that was refused here is not reported to on_group_done. Thread:
  /// any, but not while stop() runs. With Wake::kLater a sleeping log thread is not woken before wake(). So a caller
  /// that submits a burst wakes the thread once, and may first send what should go out earlier: messages to peers,
  /// whose logs do the same work.
  enum class Wake : uint8_t { kNow, kLater };
  [[nodiscard]] absl::Status submit(LogSubmission submission, Wake when = Wake::kNow);
  void wake();

  /// Makes all records submitted so far durable, also if no record asks for a sync. on_group_done reports that, or that
  /// the log has failed. Thread: any.
  void sync();

  /// The most payload bytes of one record. A larger record is refused by submit(), or its outcome is INVALID_ARGUMENT.
  /// Thread: any.
  [[nodiscard]] size_t payload_bytes_max() const;

  /// The shard's records up to `index` are durable elsewhere, so the log needs them no longer. Takes a lock for a
  /// moment. Thread: any.
  void set_durable(LogShard shard, uint64_t index);
  /// As Log::set_kept(). `epoch` is the epoch of the shard's last submitted record. Thread: the one that submits the
  /// shard's records.
  void set_kept(LogShard shard, uint64_t index, uint64_t epoch);

  /// Writes and reports the queued records, closes the log and ends the thread. A second call does nothing.
  void stop();

  /// Without own_thread: does one round of the thread's work. False: there was nothing to do.
  bool step();

  // The following show the state after the last group. Thread: any.
  /// OK, or the error with which the log refuses every call.
  [[nodiscard]] absl::Status health() const;
  [[nodiscard]] LogCounters counters() const;
  /// As Log::pins().
  [[nodiscard]] std::vector<AppliedIndex> pins() const;

 private:
  struct Kept {
    uint64_t index = 0;
    uint64_t epoch = 0;
  };

  void run();
  void await_more();
  void gather();
  [[nodiscard]] absl::Status add(const LogSubmission& submission);
  void commit(bool sync);
  bool sync_alone();
  void settle(const absl::StatusOr<Durability>& written);
  void finish_group();
  bool truncate();
  void publish(bool truncated);

  const Options options_;
  const GroupDone on_group_done_;
  const std::unique_ptr<Log> log_;

  // Shared between the log's thread and other threads.
  MpscRing<LogSubmission> ring_;
  WakeUp submitted_;
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> queued_bytes_{0};
  std::atomic<int64_t> queued_records_{0};  // may lag behind the ring, and be below 0, for a moment
  std::atomic<int64_t> wake_at_{1};         // this many queued records wake the thread
  std::atomic<bool> has_durable_{false};
  std::atomic<bool> sync_wanted_{false};
  mutable std::mutex mutex_;
  absl::flat_hash_map<LogShard, uint64_t> durable_;
  absl::flat_hash_map<LogShard, Kept> kept_;
  absl::Status health_;
  LogCounters counters_;
  std::vector<AppliedIndex> pins_;

  // Used by the log's thread only.
  std::vector<LogSubmission> group_;
  std::optional<LogSubmission> left_over_;
  const SteadyClock clock_;
  GatherPolicy policy_;
  std::thread thread_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_WRITER_H_
