// Descriptor: who an endpoint is and how to reach it. It travels over gRPC (or any other side channel) before the first
// packet.
//
//   u8  version (1)         u8 length + transport name ("tcp", "sim", later "dpdk", "verbs")
//   16  endpoint uuid       stable over restarts of the same node and worker
//   u64 incarnation         rises with every start of the process (a counter kept on disk, or the wall clock)
//   16  cluster id          all zero: none (stand-alone tools)
//   u16 length + address    the transport's own bytes: IP and port; MAC, IP and port; LID/GID, QP number and key
#ifndef SKUA_RPC_TRANSPORT_DESCRIPTOR_H_
#define SKUA_RPC_TRANSPORT_DESCRIPTOR_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc {

/// A 128-bit identifier; all zero means "none".
struct Uuid {
  std::array<uint8_t, 16> bytes{};

  auto operator<=>(const Uuid&) const = default;
  [[nodiscard]] bool is_zero() const { return *this == Uuid{}; }
  /// 8-4-4-4-12 lower-case hexadecimal digits.
  [[nodiscard]] std::string to_string() const;
};

/// One life of one endpoint. A later life has a higher incarnation.
struct EndpointIdentity {
  Uuid uuid;
  uint64_t incarnation = 0;
  Uuid cluster_id;

  auto operator<=>(const EndpointIdentity&) const = default;
};

struct Descriptor {
  static constexpr size_t kTransportNameMax = 16;
  static constexpr size_t kAddressMax = 512;

  std::string transport;
  EndpointIdentity identity;
  std::string address;

  bool operator==(const Descriptor&) const = default;

  /// The bytes above. A transport name over kTransportNameMax or an address over kAddressMax fails a check.
  [[nodiscard]] std::string encode() const;
  /// INVALID_ARGUMENT for anything that encode() does not produce.
  static absl::StatusOr<Descriptor> decode(ByteSpan bytes);
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_DESCRIPTOR_H_
