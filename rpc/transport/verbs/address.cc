#include "rpc/transport/verbs/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>

namespace skua::rpc::verbs {
namespace {

constexpr uint8_t kVersion = 1;
/// Queue pairs 0 and 1 belong to the subnet manager; the number of all ones is for multicast.
constexpr uint32_t kQpNumberMin = 2;
constexpr uint32_t kQpNumberMax = 0xfffffe;
/// Keys with this bit are reserved for managing the subnet.
constexpr uint32_t kPrivilegedQkey = 0x80000000;

bool is_mtu(uint16_t bytes) {
  return bytes >= 256 && bytes <= 4096 && std::has_single_bit(bytes);
}

}  // namespace

const char* to_string(Network network) {
  switch (network) {
    case Network::kInfiniBand: return "InfiniBand";
    case Network::kRoceV1: return "RoCE v1";
    case Network::kRoceV2: return "RoCE v2";
  }
  return "unknown";
}

std::string Gid::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4()) {
    inet_ntop(AF_INET, bytes.data() + kIpv4Prefix.size(), text, sizeof text);
  } else {
    inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  }
  return text;
}

std::optional<Gid> Gid::parse(std::string_view ip) {
  const std::string text(ip);
  Gid out;
  if (inet_pton(AF_INET6, text.c_str(), out.bytes.data()) == 1) return out;
  std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), out.bytes.begin());
  if (inet_pton(AF_INET, text.c_str(), out.bytes.data() + kIpv4Prefix.size()) == 1) return out;
  return std::nullopt;
}

std::string EndpointAddress::encode() const {
  std::array<std::byte, kBytes> buffer;
  ByteWriter writer(buffer);
  writer.write(kVersion);
  writer.write(static_cast<uint8_t>(network));
  writer.write(lid);
  writer.write(mtu_bytes);
  writer.write(uint16_t{0});
  writer.write(qp_number);
  writer.write(qkey);
  writer.write_bytes(std::as_bytes(std::span(gid.bytes)));
  return std::string(as_string_view(writer.written()));
}

absl::StatusOr<EndpointAddress> EndpointAddress::decode(ByteSpan bytes) {
  ByteReader reader(bytes);
  const auto version = reader.read<uint8_t>();
  const auto network = reader.read<uint8_t>();
  EndpointAddress out;
  out.network = static_cast<Network>(network);
  out.lid = reader.read<uint16_t>();
  out.mtu_bytes = reader.read<uint16_t>();
  const auto zero = reader.read<uint16_t>();
  out.qp_number = reader.read<uint32_t>();
  out.qkey = reader.read<uint32_t>();
  copy_bytes(reinterpret_cast<std::byte*>(out.gid.bytes.data()), reader.read_bytes(out.gid.bytes.size()));
  const bool infiniband = out.network == Network::kInfiniBand;
  if (!reader.complete() || version != kVersion || network < 1 || network > 3 || zero != 0 || !is_mtu(out.mtu_bytes) ||
      out.qp_number < kQpNumberMin || out.qp_number > kQpNumberMax || (out.qkey & kPrivilegedQkey) != 0 ||
      (out.lid != 0) != infiniband || out.gid.is_zero()) {
    return absl::InvalidArgumentError("not the address of an RDMA endpoint");
  }
  return out;
}

bool needs_grh(const EndpointAddress& from, const EndpointAddress& to) {
  return to.network != Network::kInfiniBand || from.gid.prefix() != to.gid.prefix();
}

Source source_of(const EndpointAddress& peer, const EndpointAddress& self) {
  if (!needs_grh(peer, self)) return {0, peer.lid, peer.qp_number};
  return {peer.gid.prefix(), peer.gid.interface(), peer.qp_number};
}

}  // namespace skua::rpc::verbs
