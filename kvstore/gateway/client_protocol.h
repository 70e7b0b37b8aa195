// ClientProtocol: the protocols that clients may speak, by name.
#ifndef SKUA_KVSTORE_GATEWAY_CLIENT_PROTOCOL_H_
#define SKUA_KVSTORE_GATEWAY_CLIENT_PROTOCOL_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "kvstore/gateway/wire_protocol.h"

namespace skua::kv::gateway {

enum class ClientProtocol : uint8_t { kResp, kMemcached };

/// For one connection.
[[nodiscard]] std::unique_ptr<WireProtocol> make_wire_protocol(ClientProtocol protocol);
/// The error for a client beyond --connections-max.
[[nodiscard]] std::string_view too_many_clients(ClientProtocol protocol);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CLIENT_PROTOCOL_H_
