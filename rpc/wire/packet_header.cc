#include "rpc/wire/packet_header.h"

#include "rpc/base/crc32c.h"

namespace skua::rpc {
namespace {

constexpr size_t kCrcOffset = 28;

}  // namespace

void encode_header(const PacketHeader& header, std::byte* to) {
  to[0] = static_cast<std::byte>(kProtocolVersion << 4 | static_cast<uint8_t>(header.type));
  to[1] = static_cast<std::byte>(header.flags);
  store_le(to + 2, header.method);
  store_le(to + 4, header.session_index);
  store_le(to + 8, header.session_generation);
  store_le(to + 12, header.req_num);
  store_le(to + 16, header.message_bytes);
  store_le(to + 20, header.packet_index);
  store_le(to + 22, header.deadline_ms);
  store_le(to + 24, header.stamp);
  store_le(to + kCrcOffset, uint32_t{0});
}

void seal_header(std::byte* header, const ByteSpan* pieces, size_t piece_count) {
  uint32_t crc = crc32c({header, kCrcOffset});
  for (size_t i = 0; i < piece_count; ++i) crc = crc32c_extend(crc, pieces[i]);
  store_le(header + kCrcOffset, crc);
}

DecodedHeader decode_header(ByteSpan bytes) {
  DecodedHeader out;
  if (bytes.size() < kHeaderBytes) return out;
  const std::byte* p = bytes.data();
  const auto first = static_cast<uint8_t>(p[0]);
  if (first >> 4 != kProtocolVersion) {
    out.reason = DropReason::kBadVersion;
    return out;
  }
  const uint8_t type = first & 15;
  if (type == 0 || type > kPacketTypeMax) {
    out.reason = DropReason::kBadType;
    return out;
  }
  out.ok = true;
  out.header.type = static_cast<PacketType>(type);
  out.header.flags = static_cast<uint8_t>(p[1]);
  out.header.method = load_le<uint16_t>(p + 2);
  out.header.session_index = load_le<uint32_t>(p + 4);
  out.header.session_generation = load_le<uint32_t>(p + 8);
  out.header.req_num = load_le<uint32_t>(p + 12);
  out.header.message_bytes = load_le<uint32_t>(p + 16);
  out.header.packet_index = load_le<uint16_t>(p + 20);
  out.header.deadline_ms = load_le<uint16_t>(p + 22);
  out.header.stamp = load_le<uint32_t>(p + 24);
  return out;
}

bool verify_checksum(ByteSpan header, ByteSpan payload) {
  const uint32_t crc = crc32c_extend(crc32c(header.first(kCrcOffset)), payload);
  return crc == load_le<uint32_t>(header.data() + kCrcOffset);
}

size_t PacketSet::encode(std::byte* to) const {
  store_le(to, base);
  store_le(to + 2, word_count);
  for (size_t i = 0; i < word_count; ++i) store_le(to + 4 + 8 * i, words[i]);
  return 4 + 8 * size_t{word_count};
}

bool PacketSet::decode(ByteSpan bytes, PacketSet& out) {
  ByteReader reader(bytes);
  out.base = reader.read<uint16_t>();
  out.word_count = reader.read<uint16_t>();
  if (!reader.ok() || out.word_count > kWordsMax) return false;
  out.words.fill(0);
  for (size_t i = 0; i < out.word_count; ++i) out.words[i] = reader.read<uint64_t>();
  return reader.complete();
}

}  // namespace skua::rpc
