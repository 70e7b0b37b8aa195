#include "rpc/wire/packet_header.h"

namespace skua::rpc {
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
