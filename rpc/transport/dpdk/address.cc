#include "rpc/transport/dpdk/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::rpc::dpdk {
namespace {

constexpr uint8_t kVersion = 1;

}  // namespace

absl::StatusOr<MacAddress> parse_mac(std::string_view text) {
  MacAddress mac;
  const bool length_fits = text.size() == 3 * mac.size() - 1;
  bool ok = length_fits;
  for (size_t i = 0; ok && i < mac.size(); ++i) {
    const char* begin = text.data() + 3 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, mac[i], 16);
    ok = error == std::errc() && end == begin + 2 && (i + 1 == mac.size() || begin[2] == ':');
  }
  if (!ok)
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl_view(text), "\" is no MAC address like 02:00:0a:4d:00:01"));
  return mac;
}

std::string to_string(const MacAddress& mac) {
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

absl::StatusOr<InterfaceAddress> InterfaceAddress::parse(std::string_view cidr) {
  absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("\"", absl_view(cidr), "\" is no address like 10.77.0.1/24 or fd00::1/64"));
  const size_t slash = cidr.find('/');
  const std::string ip(cidr.substr(0, slash));
  InterfaceAddress out;
  out.family = ip.find(':') == std::string::npos ? 4 : 6;
  if (inet_pton(out.family == 4 ? AF_INET : AF_INET6, ip.c_str(), out.ip.data()) != 1) return wrong;
  const auto bits_max = static_cast<uint8_t>(8 * out.ip_bytes());
  out.prefix_bits = bits_max;
  if (slash != std::string_view::npos) {
    const std::string_view bits = cidr.substr(slash + 1);
    const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), out.prefix_bits);
    if (error != std::errc() || end != bits.data() + bits.size() || out.prefix_bits > bits_max) return wrong;
  }
  return out;
}

std::string InterfaceAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family == 4 ? AF_INET : AF_INET6, ip.data(), text, sizeof text);
  return absl::StrCat(text, "/", static_cast<int>(prefix_bits));
}

bool InterfaceAddress::on_link(const InterfaceAddress& other) const {
  if (family != other.family) return false;
  const size_t whole = prefix_bits / 8;
  if (!std::equal(ip.begin(), ip.begin() + static_cast<std::ptrdiff_t>(whole), other.ip.begin())) return false;
  const int rest = prefix_bits % 8;
  return rest == 0 || (ip.at(whole) ^ other.ip.at(whole)) >> (8 - rest) == 0;
}

std::string EndpointAddress::encode() const {
  SKUA_CHECK(!interfaces.empty() && interfaces.size() <= kInterfacesMax, "an endpoint has 1 to 16 DPDK interfaces");
  std::array<std::byte, 4 + kInterfacesMax * 24> buffer;
  ByteWriter writer(buffer);
  writer.write(kVersion);
  writer.write(static_cast<uint8_t>(interfaces.size()));
  writer.write(udp_port);
  for (const InterfaceAddress& interface : interfaces) {
    writer.write(interface.family);
    writer.write(interface.prefix_bits);
    writer.write_bytes(std::as_bytes(std::span(interface.mac)));
    writer.write_bytes(std::as_bytes(std::span(interface.ip)).first(interface.ip_bytes()));
  }
  return std::string(as_string_view(writer.written()));
}

absl::StatusOr<EndpointAddress> EndpointAddress::decode(ByteSpan bytes) {
  ByteReader reader(bytes);
  const auto version = reader.read<uint8_t>();
  const auto count = reader.read<uint8_t>();
  EndpointAddress out;
  out.udp_port = reader.read<uint16_t>();
  bool ok = version == kVersion && count >= 1 && count <= kInterfacesMax && out.udp_port != 0;
  for (size_t i = 0; ok && i < count; ++i) {
    InterfaceAddress interface;
    interface.family = reader.read<uint8_t>();
    interface.prefix_bits = reader.read<uint8_t>();
    ok = (interface.family == 4 || interface.family == 6) && interface.prefix_bits <= 8 * interface.ip_bytes();
    if (!ok) break;
    const ByteSpan mac = reader.read_bytes(interface.mac.size());
    const ByteSpan ip = reader.read_bytes(interface.ip_bytes());
    copy_bytes(reinterpret_cast<std::byte*>(interface.mac.data()), mac);
    copy_bytes(reinterpret_cast<std::byte*>(interface.ip.data()), ip);
    out.interfaces.push_back(interface);
  }
  if (!ok || !reader.complete()) return absl::InvalidArgumentError("not the address of a DPDK endpoint");
  return out;
}

}  // namespace skua::rpc::dpdk
