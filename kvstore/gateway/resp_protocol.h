// RespProtocol: Redis's protocol, RESP2 and RESP3, as the language of a connection.
#ifndef SKUA_KVSTORE_GATEWAY_RESP_PROTOCOL_H_
#define SKUA_KVSTORE_GATEWAY_RESP_PROTOCOL_H_

#include <string>
#include <string_view>

#include "kvstore/gateway/resp_parser.h"
#include "kvstore/gateway/wire_protocol.h"

namespace skua::kv::gateway {

/// What a client gets that finds no place.
inline constexpr std::string_view kRespTooManyClients = "-ERR max number of clients reached\r\n";

class RespProtocol final : public WireProtocol {
 public:
  [[nodiscard]] Found parse(std::string_view& input) override;
  [[nodiscard]] CommandArguments& arguments() override { return parser_.arguments(); }
  [[nodiscard]] std::string error() const override;
  [[nodiscard]] bool is_amid_command() const override { return parser_.is_amid_command(); }
  [[nodiscard]] FoundCommand find(const CommandArguments& words) override;
  [[nodiscard]] std::string denial(Denial reason, const CommandSpec& spec,
                                   const CommandArguments& words) const override;
  void write_error(std::string_view error, ReplyBytes& reply) const override;

 private:
  RespParser parser_;
  // The latest command, if its name alone says which it is: most clients send the same one again.
  const CommandSpec* latest_ = nullptr;
  std::string latest_name_;  // as the client wrote it
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_RESP_PROTOCOL_H_
