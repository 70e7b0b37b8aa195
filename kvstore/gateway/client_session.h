// ClientSession: what a client has chosen for its connection.
#ifndef SKUA_KVSTORE_GATEWAY_CLIENT_SESSION_H_
#define SKUA_KVSTORE_GATEWAY_CLIENT_SESSION_H_

#include <cstdint>
#include <string>

#include "kvstore/gateway/resp_writer.h"

namespace skua::kv::gateway {

struct ClientSession {
  /// Of this connection; different from all others of the gateway, also later ones.
  uint64_t id = 0;
  /// "127.0.0.1:50112"
  std::string remote{};
  std::string local{};
  int64_t connected_ms = 0;
  uint32_t database = 0;
  RespVersion protocol = RespVersion::kResp2;
  std::string name{};
  /// No further commands are taken; the connection ends when the replies are out.
  bool is_ending = false;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CLIENT_SESSION_H_
