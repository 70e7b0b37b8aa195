#include "rpc/transport/descriptor.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

constexpr uint8_t kVersion = 1;

void append_uuid(std::string& out, const Uuid& uuid) {
  out.append(reinterpret_cast<const char*>(uuid.bytes.data()), uuid.bytes.size());
}

Uuid read_uuid(ByteReader& reader) {
  Uuid uuid;
  ByteSpan bytes = reader.read_bytes(uuid.bytes.size());
  copy_bytes(reinterpret_cast<std::byte*>(uuid.bytes.data()), bytes);
  return uuid;
}

template <typename T>
void append_le(std::string& out, T value) {
  std::array<std::byte, sizeof(T)> raw;
  store_le(raw.data(), value);
  out.append(as_string_view(raw));
}

}  // namespace

std::string Uuid::to_string() const {
  std::string out;
  out.reserve(36);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out.push_back('-');
    absl::StrAppend(&out, absl::Hex(bytes[i], absl::kZeroPad2));
  }
  return out;
}

std::string Descriptor::encode() const {
  SKUA_CHECK(transport.size() <= kTransportNameMax, "transport name too long for a descriptor");
  SKUA_CHECK(address.size() <= kAddressMax, "transport address too long for a descriptor");
  std::string out;
  append_le(out, kVersion);
  append_le(out, static_cast<uint8_t>(transport.size()));
  out.append(transport);
  append_uuid(out, identity.uuid);
  append_le(out, identity.incarnation);
  append_uuid(out, identity.cluster_id);
  append_le(out, static_cast<uint16_t>(address.size()));
  out.append(address);
  return out;
}

absl::StatusOr<Descriptor> Descriptor::decode(ByteSpan bytes) {
  ByteReader reader(bytes);
  const auto version = reader.read<uint8_t>();
  if (reader.ok() && version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint descriptor has version ", version,
                                                   ", this build reads version ", kVersion,
                                                   ": run the same release on both sides"));
  }
  Descriptor out;
  out.transport = as_string_view(reader.read_prefixed<uint8_t>());
  out.identity.uuid = read_uuid(reader);
  out.identity.incarnation = reader.read<uint64_t>();
  out.identity.cluster_id = read_uuid(reader);
  out.address = as_string_view(reader.read_prefixed<uint16_t>());
  if (!reader.complete() || out.transport.size() > kTransportNameMax || out.address.size() > kAddressMax) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint descriptor is malformed (", bytes.size(), " bytes)"));
  }
  return out;
}

}  // namespace skua::rpc
