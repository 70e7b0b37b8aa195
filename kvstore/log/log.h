// The write-ahead log of one worker: one append stream for all of its shards.
//
//    append(shard 3) append(shard 1) append(shard 3)     copied into the group buffer
//    commit()      one write, and a sync if one of them asked for it    -> what was achieved
//    set_durable(shard, index), recycle()      segments that nobody needs any more become spares
//
// No threads and no clock: LogWriter drives it in production, a simulated disk in tests.
//
//  - Indices of a shard rise by one from record to record. An index at or below the last one is taken if its epoch is
//    higher: it replaces that record and all behind it. A shard begins with start_shard(), also when it jumps ahead.
//  - A failed write or sync is fatal: that and every later call return the same error. It is never tried again, because
//    the kernel may have dropped what it could not write. What of the group survives is seen after a restart.
//  - No room is not fatal: RESOURCE_EXHAUSTED (disk full, or segments_max reached), nothing of the group was written, the
//    indices are as before it, and a later commit may succeed. Groups made only of records with `urgent` may use the
//    reserve of segments: use it for what frees space.
//  - The oldest segments go as soon as every shard's records in them are durable elsewhere (set_durable), have been replaced,
//    or belong to a shard that left. Records that may yet be replaced can be kept elsewhere, too (set_kept): those that
//    replace them pin again. A shard that is idle pins nothing: each segment's header says where all shards stand.
//    pins() tells whom to flush. A segment with damage in it is put aside (damaged-*) instead of being written over.
#ifndef SKUA_KVSTORE_LOG_LOG_H_
#define SKUA_KVSTORE_LOG_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/log/device.h"
#include "kvstore/log/log_recovery.h"
#include "kvstore/log/record.h"
#include "kvstore/log/segment.h"
#include "kvstore/log/segment_pool.h"

namespace skua::kv {

struct LogOptions {
  LogIdentity identity;
  uint64_t segment_bytes = uint64_t{64} << 20;      ///< a multiple of kPageBytes
  size_t group_bytes_max = size_t{32} << 20;        ///< of one commit; a record must fit. At most half of a segment
  uint64_t unsynced_bytes_max = uint64_t{8} << 20;  ///< a group that asks for no sync gets one when this much waits
  size_t segments_max = 64;                         ///< the log window; above it only the reserve
  size_t reserve_segments = 2;
  size_t spares_at_open = 3;  ///< made ahead, reserve included
  size_t spares_max = 8;      ///< kept; more are removed
};

struct LogCounters {
  uint64_t groups = 0;
  uint64_t records = 0;
  uint64_t payload_bytes = 0;
  uint64_t bytes_written = 0;  ///< groups with headers and padding
  uint64_t syncs = 0;          ///< durable writes and syncs
  uint64_t rotations = 0;
  uint64_t segments_recycled = 0;
  uint64_t groups_refused = 0;  ///< RESOURCE_EXHAUSTED
  uint64_t segments_in_use = 0;
  uint64_t segments_spare = 0;
};

/// Thread: one at a time.
class Log {
 public:
  /// `recovery` has been scanned (and replayed) on the same device and identity, and is not needed afterwards. `device` must
  /// outlive the log. Writes nothing but spares: the first commit makes a segment. Errors: the device's;
  /// INVALID_ARGUMENT for options that contradict each other.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Log>> open(Device& device, const LogOptions& options,
                                                                 const LogRecovery& recovery);

  /// Adds a kData record to the group; the payload is the concatenation of the pieces, copied. `header.kind` is ignored.
  /// Errors: RESOURCE_EXHAUSTED (does not fit into this group: commit first), INVALID_ARGUMENT (larger than a group),
  /// FAILED_PRECONDITION (shard not started, or its index does not follow), and why the log has failed.
  [[nodiscard]] absl::Status append(const RecordHeader& header, std::span<const ByteSpan> payload, bool urgent = false);

  /// Whether the open group has room for a record of this many payload bytes. An empty one has for every record that is
  /// not too large.
  [[nodiscard]] bool fits(size_t payload_bytes) const {
    return group_bytes_ + record_bytes(payload_bytes) <= options_.group_bytes_max;
  }

  /// Of one record: what an empty group has room for.
  [[nodiscard]] size_t payload_bytes_max() const {
    return (options_.group_bytes_max - kGroupHeaderBytes) / kRecordAlignment * kRecordAlignment - kRecordHeaderBytes;
  }

  /// Adds a record after which the shard goes on with `index` + 1; everything before is forgotten. `epoch` is higher than
  /// any that the shard had, so that recovery tells its lives apart. For a new shard, and one
  /// whose state came from elsewhere up to `index`. Errors: RESOURCE_EXHAUSTED (as append, or kLogShardsMax).
  [[nodiscard]] absl::Status start_shard(LogShard shard, uint64_t index, uint64_t epoch, int64_t time);

