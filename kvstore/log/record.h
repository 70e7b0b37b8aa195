// Records and groups as bytes. One commit writes one group: a group header, then the group's records.
//
//    | group header | record | record | ... | zeros |        starts at a multiple of 512 bytes
//
//    group header (64 bytes)                            record (48 bytes, payload, zeros to a multiple of 8)
//     0 u32 CRC-32C of bytes 4..63                       0 u32 CRC-32C of bytes 4.. to the end of the payload
//     4 u32 magic                                        4 u32 payload bytes
//     8 u32 bytes of header and records                  8 u64 shard
//    12 u32 records                                     16 u64 index
//    16 u64 number: one more than the group before      24 u64 epoch
//    24 u64 synced number: every group up to this one   32 i64 time, the writer's
//           was durable when this one was written       40 u8  kind    41 u8 durability    42 u16 flags
//    32 u64 shard bits of this group                    44 u32 0
//    40 u64 shard bits of the group before              48 payload
//    48 u32 flags (1 sync, 2 closed)    52 12 zeros
//
// Both checksums start from the segment's seed, and each segment has another seed. CRCs of the same bytes under two
// seeds always differ. So old records that a recycled file still holds never pass as records of the new segment.
// The shard bits are a set of shards, hashed to 64 bits. When a group is damaged, the group behind it still tells
// which shards had no record in the damaged group.
#ifndef SKUA_KVSTORE_LOG_RECORD_H_
#define SKUA_KVSTORE_LOG_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kvstore/types/durability.h"
#include "rpc/base/bytes.h"
#include "rpc/base/rng.h"

namespace skua::kv {

/// A shard's number in the log. The log's owner chooses it, for example table id << 32 | shard.
using LogShard = uint64_t;

enum class RecordKind : uint8_t {
  kData = 1,
  kShardStart = 2,  ///< the shard's log begins after `index`; earlier records of the shard do not count
  kShardEnd = 3,    ///< the shard has left the log; earlier records of the shard do not count
};

struct RecordHeader {
  LogShard shard = 0;
  uint64_t index = 0;
  uint64_t epoch = 0;
  int64_t time = 0;
  RecordKind kind = RecordKind::kData;
  Durability durability = Durability::kSync;
  uint16_t flags = 0;  ///< meant for the log's owner; the log does not read them

  friend bool operator==(const RecordHeader&, const RecordHeader&) = default;
};

struct RecordView {
  RecordHeader header;
  ByteSpan payload;  ///< points into the decoder's input
};

struct GroupHeader {
  static constexpr uint32_t kSync = 1;    ///< a record of the group asked for kSync
  static constexpr uint32_t kClosed = 2;  ///< the log was closed; no record follows in this segment

  uint32_t bytes = 0;
  uint32_t records = 0;
  uint64_t number = 0;
  uint64_t synced_number = 0;
  uint64_t shard_bits = 0;
  uint64_t previous_shard_bits = 0;
  uint32_t flags = 0;

  friend bool operator==(const GroupHeader&, const GroupHeader&) = default;
};

inline constexpr size_t kRecordHeaderBytes = 48;
inline constexpr size_t kRecordAlignment = 8;
inline constexpr size_t kGroupHeaderBytes = 64;
inline constexpr uint32_t kGroupMagic = 0x31475253;  // "SRG1"

/// Bytes of a record: header, payload and padding.
[[nodiscard]] constexpr size_t record_bytes(size_t payload_bytes) {
  return (kRecordHeaderBytes + payload_bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

/// The shard's bit in GroupHeader::shard_bits. Shards may share a bit.
[[nodiscard]] inline uint64_t shard_bit(LogShard shard) {
  return uint64_t{1} << (mix64(shard) & 63);
}

/// Writes kRecordHeaderBytes to `to`, with a checksum of 0. The caller puts the payload behind them.
void encode_record_header(const RecordHeader& header, size_t payload_bytes, std::byte* to);

/// Fills in the checksum of the record at `record`, whose header and payload are already there. Returns
/// record_bytes() of its payload.
size_t seal_record(std::byte* record, uint32_t seed);

void encode_group_header(const GroupHeader& header, uint32_t seed, std::byte* to);

/// The record at the beginning of `bytes`; nullopt if it is not sound. `consumed` becomes record_bytes() of it. The
/// payload points into `bytes`.
[[nodiscard]] std::optional<RecordView> decode_record(ByteSpan bytes, uint32_t seed, size_t& consumed);
/// The same for a record whose checksum was verified before: the checksum is not computed again.
[[nodiscard]] std::optional<RecordView> decode_sound_record(ByteSpan bytes, size_t& consumed);

/// The group header at the beginning of `bytes`; nullopt if it is not sound. The group's records are not checked.
[[nodiscard]] std::optional<GroupHeader> decode_group_header(ByteSpan bytes, uint32_t seed);

/// Whether `bytes` look like the rest of a torn or damaged write of group `number`. `bytes` hold no sound group header.
[[nodiscard]] bool resembles_group(ByteSpan bytes, uint32_t seed, uint64_t number);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_RECORD_H_
