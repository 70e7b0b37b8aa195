#include "rpc/wire/remote_memory_wire.h"

namespace skua::rpc {

using Kind = RemoteMemoryRequest::Kind;

size_t RemoteMemoryRequest::encode(MutableByteSpan to) const {
  ByteWriter writer(to);
  writer.write(static_cast<uint8_t>(kind));
  if (kind == Kind::kAllocate) {
    writer.write(bytes);
    writer.write(rights);
    writer.write(lease_ms);
    writer.write(uint8_t{direct});
    return writer.size();
  }
  if (kind == Kind::kOpen) {
    writer.write(rights);
    writer.write(lease_ms);
    writer.write(uint8_t{direct});
    return writer.size();
  }
  writer.write(key);
  switch (kind) {
    case Kind::kAllocate:
    case Kind::kOpen:
    case Kind::kRing:
    case Kind::kFree: break;
    case Kind::kRenew: writer.write(lease_ms); break;
    case Kind::kRead:
      writer.write(offset);
      writer.write(static_cast<uint32_t>(bytes));
      break;
    case Kind::kCheck:
      writer.write(offset);
      writer.write(static_cast<uint32_t>(bytes));
      writer.write(rights);
      break;
    case Kind::kWrite:
      writer.write(offset);
      writer.write(uint8_t{has_notice});
      writer.write(notice);
      break;
    case Kind::kFetchAdd:
      writer.write(offset);
      writer.write(operand);
      break;
    case Kind::kCompareSwap:
      writer.write(offset);
      writer.write(expected);
      writer.write(operand);
      break;
  }
  return writer.size();
}

bool RemoteMemoryRequest::decode(ByteSpan from, RemoteMemoryRequest& out) {
  ByteReader reader(from);
  out = {};
  const auto kind = reader.read<uint8_t>();
  if (kind < static_cast<uint8_t>(Kind::kAllocate) || kind > static_cast<uint8_t>(Kind::kRing)) return false;
  out.kind = static_cast<Kind>(kind);
  if (out.kind == Kind::kAllocate) {
    out.bytes = reader.read<uint64_t>();
    out.rights = reader.read<uint8_t>();
    out.lease_ms = reader.read<uint32_t>();
    const auto direct = reader.read<uint8_t>();
    out.direct = direct == 1;
    return direct <= 1 && reader.complete();
  }
  if (out.kind == Kind::kOpen) {
    out.rights = reader.read<uint8_t>();
    out.lease_ms = reader.read<uint32_t>();
    const auto direct = reader.read<uint8_t>();
    out.direct = direct == 1;
    out.content = reader.read_rest();
    return direct <= 1 && !out.content.empty() && out.content.size() <= kNameMax && reader.complete();
  }
  out.key = reader.read<uint64_t>();
  switch (out.kind) {
    case Kind::kAllocate:
    case Kind::kOpen:
    case Kind::kRing:
    case Kind::kFree: break;
    case Kind::kRenew: out.lease_ms = reader.read<uint32_t>(); break;
    case Kind::kRead:
      out.offset = reader.read<uint64_t>();
      out.bytes = reader.read<uint32_t>();
      break;
    case Kind::kCheck:
      out.offset = reader.read<uint64_t>();
      out.bytes = reader.read<uint32_t>();
      out.rights = reader.read<uint8_t>();
      break;
    case Kind::kWrite: {
      out.offset = reader.read<uint64_t>();
      const auto has_notice = reader.read<uint8_t>();
      if (has_notice > 1) return false;
      out.has_notice = has_notice == 1;
      out.notice = reader.read<uint32_t>();
      out.content = reader.read_rest();
      out.bytes = out.content.size();
      break;
    }
    case Kind::kFetchAdd:
      out.offset = reader.read<uint64_t>();
      out.operand = reader.read<uint64_t>();
      break;
    case Kind::kCompareSwap:
      out.offset = reader.read<uint64_t>();
      out.expected = reader.read<uint64_t>();
      out.operand = reader.read<uint64_t>();
      break;
  }
  return reader.complete();
}

}  // namespace skua::rpc
