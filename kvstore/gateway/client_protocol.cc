#include "kvstore/gateway/client_protocol.h"

#include "kvstore/gateway/resp_protocol.h"
#include "rpc/base/check.h"

namespace skua::kv::gateway {

std::unique_ptr<WireProtocol> make_wire_protocol(ClientProtocol protocol) {
  switch (protocol) {
    case ClientProtocol::kResp: return std::make_unique<RespProtocol>();
  }
  SKUA_CHECK(false, "a protocol without a name");
}

std::string_view too_many_clients(ClientProtocol protocol) {
  switch (protocol) {
    case ClientProtocol::kResp: return kRespTooManyClients;
  }
  SKUA_CHECK(false, "a protocol without a name");
}

}  // namespace skua::kv::gateway
