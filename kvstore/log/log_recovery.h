// Reads what a log left behind: first everything is checked, then what is missing elsewhere is replayed.
//
//    scan()     every segment in order: headers, checksums, the numbers of groups, each shard's indices
//    status()   per shard: may it be served from its applied index and this log, or is something missing?
//    replay()   the records above each shard's applied index, in the order in which they were written
//    Log::open  goes on behind it, in a new segment
//
// What a bad place means (segment.h says how the two are told apart):
//
//  - Torn tail: in the newest segment, and no sound group behind it knows the bad one to have been durable. The log ends
//    there; tail() says what was cut. Nothing that was reported as durable is lost - with one exception that no log can tell
//    from a torn write: damage at rest to the last groups of a log that was not closed. It shows in tail() as torn.
//  - Damage: everything else. Good records before and behind it count. Each shard is followed by its indices, which rise by
//    one: a shard whose next record, or whose place in the next segment's header, joins what is before the damage has
//    lost nothing. One with a gap has, and one that nothing is heard of any more may have: status() refuses both, naming
//    file and offset, unless everything up to the gap's end is applied already. The other shards go on.
#ifndef SKUA_KVSTORE_LOG_LOG_RECOVERY_H_
#define SKUA_KVSTORE_LOG_LOG_RECOVERY_H_

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

struct LogDamage {
  std::string path;
  uint64_t offset = 0;
  uint64_t first_group = 0;  ///< lost, wholly or in part
  uint64_t last_group = 0;
  uint64_t shard_bits = 0;  ///< shards outside of this set have lost nothing (shard_bit())
};

struct LogTail {
  bool closed = false;           ///< the log was closed in order: nothing after it was ever written
  bool torn = false;             ///< something was cut
  uint64_t groups_cut = 0;       ///< sound groups behind the torn one
  uint64_t sync_groups_cut = 0;  ///< cut groups that asked for a sync, as far as their headers can be read
  std::string path;              ///< of the newest segment; empty if there is none
  uint64_t offset = 0;           ///< where the log ends in it
};

/// For people who look into a log.
struct LogSegmentInfo {
  std::string path;
  uint64_t sequence = 0;
  uint64_t bytes = 0;       ///< of the file
  uint64_t used_bytes = 0;  ///< up to the end of its last group
  uint64_t groups = 0;
  uint64_t records = 0;  ///< sound ones
  bool damaged = false;
};

struct LogProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
};

/// A shard's state in a durable store outside of the log.
struct AppliedIndex {
  LogShard shard = 0;
  uint64_t index = 0;  ///< everything up to it is there; 0: nothing
};

/// Thread: one at a time.
class LogRecovery {
 public:
  using Progress = absl::FunctionRef<void(const LogProgress&)>;

  /// Reads and checks every segment; an empty directory is an empty log. Waits for the disk. Syncs the newest segment, so
  /// that what is found is there to stay. Errors: FAILED_PRECONDITION (a segment of another cluster, node or log, or a
  /// newer format), what the device says. Damage is not an error here: see damages() and status().
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LogRecovery>> scan(Device& device, const LogIdentity& identity,
                                                                         Progress progress);

  [[nodiscard]] std::span<const LogDamage> damages() const { return damages_; }
  [[nodiscard]] const LogTail& tail() const { return tail_; }

  /// Oldest first.
  [[nodiscard]] std::vector<LogSegmentInfo> segments() const;

  /// The number that the next group gets.
  [[nodiscard]] uint64_t next_group_number() const { return next_group_; }

  /// Where the shards of the log stand, in no order.
  [[nodiscard]] std::vector<ShardPosition> shards() const;

  /// Index of the shard's next record. If the log is behind what was applied (unsynced records are gone), or does not
  /// know the shard, Log::start_shard must come first.
  [[nodiscard]] uint64_t next_index(AppliedIndex applied) const;

  /// OK, or DATA_LOSS with file and offset if records above the applied index are, or may be, missing.
  [[nodiscard]] absl::Status status(AppliedIndex applied) const;

  /// Records of the shard are, or may be, among what is damaged, applied or not.
  [[nodiscard]] bool may_lack_records(LogShard shard) const;

  /// Visits the kData records above the applied index of each shard in `applied` whose status() is OK; other shards are
  /// passed over, and so are records that a higher epoch replaced: a shard's indices come in order, each once. The views
  /// are valid during the call. Errors: the device's.
  [[nodiscard]] absl::Status replay(std::span<const AppliedIndex> applied,
                                    absl::FunctionRef<void(const RecordView&)> visit, Progress progress);

  /// The same, but the views stay valid: after each segment that had records to visit, `keep` is given the memory that they
  /// point into.
  using Keep = absl::FunctionRef<void(SegmentBytes)>;
  [[nodiscard]] absl::Status replay(std::span<const AppliedIndex> applied,
                                    absl::FunctionRef<void(const RecordView&)> visit, Keep keep, Progress progress);

 private:
  friend class Log;

  /// A record's place in the log: its group's number, and which of the group's sound records, from 1.
  struct Place {
    uint64_t group = 0;
    uint64_t record = 0;
    friend auto operator<=>(const Place&, const Place&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14
  };

  struct Gap {
    uint64_t after = 0;   // last index before it
    uint64_t before = 0;  // first index behind it
    size_t damage = 0;    // in damages_
  };

  /// Records from `index` on that stand before `by` were replaced there.
  struct Replaced {
    Place by;
    uint64_t index = 0;
  };

  struct Shard {
    uint64_t last_index = 0;
    uint64_t last_epoch = 0;
    Place start;                     // records up to it do not count
    std::vector<Replaced> replaced;  // by place, and by index too: what a later one covers is left out
    std::vector<Gap> gaps;
    size_t proved = 0;  // of damages_, those that are known to have taken nothing or made a gap
  };

  struct LastRecord {
    LogShard shard = 0;
    uint64_t index = 0;
  };

  struct Segment {
    uint64_t sequence = 0;
    std::string name;
    uint64_t bytes = 0;
    std::optional<SegmentHeader> header;       // nullopt: damaged
    std::optional<uint64_t> next_first_group;  // nullopt: the newest
    std::vector<LastRecord> last_records;
    bool damaged = false;
    uint64_t used_bytes = 0;
    uint64_t groups = 0;
    uint64_t records = 0;
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
  void add_damage(Segment& segment, uint64_t offset, uint64_t first_group, uint64_t last_group, uint64_t shard_bits);

  Device& device_;
  const LogIdentity identity_;
  std::vector<Segment> segments_;  // by sequence
  SegmentBytes bytes_;             // of the segment being read
  std::vector<LogDamage> damages_;
  LogTail tail_;
  absl::flat_hash_map<LogShard, Shard> shards_;
  absl::flat_hash_map<LogShard, Place> ended_;  // where shards left last
  size_t header_proved_ = 0;                    // damages before the newest sound header
  uint64_t next_group_ = 1;
  uint64_t bytes_total_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_LOG_RECOVERY_H_
