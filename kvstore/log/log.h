// The write-ahead log of one worker: one append stream for all of its shards.
//
//    append(shard 3) append(shard 1) append(shard 3)     copied into the group buffer
//    commit()      one write, and a sync if a record asked for it    -> the durability achieved
//    set_durable(shard, index), recycle()      segments that nobody needs any more become spares
//
// The log has no thread and no clock. In production a LogWriter drives it; tests run it on a simulated disk.
//
//  - A shard's indices rise by one from record to record. A record whose index is not above the last one is accepted if
//    its epoch is higher: it replaces the record of that index and all later ones. A shard begins with start_shard(); a
//    jump to a higher index needs start_shard(), too.
//  - A failed write or sync is fatal: the call and every later one return the same error. The write is not tried again,
//    because the kernel may have dropped pages that it could not write. Only a restart shows which records survived.
//  - A lack of room is not fatal: RESOURCE_EXHAUSTED (disk full, or segments_max reached). Nothing of the group was
//    written, the shards' indices are as before the group, and a later commit may succeed. Groups in which every record
//    is `urgent` may use the reserve of segments. It is meant for writes that free space.
//  - The oldest segment is given back when each of its records is durable elsewhere (set_durable), has been replaced,
//    or belongs to a shard that left. Records that may yet be replaced can be durable elsewhere, too (set_kept): the
//    records that replace them are needed again. An idle shard keeps no segment, because each segment's header has the
//    positions of all shards. pins() names the shards to flush. A damaged segment is renamed (damaged-*) and not
//    written over.
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
#include "kvstore/log/segment_bytes.h"
#include "kvstore/log/segment_pool.h"

namespace skua::kv {

struct LogOptions {
  LogIdentity identity;
  uint64_t segment_bytes = uint64_t{64} << 20;      ///< a multiple of kPageBytes
  size_t group_bytes_max = size_t{32} << 20;        ///< of one commit; bounds a record, too. At most half of a segment
  uint64_t unsynced_bytes_max = uint64_t{8} << 20;  ///< a group is synced unasked if more bytes would stay unsynced
  size_t segments_max = 64;                         ///< with this many segments only urgent groups get another one
  size_t reserve_segments = 2;                      ///< spares for urgent groups only
  size_t spares_at_open = 3;                        ///< spares that open() makes, reserve included
  size_t spares_max = 8;                            ///< the log keeps at most this many spares
};

struct LogCounters {
  uint64_t groups = 0;
  uint64_t records = 0;
  uint64_t payload_bytes = 0;
  uint64_t bytes_written = 0;  ///< of groups, with headers and padding
  uint64_t syncs = 0;          ///< durable writes and syncs
  uint64_t rotations = 0;
  uint64_t segments_recycled = 0;
  uint64_t groups_refused = 0;  ///< commits that failed with RESOURCE_EXHAUSTED
  uint64_t segments_in_use = 0;
  uint64_t segments_spare = 0;
};

/// Thread: one at a time.
class Log {
 public:
  /// `recovery` has scanned (and replayed) the log on the same device and with the same identity; it is not needed
  /// afterwards. `device` must outlive the log. Makes only spares; the first commit makes a segment. Errors: the
  /// device's; INVALID_ARGUMENT for options that contradict each other.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Log>> open(Device& device, const LogOptions& options,
                                                                 const LogRecovery& recovery);

  /// Adds a kData record to the open group. The pieces of `payload` are copied one after the other. `header.kind` is
  /// ignored. Errors: RESOURCE_EXHAUSTED (the record does not fit into this group: commit first), INVALID_ARGUMENT
  /// (larger than a group), FAILED_PRECONDITION (the shard was not started, or the index does not follow), health() if
  /// not OK.
  [[nodiscard]] absl::Status append(const RecordHeader& header, std::span<const ByteSpan> payload, bool urgent = false);

  /// Whether the open group has room for a record of this many payload bytes. An empty group has room for
  /// payload_bytes_max().
  [[nodiscard]] bool fits(size_t payload_bytes) const {
    return group_bytes_ + record_bytes(payload_bytes) <= options_.group_bytes_max;
  }

  /// The most payload bytes of one record: what an empty group has room for.
  [[nodiscard]] size_t payload_bytes_max() const {
    return (options_.group_bytes_max - kGroupHeaderBytes) / kRecordAlignment * kRecordAlignment - kRecordHeaderBytes;
  }

  /// Adds a record after which the shard goes on with `index` + 1. The shard's earlier records no longer count. For a
  /// new shard, and for a shard whose state up to `index` came from elsewhere. `epoch` must be higher than every epoch
  /// that the shard had, so that recovery tells its records before and after the start apart. Errors:
  /// RESOURCE_EXHAUSTED (as for append(), or the log has kLogShardsMax shards), health() if not OK.
  [[nodiscard]] absl::Status start_shard(LogShard shard, uint64_t index, uint64_t epoch, int64_t time);

