#include "rpc/wire/read_list.h"

namespace skua::rpc {

size_t ReadList::encode(MutableByteSpan to) const {
  ByteWriter writer(to);
  writer.write(static_cast<uint16_t>(head.size()));
  writer.write(static_cast<uint8_t>(span_count));
  writer.write(uint8_t{0});
  writer.write(connection);
  writer.write_bytes(head);
  for (uint32_t i = 0; i < span_count; ++i) {
    writer.write(spans[i].address);
    writer.write(spans[i].key);
    writer.write(spans[i].bytes);
  }
  return writer.size();
}

bool ReadList::decode(ByteSpan from, ReadList& out) {
  ByteReader reader(from);
  const auto head_bytes = reader.read<uint16_t>();
  out.span_count = reader.read<uint8_t>();
  if (reader.read<uint8_t>() != 0 || out.span_count == 0 || out.span_count > kSpansMax) return false;
  out.connection = reader.read<uint64_t>();
  if (out.connection == 0) return false;
  out.head = reader.read_bytes(head_bytes);
  for (uint32_t i = 0; i < out.span_count; ++i) {
    RemoteSpan& span = out.spans[i];
    span.address = reader.read<uint64_t>();
    span.key = reader.read<uint32_t>();
    span.bytes = reader.read<uint32_t>();
    if (span.bytes == 0) return false;
  }
  return reader.complete();
}

}  // namespace skua::rpc
