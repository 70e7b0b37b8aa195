#include "rpc/transport/tcp/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/str_cat.h"

namespace skua::rpc::tcp {
namespace {

size_t ip_bytes(uint8_t family) {
  return family == 4 ? 4 : 16;
}

}  // namespace

absl::StatusOr<SocketAddress> SocketAddress::parse(std::string_view ip, uint16_t port) {
  const std::string text(ip);
  SocketAddress out;
  out.port = port;
  if (inet_pton(AF_INET, text.c_str(), out.ip.data()) == 1) {
    out.family = 4;
    return out;
  }
  if (inet_pton(AF_INET6, text.c_str(), out.ip.data()) == 1) {
    out.family = 6;
    return out;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a numeric IPv4 or IPv6 address; give for example 127.0.0.1 or ::1"));
}

std::string SocketAddress::encode() const {
  if (is_none()) return {};
  std::array<std::byte, 1 + 16 + 2> raw;
  ByteWriter writer(raw);
  writer.write(family);
  writer.write_bytes(std::as_bytes(std::span(ip)).first(ip_bytes(family)));
  writer.write(port);
  return std::string(as_string_view(writer.written()));
}

absl::StatusOr<SocketAddress> SocketAddress::decode(ByteSpan bytes) {
  if (bytes.empty()) return SocketAddress{};
  ByteReader reader(bytes);
  SocketAddress out;
  out.family = reader.read<uint8_t>();
  if (out.family == 4 || out.family == 6) {
    const ByteSpan ip = reader.read_bytes(ip_bytes(out.family));
    copy_bytes(reinterpret_cast<std::byte*>(out.ip.data()), ip);
    out.port = reader.read<uint16_t>();
    if (reader.complete() && out.port != 0) return out;
  }
  return absl::InvalidArgumentError(absl::StrCat("TCP address is malformed (", bytes.size(), " bytes)"));
}

std::string SocketAddress::to_string() const {
  if (is_none()) return "no address";
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family == 4 ? AF_INET : AF_INET6, ip.data(), text.data(), text.size());
  return family == 4 ? absl::StrCat(text.data(), ":", port) : absl::StrCat("[", text.data(), "]:", port);
}

socklen_t SocketAddress::to_sockaddr(sockaddr_storage& out) const {
  out = {};
  if (family == 4) {
    auto& in = reinterpret_cast<sockaddr_in&>(out);
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, ip.data(), 4);
    return sizeof in;
  }
  auto& in6 = reinterpret_cast<sockaddr_in6&>(out);
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  std::memcpy(&in6.sin6_addr, ip.data(), 16);
  return sizeof in6;
}

SocketAddress SocketAddress::from_sockaddr(const sockaddr_storage& from) {
  SocketAddress out;
  if (from.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(from);
    out.family = 4;
    out.port = ntohs(in.sin_port);
    std::memcpy(out.ip.data(), &in.sin_addr, 4);
  } else if (from.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(from);
    out.family = 6;
    out.port = ntohs(in6.sin6_port);
    std::memcpy(out.ip.data(), &in6.sin6_addr, 16);
  }
  return out;
}

}  // namespace skua::rpc::tcp