  /// Adds a record which says that the shard left. OK if the log does not have the shard. Errors: as for append().
  [[nodiscard]] absl::Status end_shard(LogShard shard, int64_t time);

  /// Records of the shard behind `index` may be lost. The next segment's header tells that as a gap, which every later
  /// recovery finds until the shard is started anew. open() does this for the shards that the damaged log names; this
  /// call is for those of which a durable store has more, and for others. FAILED_PRECONDITION: the log has
  /// kLogShardsMax shards.
  [[nodiscard]] absl::Status leave_gap(LogShard shard, uint64_t index);

  /// Begins a new segment, whose header has the positions of all shards. Must not be called while a group has records
  /// (checked). Errors: as for commit().
  [[nodiscard]] absl::Status begin_segment();

  /// Writes the group; an empty group is OK. Returns kSync if the records of this and all earlier groups are durable,
  /// else kFlush. An error concerns the whole group.
  [[nodiscard]] absl::StatusOr<Durability> commit();

  /// Makes all committed groups durable.
  [[nodiscard]] absl::Status sync();

  /// The shard's records up to `index` are durable elsewhere. Unknown shards are ignored.
  void set_durable(LogShard shard, uint64_t index);

  /// Like set_durable(), for records that may yet be replaced. `epoch` is the epoch of the last record that the caller
  /// had appended. If a record of a higher epoch has since replaced records or started the shard anew, the call does
  /// nothing: the log's records up to `index` may not be those that the caller means.
  void set_kept(LogShard shard, uint64_t index, uint64_t epoch);

  /// Gives back the oldest segments that nobody needs. Cheap if there is none. Must not be called while a group has
  /// records (checked). RESOURCE_EXHAUSTED: the disk is full, try again later. Other errors are fatal.
  [[nodiscard]] absl::Status recycle();

  /// Since the last recycle() records were written that end a shard or replace others: the oldest segment may be needed
  /// no longer.
  [[nodiscard]] bool may_recycle() const { return may_recycle_; }

  /// The shards that keep the oldest segment, each with the index up to which its records must become durable
  /// elsewhere. Empty if no shard does.
  [[nodiscard]] std::vector<AppliedIndex> pins() const;

  /// Syncs and marks the end of the log, so that recovery knows that nothing followed. Afterwards only counters() may
  /// be called.
  [[nodiscard]] absl::Status close();

  /// OK, or the error with which the log refuses every call.
  [[nodiscard]] const absl::Status& health() const { return failure_; }
  /// Index of the shard's last record, also if that is in the open group; 0 if the shard is unknown.
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
    uint64_t replaced_epoch = 0;   // epoch of the last record that replaced others, or of the shard's start
    uint64_t touched_segment = 0;  // sequence of the last segment that holds a record of the shard
    uint64_t touched_group = 0;    // number of the group in which remember() last noted the shard
  };

  using Shards = absl::flat_hash_map<LogShard, Shard>;

  /// A shard's state before the open group changed it.
  struct Undo {
    LogShard shard = 0;
    bool existed = false;
    Shard before;
  };

  Log(Device& device, const LogOptions& options);

  absl::Status add_record(const RecordHeader& header, std::span<const ByteSpan> payload, bool urgent);
  absl::Status check_index(const RecordHeader& header) const;
  void remember(LogShard shard);
  void undo_group(Shards& shards) const;
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
  [[nodiscard]] bool is_pinned(const LogSegment& segment) const;
  [[nodiscard]] std::string stuck_pin() const;
  [[nodiscard]] bool pins_segment(const AppliedIndex& last) const;
  absl::Status fail(const absl::Status& why);

  Device& device_;
  const LogOptions options_;
  SegmentPool pool_;
  absl::Status failure_;

  Shards shards_;
  std::deque<LogSegment> segments_;  // oldest first; the last is active_'s, or if that is null, from before the restart
  std::unique_ptr<LogFile> active_;
  uint32_t seed_ = 0;
  uint64_t offset_ = 0;  // in active_
  uint64_t next_group_ = 1;
  uint64_t synced_group_ = 0;
  uint64_t unsynced_bytes_ = 0;
  uint64_t previous_shard_bits_ = 0;
  bool may_recycle_ = false;

  // The open group.
  const AlignedBytes buffer_;
  size_t group_bytes_ = 0;
  uint32_t group_records_ = 0;
  uint64_t group_payload_bytes_ = 0;
  uint64_t group_shard_bits_ = 0;
  bool group_syncs_ = false;
  bool group_urgent_ = true;
  std::vector<Undo> undo_;
  std::vector<AppliedIndex> replaced_;  // this group replaces the shard's records from `index` on

  std::vector<std::byte> header_bytes_;
  LogCounters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_H_
