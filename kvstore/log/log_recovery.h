// Reads the log of a former process. First all segments are checked; then the records that the durable store lacks are
// replayed.
//
//    scan()     every segment in order: headers, checksums, the numbers of groups, each shard's indices
//    status()   per shard: may it be served from its applied index and this log, or is something missing?
//    replay()   the records above each shard's applied index, in the order in which they were written
//    Log::open  goes on behind it, in a new segment
//
// A bad place is one of two things (segment.h says how they are told apart):
//
//  - Torn tail: a bad group in the newest segment, of which no later sound group says that it was durable. The log ends
//    there, and tail() says what was cut. Nothing that was reported as durable is lost, with one exception: damage at
//    rest to the last groups of a log that was not closed looks like a torn write. It shows in tail() as torn.
//  - Damage: every other bad place. Sound records before and behind it count. A shard's indices rise by one, so they
//    show what is missing. If the shard's first record behind the damage, or its position in the next segment's header,
//    follows its last record before the damage, the shard has lost nothing. A shard with a gap has lost records. A
//    shard of which nothing follows may have lost records. status() refuses both, naming file and offset. It accepts a
//    shard with a gap if everything up to the gap's end is applied already. The other shards go on.
#ifndef SKUA_KVSTORE_LOG_LOG_RECOVERY_H_
#define SKUA_KVSTORE_LOG_LOG_RECOVERY_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/log/device.h"
#include "kvstore/log/record.h"
#include "kvstore/log/segment.h"
#include "kvstore/log/segment_bytes.h"

namespace skua::kv {

struct LogProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
};

/// How much of a shard a durable store outside of the log has.
struct AppliedIndex {
  LogShard shard = 0;
  uint64_t index = 0;  ///< the store has all records up to this one; 0: nothing
};

/// A segment of a log, and what of it the log still needs.
struct LogSegment {
  uint64_t sequence = 0;
  std::string name;
  uint64_t bytes = 0;  ///< of the file
  bool damaged = false;
  std::vector<AppliedIndex> last_records;  ///< each shard's last record in it

  /// The shard's records from `index` (> 0) on were replaced, so they no longer pin the segment.
  void forget_from(LogShard shard, uint64_t index) {
    for (AppliedIndex& last : last_records) {
      if (last.shard == shard) last.index = std::min(last.index, index - 1);
    }
  }
};

/// A segment's summary, for people who look into a log.
struct LogSegmentInfo : LogSegment {
  std::string path;
  uint64_t used_bytes = 0;  ///< up to the end of its last group
  uint64_t groups = 0;
  uint64_t records = 0;  ///< number of sound records
};

/// Thread: one at a time.
class LogRecovery {
 public:
  using Progress = absl::FunctionRef<void(const LogProgress&)>;

  /// Reads and checks every segment; an empty directory is an empty log. Waits for the disk. Syncs the newest segment,
  /// so that the groups found in it are durable. `device` must outlive the result. Errors: FAILED_PRECONDITION (a
  /// segment of another cluster, node or log, or of another format version); the device's. Damage is not an error here:
  /// see damages() and status().
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LogRecovery>> scan(Device& device, const LogIdentity& identity,
                                                                         Progress progress);

  [[nodiscard]] std::span<const LogDamage> damages() const { return damages_; }
  [[nodiscard]] const LogTail& tail() const { return tail_; }

  /// Summaries of all segments, oldest first.
  [[nodiscard]] std::vector<LogSegmentInfo> segments() const { return {segments_.begin(), segments_.end()}; }

  /// The number of the next group to be written.
  [[nodiscard]] uint64_t next_group_number() const { return next_group_; }

  /// The positions of the log's shards, in no order.
  [[nodiscard]] std::vector<ShardPosition> shards() const;

  /// OK, or DATA_LOSS with file and offset if records above the applied index are, or may be, missing.
  [[nodiscard]] absl::Status status(AppliedIndex applied) const;