  /// Adds a record that says that the shard left. A shard that is not there is OK.
  [[nodiscard]] absl::Status end_shard(LogShard shard, int64_t time);

  /// Writes the group; nothing to write is OK. Returns what all of its records (and those of earlier groups) achieved:
  /// kSync or kFlush. An error concerns the whole group.
  [[nodiscard]] absl::StatusOr<Durability> commit();

  /// Makes everything committed durable.
  [[nodiscard]] absl::Status sync();

  /// The shard's records up to `index` are durable elsewhere. Unknown shards are ignored.
  void set_durable(LogShard shard, uint64_t index);

  /// So are records that may yet be replaced. `epoch` is that of the last record that the caller has appended: if a later
  /// one has replaced records since, or started the shard anew, these are not the ones that are meant, and nothing changes.
  void set_kept(LogShard shard, uint64_t index, uint64_t epoch);

  /// Gives back the oldest segments that nobody needs. Cheap if there is none. Not while a group is open.
  [[nodiscard]] absl::Status recycle();

  /// The shards that keep the oldest segment, and the index that each must have durable; empty if none does.
  [[nodiscard]] std::vector<AppliedIndex> pins() const;

  /// Syncs and marks the end, so that recovery knows that nothing followed. No call but counters() after it.
  [[nodiscard]] absl::Status close();

  /// OK, or why the log refuses everything.
  [[nodiscard]] const absl::Status& health() const { return failure_; }
  /// Index of the shard's last record, of the open group included; 0 if unknown.
  [[nodiscard]] uint64_t last_index(LogShard shard) const;
  /// Number of the last group written, and of the last known to be durable.
  [[nodiscard]] uint64_t last_group() const { return next_group_ - 1; }
  [[nodiscard]] uint64_t synced_group() const { return synced_group_; }
  [[nodiscard]] LogCounters counters() const;

 private:
  struct Shard {
    uint64_t last_index = 0;
    uint64_t last_epoch = 0;
    uint64_t durable_index = 0;
    uint64_t replaced_epoch = 0;   // of the last record that replaced others, or of the start
    uint64_t touched_segment = 0;  // sequence of the last segment that holds a record of it
    uint64_t touched_group = 0;
  };

  struct LastRecord {
    LogShard shard = 0;
    uint64_t index = 0;
  };

  struct Segment {
    uint64_t sequence = 0;
    std::string name;
    uint64_t bytes = 0;
    bool damaged = false;
    std::vector<LastRecord> last_records;  // closed segments
  };

  /// What a shard was before the open group touched it.
  struct Undo {
    LogShard shard = 0;
    bool existed = false;
    Shard before;
  };

  struct FreeDeleter {
    void operator()(std::byte* memory) const;
  };

  Log(Device& device, const LogOptions& options);

  absl::Status add_record(const RecordHeader& header, std::span<const ByteSpan> payload, bool urgent);
  absl::Status check_index(const RecordHeader& header) const;
  void remember(LogShard shard);
  void drop_group();
  void begin_group();
  absl::Status make_room(uint64_t bytes);
  absl::Status rotate();
  absl::Status write_header(SegmentPool::Spare& spare, uint64_t sequence);
  void close_segment();
  absl::StatusOr<Durability> write_group(uint32_t flags);
  absl::Status write_bytes(ByteSpan bytes, bool sync);
  ByteSpan seal_group(uint32_t flags);
  absl::Status sync_active();
  void take_effect();
  void forget_from(LogShard shard, uint64_t index);
  [[nodiscard]] bool is_pinned(const Segment& segment) const;
  [[nodiscard]] bool pins_segment(const LastRecord& last) const;
  absl::Status fail(const absl::Status& why);

  Device& device_;
  const LogOptions options_;
  SegmentPool pool_;
  absl::Status failure_;

  absl::flat_hash_map<LogShard, Shard> shards_;
  std::deque<Segment> segments_;  // oldest first; the last one is active_'s, or of before the restart
  std::unique_ptr<LogFile> active_;
  uint32_t seed_ = 0;
  uint64_t offset_ = 0;  // in active_
  uint64_t next_group_ = 1;
  uint64_t synced_group_ = 0;
  uint64_t unsynced_bytes_ = 0;
  uint64_t previous_shard_bits_ = 0;

  // The open group.
  const std::unique_ptr<std::byte[], FreeDeleter> buffer_;
  size_t group_bytes_ = 0;
  uint32_t group_records_ = 0;
  uint64_t group_payload_bytes_ = 0;
  uint64_t group_shard_bits_ = 0;
  bool group_syncs_ = false;
  bool group_urgent_ = true;
  std::vector<Undo> undo_;
  std::vector<LastRecord> replaced_;  // shards whose records from index on are replaced by this group

  std::vector<std::byte> header_bytes_;
  LogCounters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_H_
