#include "kvstore/gateway/client_protocol.h"

#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_protocol.h"
#include "kvstore/gateway/resp_protocol.h"
#include "rpc/base/check.h"

namespace skua::kv::gateway {

std::unique_ptr<WireProtocol> make_wire_protocol(ClientProtocol protocol) {
  switch (protocol) {
    case ClientProtocol::kResp: return std::make_unique<RespProtocol>();
    case ClientProtocol::kMemcached: return std::make_unique<MemcachedProtocol>();
  }
  SKUA_CHECK(false, "a protocol without a name");
}

std::string_view too_many_clients(ClientProtocol protocol) {
  switch (protocol) {
    case ClientProtocol::kResp: return kRespTooManyClients;
    case ClientProtocol::kMemcached: return memcached_errors::kTooManyClients;
  }
  SKUA_CHECK(false, "a protocol without a name");
}

}  // namespace skua::kv::gateway
