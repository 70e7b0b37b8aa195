#include "kvstore/log/record.h"

#include <algorithm>
#include <array>

#include "kvstore/types/mutants.h"
#include "rpc/base/crc32c.h"

namespace skua::kv {
namespace {

constexpr size_t kCrcBytes = sizeof(uint32_t);
constexpr size_t kPayloadBytesAt = 4;
constexpr size_t kGroupNumberAt = 16;

bool known_kind(uint8_t kind) {
  return kind >= static_cast<uint8_t>(RecordKind::kData) && kind <= static_cast<uint8_t>(RecordKind::kShardEnd);
}

}  // namespace

void encode_record_header(const RecordHeader& header, size_t payload_bytes, std::byte* to) {
  ByteWriter writer(MutableByteSpan(to, kRecordHeaderBytes));
  writer.write_all(uint32_t{0}, static_cast<uint32_t>(payload_bytes), header.shard, header.index, header.epoch,
                   header.time, header.kind, durability_code(header.durability), header.flags, uint32_t{0});
}

size_t seal_record(std::byte* record, uint32_t seed) {
  const size_t payload_bytes = load_le<uint32_t>(record + kPayloadBytesAt);
  const ByteSpan covered(record + kCrcBytes, kRecordHeaderBytes - kCrcBytes + payload_bytes);
  store_le(record, crc32c_extend(seed, covered));
  return record_bytes(payload_bytes);
}

void encode_group_header(const GroupHeader& header, uint32_t seed, std::byte* to) {
  ByteWriter writer(MutableByteSpan(to, kGroupHeaderBytes));
  writer.write_all(uint32_t{0}, kGroupMagic, header.bytes, header.records, header.number, header.synced_number,
                   header.shard_bits, header.previous_shard_bits, header.flags, uint32_t{0}, uint64_t{0});
  store_le(to, crc32c_extend(seed, ByteSpan(to + kCrcBytes, kGroupHeaderBytes - kCrcBytes)));
}

std::optional<RecordView> decode_record(ByteSpan bytes, uint32_t seed, size_t& consumed) {
  const std::optional<RecordView> view = decode_sound_record(bytes, consumed);
  if (!view) return std::nullopt;
  const ByteSpan covered = bytes.subspan(kCrcBytes, kRecordHeaderBytes - kCrcBytes + view->payload.size());
  const bool sound = crc32c_extend(seed, covered) == load_le<uint32_t>(bytes.data());
  return sound || mutant(Mutant::kAcceptBadCrc) ? view : std::nullopt;
}

std::optional<RecordView> decode_sound_record(ByteSpan bytes, size_t& consumed) {
  consumed = 0;
  ByteReader reader(bytes);
  RecordView view;
  RecordHeader& header = view.header;
  uint32_t crc = 0;
  uint32_t payload_bytes = 0;
  uint8_t kind = 0;
  uint8_t code = 0;
  uint32_t zero = 0;
  reader.read_into(crc, payload_bytes, header.shard, header.index, header.epoch, header.time, kind, code, header.flags,
                   zero);
  const auto durability = durability_of_code(code);
  view.payload = reader.read_bytes(payload_bytes);
  if (!reader.ok() || record_bytes(payload_bytes) > bytes.size()) return std::nullopt;
  consumed = record_bytes(payload_bytes);
  if (!known_kind(kind) || !durability || zero != 0) return std::nullopt;
  header.kind = static_cast<RecordKind>(kind);
  header.durability = *durability;
  return view;
}

std::optional<GroupHeader> decode_group_header(ByteSpan bytes, uint32_t seed) {
  if (bytes.size() < kGroupHeaderBytes || load_le<uint32_t>(bytes.data() + kCrcBytes) != kGroupMagic) {
    return std::nullopt;
  }
  if (crc32c_extend(seed, bytes.subspan(kCrcBytes, kGroupHeaderBytes - kCrcBytes)) != load_le<uint32_t>(bytes.data())) {
    return std::nullopt;
  }
  ByteReader reader(bytes.subspan(2 * sizeof(uint32_t), kGroupHeaderBytes - 2 * sizeof(uint32_t)));
  GroupHeader header;
  reader.read_into(header.bytes, header.records, header.number, header.synced_number, header.shard_bits,
                   header.previous_shard_bits, header.flags);
  const bool zeros = reader.read<uint32_t>() == 0 && reader.read<uint64_t>() == 0;
  if (!zeros || header.bytes < kGroupHeaderBytes || header.synced_number >= header.number) return std::nullopt;
  return header;
}

bool resembles_group(ByteSpan bytes, uint32_t seed, uint64_t number) {
  if (bytes.size() < kGroupHeaderBytes) return false;
  if (load_le<uint64_t>(bytes.data() + kGroupNumberAt) == number) return true;
  // Perhaps only the number is damaged: then the header is sound with the right number.
  std::array<std::byte, kGroupHeaderBytes> copy;
  std::copy_n(bytes.begin(), copy.size(), copy.begin());
  store_le(copy.data() + kGroupNumberAt, number);
  return decode_group_header(copy, seed).has_value();
}

}  // namespace skua::kv
