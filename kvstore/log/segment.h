// A segment: a file of fixed size that holds a header and then groups.
//
//    segment-<sequence>.log
//    | header: identity, sequence, first group, shard positions | group | group | ... | zeros, or former contents |
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
// in an older segment every group with a number below the next segment's first group was durable: a bad group there
// means damage. In the newest segment a group is known to have been durable if the synced number of a later sound group
// says so. The first bad group without this proof is the torn tail. No group behind the torn tail was reported as
// durable.
//
// After a restart the log goes on in a new segment, never behind a torn tail. So each sequence number is used once.
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

/// Shard bits of damage that may have taken records of any shard.
inline constexpr uint64_t kAllShards = ~uint64_t{0};

inline constexpr uint32_t kLogFormatVersion = 1;
inline constexpr size_t kSegmentHeaderFixedBytes = 88;
inline constexpr size_t kSegmentHeaderShardBytes = 24;
/// The most shards that one log holds.
inline constexpr size_t kLogShardsMax = 16384;

/// Which log a segment belongs to. Recovery refuses segments of another cluster, node or log.
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
  std::vector<ShardPosition> shards;  ///< the position of every shard of the log when the segment was made

  friend bool operator==(const SegmentHeader&, const SegmentHeader&) = default;
};

[[nodiscard]] std::string segment_name(uint64_t sequence);
[[nodiscard]] std::optional<uint64_t> parse_segment_name(std::string_view name);
[[nodiscard]] std::string spare_name(uint64_t number);
[[nodiscard]] std::optional<uint64_t> parse_spare_name(std::string_view name);

/// The seed of the segment's checksums. Segments whose sequences differ in the low 32 bits have different seeds.
[[nodiscard]] uint32_t segment_seed(const LogIdentity& identity, uint64_t sequence);

/// Offset of the first group in a segment whose header names `shards` shards.
[[nodiscard]] constexpr uint64_t segment_data_offset(size_t shards) {
  return round_up(kSegmentHeaderFixedBytes + shards * kSegmentHeaderShardBytes, kPageBytes);
}

/// Replaces `out` by the encoded header, padded with zeros to segment_data_offset().
void encode_segment_header(const SegmentHeader& header, std::vector<std::byte>& out);

/// The header at the beginning of `bytes`. DATA_LOSS if it is damaged, FAILED_PRECONDITION if it has another format
/// version.
[[nodiscard]] absl::StatusOr<SegmentHeader> decode_segment_header(ByteSpan bytes);

/// What cannot be read in a segment.
struct LogDamage {
  std::string path{};  ///< empty: not known here
  uint64_t offset = 0;
  uint64_t first_group = 0;  ///< the first group that is lost, wholly or in part
  uint64_t last_group = 0;   ///< the last one
  uint64_t shard_bits = 0;   ///< shards outside of this set have lost nothing here (shard_bit())
};

/// How a log ends.
struct LogTail {
  bool closed = false;           ///< the log was closed properly: nothing was written after its end
  bool torn = false;             ///< something was cut
  uint64_t groups_cut = 0;       ///< sound groups behind the torn one
  uint64_t sync_groups_cut = 0;  ///< cut groups that asked for a sync, as far as their headers can be read
  std::string path{};            ///< the newest segment's; empty if there is no segment, or if it is not known here
  uint64_t offset = 0;           ///< where the log ends in the newest segment
};

/// Walks through a segment's groups in order and tells damage from the log's end (see the head of this file).
class SegmentReader {
 public:
  enum class Event : uint8_t {
    kGroup,   ///< group() was found: visit_records() visits its records. If damaged(), the last records are missing
    kDamage,  ///< groups first_lost() to last_lost() cannot be read
    kEnd,     ///< there are no more groups
  };

  /// `segment` is the whole file; it must outlive the reader. `next_first_group` is the number of the next segment's
  /// first group, or nullopt if that number is not known: for the newest segment, and before a lost header.
  SegmentReader(ByteSpan segment, const SegmentHeader& header, std::optional<uint64_t> next_first_group);

  Event next();

  /// After kGroup: the group's header.
  [[nodiscard]] const GroupHeader& group() const { return group_; }
  /// After kGroup: the group was durable, but not all of it can be read. After kDamage: true.
  [[nodiscard]] bool damaged() const { return damaged_; }
  /// Offset in the file: of the group (kGroup), of the damage (kDamage), or of the end (kEnd).
  [[nodiscard]] uint64_t offset() const { return offset_; }
  /// If damaged(): what is lost.
  [[nodiscard]] const LogDamage& damage() const { return damage_; }

  /// After kGroup: calls `visit` for the group's records, in order, up to the first damaged record.
  void visit_records(absl::FunctionRef<void(const RecordView&)> visit) const;

  // After kEnd of the newest segment.
  /// The number of the next group to be written.
  [[nodiscard]] uint64_t next_group() const { return expected_; }
  /// How the log ends, if this is the newest segment.
  [[nodiscard]] const LogTail& tail() const { return tail_; }

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
  LogDamage damage_;
  bool ended_ = false;
  LogTail tail_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_SEGMENT_H_