  /// Records of the shard, applied or not, may be in a damaged place.
  [[nodiscard]] bool may_lack_records(LogShard shard) const { return first_suspect(shard, 0).has_value(); }
  /// Records behind the shard's last one in the log may be in a damaged place. Then status() refuses the shard,
  /// whatever was applied. Of a shard that the log does not name, that is damage that stands behind the shard's end and
  /// behind the newest sound header.
  [[nodiscard]] bool may_lack_newest(LogShard shard) const { return newest_suspect(shard).has_value(); }
  /// A sound header stands behind all damage, so later scans suspect no shard that the log does not name.
  [[nodiscard]] bool ends_sound() const { return header_proved_ == damages_.size(); }

  /// Visits the kData records above the applied index of each shard in `applied` whose status() is OK. Skips other
  /// shards, and records that were replaced. So each index of a shard comes once, in order. The views are valid during
  /// the call of `visit`, or as long as the caller keeps what `keep` is given: after each segment that was read, the
  /// memory that the segment's views point into. Errors: the device's.
  using Keep = absl::FunctionRef<void(SegmentBytes)>;
  [[nodiscard]] absl::Status replay(
      std::span<const AppliedIndex> applied, absl::FunctionRef<void(const RecordView&)> visit, Progress progress,
      Keep keep = [](SegmentBytes) {});

 private:
  friend class Log;

  /// A record's place in the log: its group's number, and its number among the group's sound records, from 1.
  struct Place {
    uint64_t group = 0;
    uint64_t record = 0;
    friend auto operator<=>(const Place&, const Place&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14
  };

  struct Gap {
    uint64_t after = 0;   // last index before the gap
    uint64_t before = 0;  // first index behind the gap
    size_t damage = 0;    // index in damages_
  };

  /// Records of index `index` and above that stand before `by` were replaced at `by`.
  struct Replaced {
    Place by;
    uint64_t index = 0;
  };

  struct Shard {
    uint64_t last_index = 0;
    uint64_t last_epoch = 0;
    Place start;                     // records up to this place do not count
    std::vector<Replaced> replaced;  // sorted by place and by index: elements that a later one covers are left out
    std::vector<Gap> gaps;
    size_t proved = 0;  // of damages_ the first `proved` took nothing of the shard, or made a gap that is in `gaps`
  };

  /// Where a shard last left the log.
  struct Ended {
    Place at;
    size_t proved = 0;  // of damages_ the first `proved` stand before it
  };

  struct Segment : LogSegmentInfo {
    std::optional<SegmentHeader> header;       // nullopt: damaged
    std::optional<uint64_t> next_first_group;  // nullopt: the newest segment, or the next one's header is not known
  };

  LogRecovery(Device& device, const LogIdentity& identity) : device_(device), identity_(identity) {}

  absl::Status find_segments();
  absl::Status read_headers();
  absl::Status scan_segment(size_t position);
  absl::Status read_segment(const Segment& segment, bool from_medium);
  void take_header(Segment& segment);
  void take_record(Segment& segment, const RecordView& record, const Place& at);
  [[nodiscard]] bool counts(const RecordHeader& header, const Place& at) const;
  void forget_suffix(LogShard shard, uint64_t index);
  void join(const ShardPosition& position, uint64_t next_index, const Place& at, Shard& shard);
  [[nodiscard]] std::optional<size_t> first_suspect(LogShard shard, size_t proved) const;
  [[nodiscard]] std::optional<size_t> newest_suspect(LogShard shard) const;
  void add_damage(Segment& segment, LogDamage damage);

  Device& device_;
  const LogIdentity identity_;
  std::vector<Segment> segments_;  // sorted by sequence
  SegmentBytes bytes_;             // contents of the segment being read
  std::vector<LogDamage> damages_;
  LogTail tail_;
  absl::flat_hash_map<LogShard, Shard> shards_;
  absl::flat_hash_map<LogShard, Ended> ended_;
  size_t header_proved_ = 0;  // number of damages_ before the newest sound header
  uint64_t next_group_ = 1;
  uint64_t bytes_total_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_RECOVERY_H_
