// Drives a Log on a thread of its own, so that no submitter waits for a disk.
//
//    workers --submit--> bounded ring --take what is there--> append.. commit --> on_group_done (once per group)
//                          ^                                     |
//                          +----- the next gather here while the disk syncs these
//
// Group commit: a group is what gathered while the last one was written; a lone record on an idle thread is written at once.
// Where those who were just answered write again at once, the thread waits for them a moment (gather_policy.h).
//
// Order: what one thread submits of a shard is written in that order. When a record of a shard is refused (disk full, a
// wrong index), the ones of that shard submitted after it do not follow any more and are refused too (FAILED_PRECONDITION):
// the owner waits for its outstanding ones and numbers again from the last that was written.
#ifndef SKUA_KVSTORE_LOG_LOG_WRITER_H_
#define SKUA_KVSTORE_LOG_LOG_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/log/log.h"

namespace skua::kv {

/// A record to be written, and what became of it.
struct LogSubmission {
  RecordHeader header;                ///< kind: kData, kShardStart (index: where it goes on) or kShardEnd
  std::array<ByteSpan, 3> payload{};  ///< written one after the other; valid until the group is done
  bool urgent = false;                ///< may use the reserve of segments (log.h)
  void* context = nullptr;            ///< the submitter's

  absl::Status outcome{};                     ///< of append or commit
  Durability achieved = Durability::kMemory;  ///< if OK
};

class LogWriter {
 public:
  /// All submissions of a group, outcomes filled in, on the log's thread. The span is valid during the call. Must not
  /// block and must not call back into the LogWriter. If one of them achieved kSync, so did all that were written before; an
  /// empty group says no more than that.
  using GroupDone = std::function<void(std::span<const LogSubmission> group)>;

  struct Options {
    size_t queue_records_max = 4096;            ///< rounded up to a power of two
    size_t queue_bytes_max = size_t{64} << 20;  ///< of payload, waiting or being written
    size_t group_records_max = 1024;
    bool own_thread = true;  ///< false: somebody steps it (simulations)
  };

  /// Starts the thread, if it is to have one.
  LogWriter(std::unique_ptr<Log> log, const Options& options, GroupDone on_group_done);
  /// stop()s.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Queues a record. Never waits, takes no lock. Errors: RESOURCE_EXHAUSTED naming the limit that the queue has reached,
  /// UNAVAILABLE after stop(); then on_group_done will not tell of it. Thread: any, but not while stop() runs.
  /// With Wake::kLater a thread that sleeps goes on sleeping until wake(): whoever submits a burst wakes it once, when what
  /// should go first (messages to peers whose logs do the same work) has gone.
  enum class Wake : uint8_t { kNow, kLater };
  [[nodiscard]] absl::Status submit(LogSubmission submission, Wake wake = Wake::kNow);
  void wake();

  /// What was submitted so far gets synced, with the groups that it is in or without one; on_group_done tells. Thread: any.
  void sync();

  /// Of one record. What is larger is refused by submit(), or comes back as INVALID_ARGUMENT. Thread: any.
  [[nodiscard]] size_t payload_bytes_max() const;

  /// The shard's records up to `index` are durable elsewhere: segments may go. Takes a lock for a moment. Thread: any.
  void set_durable(LogShard shard, uint64_t index);
  /// Log::set_kept(); `epoch` is that of the last record submitted. Thread: the one that submits what is of the shard.
  void set_kept(LogShard shard, uint64_t index, uint64_t epoch);

  /// Writes what is queued, reports it, closes the log and ends the thread. A second call does nothing.
  void stop();

  /// Without own_thread: one round of what the thread does. False: it would sleep now.
  bool step();

  // Thread: any; as after the last group.
  /// OK, or why everything is refused.
  [[nodiscard]] absl::Status health() const;
  [[nodiscard]] LogCounters counters() const;
  /// Log::pins().
  [[nodiscard]] std::vector<AppliedIndex> pins() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_WRITER_H_
