// Records and groups as bytes. A group is what one commit writes; its header stands before its records.
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
// Both checksums start from the segment's seed, which differs from segment to segment: CRCs of the same bytes under
// two seeds always differ, so what a recycled file still holds of its former life never passes.
// The shard bits are a set of shards, hashed to 64 bits: when a group is damaged its neighbours still tell who was not in it.
#ifndef SKUA_KVSTORE_LOG_RECORD_H_
#define SKUA_KVSTORE_LOG_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kvstore/types/durability.h"
#include "rpc/base/bytes.h"
#include "rpc/base/rng.h"

namespace skua::kv {

/// A shard as the log knows it: a number that the log's owner chose, for example table id << 32 | shard.
using LogShard = uint64_t;

enum class RecordKind : uint8_t {
  kData = 1,
  kShardStart = 2,  ///< the shard's log begins after `index`; nothing before this record counts
  kShardEnd = 3,    ///< the shard has left; nothing before this record counts
};

struct RecordHeader {
  LogShard shard = 0;
  uint64_t index = 0;
  uint64_t epoch = 0;
  int64_t time = 0;
  RecordKind kind = RecordKind::kData;
  Durability durability = Durability::kSync;
  uint16_t flags = 0;  ///< the owner's; the log only carries them

  friend bool operator==(const RecordHeader&, const RecordHeader&) = default;
};

struct RecordView {
  RecordHeader header;
  ByteSpan payload;  ///< into the decoder's input
};

struct GroupHeader {
  static constexpr uint32_t kSync = 1;    ///< written because somebody asked for kSync
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

/// Header, payload and padding.
[[nodiscard]] constexpr size_t record_bytes(size_t payload_bytes) {
  return (kRecordHeaderBytes + payload_bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

/// The bit of a shard in shard_bits.
[[nodiscard]] inline uint64_t shard_bit(LogShard shard) {
  return uint64_t{1} << (mix64(shard) & 63);
}

/// Writes the header without its checksum, to kRecordHeaderBytes at `to`; the payload follows it.
void encode_record_header(const RecordHeader& header, size_t payload_bytes, std::byte* to);

/// Fills in the checksum of the record that begins at `record`, whose payload length is already there. Returns
/// record_bytes().
size_t seal_record(std::byte* record, uint32_t seed);

void encode_group_header(const GroupHeader& header, uint32_t seed, std::byte* to);

/// The record that `bytes` begin with, or nullopt if there is no sound one. `consumed` is record_bytes() of it.
[[nodiscard]] std::optional<RecordView> decode_record(ByteSpan bytes, uint32_t seed, size_t& consumed);
/// The same of a record that was found to be sound before: without computing its checksum again.
[[nodiscard]] std::optional<RecordView> decode_sound_record(ByteSpan bytes, size_t& consumed);

/// The group header that `bytes` begin with, or nullopt. Only the header: its records are not looked at.
[[nodiscard]] std::optional<GroupHeader> decode_group_header(ByteSpan bytes, uint32_t seed);

/// Whether `bytes`, which hold no sound header, look like what a torn or damaged write of group `number` leaves.
[[nodiscard]] bool resembles_group(ByteSpan bytes, uint32_t seed, uint64_t number);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_RECORD_H_
