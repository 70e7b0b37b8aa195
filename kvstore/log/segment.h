// A segment: a file of fixed size that holds a header and then groups.
//
//    segment-<sequence>.log
//    | header: who, which, first group, where each shard stands | group | group | ... | zeros or the file's former life |
//    0                                                          a multiple of 4096
//
// Header (little endian):
//     0 u32 CRC-32C of bytes 4.. to its end      56 u64 sequence
//     4 u32 bytes of the header                  64 u64 number of the first group
//     8 u64 magic "SKUALOG\n"                    72 u64 bytes of the file
//    16 u32 format version                       80 u32 shards    84 u32 0
//    20 u32 log number                           88 per shard: u64 shard, u64 last index, u64 last epoch
//    24 16 bytes cluster id
//    40 16 bytes node id
//
// A file gets its segment name only when its header is durable, and a segment is synced before the next one is made. So
// in every segment but the newest each group below the next segment's first one was durable: whatever is bad there is
// damage. In the newest a group is known to have been durable if a later sound group's synced number says so; the first bad
// one that nobody vouches for is the torn tail. The groups behind it, sound or not, were not promised to anybody.
//
// After a restart the log goes on in a new segment and never behind a torn tail, so a sequence number has one history.
#ifndef SKUA_KVSTORE_LOG_SEGMENT_H_
#define SKUA_KVSTORE_LOG_SEGMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/log/device.h"
#include "kvstore/log/record.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Bits of shards that damage may have taken something from: nobody can tell, so all.
inline constexpr uint64_t kAllShards = ~uint64_t{0};

inline constexpr uint32_t kLogFormatVersion = 1;
inline constexpr size_t kSegmentHeaderFixedBytes = 88;
inline constexpr size_t kSegmentHeaderShardBytes = 24;
/// Shards with records in one log.
inline constexpr size_t kLogShardsMax = 16384;

/// Whose log this is: a file of another cluster, node or worker is refused.
struct LogIdentity {
  std::array<std::byte, 16> cluster_id{};
  std::array<std::byte, 16> node_id{};
  uint32_t log_number = 0;  ///< which of the node's logs

  friend bool operator==(const LogIdentity&, const LogIdentity&) = default;
};

struct ShardPosition {
  LogShard shard = 0;
  uint64_t last_index = 0;
  uint64_t last_epoch = 0;

  friend bool operator==(const ShardPosition&, const ShardPosition&) = default;
};

struct SegmentHeader {
  LogIdentity identity;
  uint64_t sequence = 0;
  uint64_t first_group = 0;
  uint64_t segment_bytes = 0;
  std::vector<ShardPosition> shards;  ///< every shard of the log, as it stood when the segment was made

  friend bool operator==(const SegmentHeader&, const SegmentHeader&) = default;
};

[[nodiscard]] std::string segment_name(uint64_t sequence);
[[nodiscard]] std::optional<uint64_t> parse_segment_name(std::string_view name);
[[nodiscard]] std::string spare_name(uint64_t number);
[[nodiscard]] std::optional<uint64_t> parse_spare_name(std::string_view name);

/// What checksums of this segment start from. Differs between segments whose sequences differ in the low 32 bits.
[[nodiscard]] uint32_t segment_seed(const LogIdentity& identity, uint64_t sequence);

/// Where the first group of a segment with a header of this many shards begins.
[[nodiscard]] constexpr uint64_t segment_data_offset(size_t shards) {
  return round_up(kSegmentHeaderFixedBytes + shards * kSegmentHeaderShardBytes, kPageBytes);
}

/// segment_data_offset() bytes, zeros at the end.
void encode_segment_header(const SegmentHeader& header, std::vector<std::byte>& out);

/// The header that a segment's bytes begin with. DATA_LOSS if it is damaged, FAILED_PRECONDITION if its format is newer.
[[nodiscard]] absl::StatusOr<SegmentHeader> decode_segment_header(ByteSpan bytes);

/// Walks through a segment's groups in order, telling damage from the end. See the head of this file.
class SegmentReader {
 public:
  enum class Event : uint8_t {
    kGroup,   ///< group(): its records are to be visited; if damaged(), the last ones are missing
    kDamage,  ///< nothing of groups first_lost() to last_lost() can be read
    kEnd,
  };

  /// `segment` is the whole file and outlives the reader. `next_first_group`: the next segment's first group; nullopt
  /// for the newest segment.
  SegmentReader(ByteSpan segment, const SegmentHeader& header, std::optional<uint64_t> next_first_group);

  Event next();

  /// kGroup: its header.
  [[nodiscard]] const GroupHeader& group() const { return group_; }
  /// kGroup: the group's bytes, header included.
  [[nodiscard]] ByteSpan group_bytes() const { return segment_.subspan(offset_, group_.bytes); }
  /// kGroup: it was durable, yet not all of it can be read.
  [[nodiscard]] bool damaged() const { return damaged_; }
  /// kGroup, kDamage: where it begins in the file. kEnd: where the end was found.
  [[nodiscard]] uint64_t offset() const { return offset_; }
  /// kDamage.
  [[nodiscard]] uint64_t first_lost() const { return first_lost_; }
  [[nodiscard]] uint64_t last_lost() const { return last_lost_; }
  /// Damage: shards that are not in this set have lost nothing.
  [[nodiscard]] uint64_t lost_shard_bits() const { return lost_shard_bits_; }

  /// Calls `visit` for each record of the present group, in order, up to the first damaged one.
  void visit_records(absl::FunctionRef<void(const RecordView&)> visit) const;

  // After kEnd of the newest segment.
  /// Number that the next group written gets.
  [[nodiscard]] uint64_t next_group() const { return expected_; }
  /// Something was cut: at the end lies what looks like a torn group, or sound groups behind it.
  [[nodiscard]] bool torn() const { return torn_; }
  /// Sound groups behind the cut: written, but never known to be durable.
  [[nodiscard]] uint64_t groups_cut() const { return groups_cut_; }
  /// Of these, those whose writer had asked for a sync.
  [[nodiscard]] uint64_t sync_groups_cut() const { return sync_groups_cut_; }
  /// The log was closed in order.
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  struct Found {
    uint64_t offset;
    GroupHeader header;
  };

  Event bad_place(const GroupHeader* header);
  Event cut(const GroupHeader* header, std::span<const Found> later);
  Event take_group(const GroupHeader& header);
  [[nodiscard]] bool records_sound(const GroupHeader& header) const;
  [[nodiscard]] ByteSpan bytes_at(uint64_t offset) const;
  [[nodiscard]] std::optional<GroupHeader> header_at(uint64_t offset) const;
  [[nodiscard]] std::vector<Found> headers_after(uint64_t offset) const;

  const ByteSpan segment_;
  const uint32_t seed_;
  const std::optional<uint64_t> next_first_group_;
  uint64_t expected_;
  uint64_t next_offset_;

  uint64_t offset_ = 0;
  GroupHeader group_;
  bool damaged_ = false;
  uint64_t first_lost_ = 0;
  uint64_t last_lost_ = 0;
  uint64_t lost_shard_bits_ = 0;
  bool ended_ = false;
  bool torn_ = false;
  bool closed_ = false;
  uint64_t groups_cut_ = 0;
  uint64_t sync_groups_cut_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_SEGMENT_H_
