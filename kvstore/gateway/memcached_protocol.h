// MemcachedProtocol: memcached's text protocol, classic and meta commands, as the language of a connection.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_PROTOCOL_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_PROTOCOL_H_

#include <string>
#include <string_view>
#include <vector>

#include "kvstore/gateway/memcached_parser.h"
#include "kvstore/gateway/wire_protocol.h"

namespace skua::kv::gateway {

/// Of the commands with all their words, in the order of names.
[[nodiscard]] std::vector<const CommandSpec*> all_memcached_commands();

class MemcachedProtocol final : public WireProtocol {
 public:
  [[nodiscard]] Found parse(std::string_view& input) override { return parser_.parse(input, is_restricted()); }
  [[nodiscard]] CommandArguments& arguments() override { return parser_.arguments(); }
  [[nodiscard]] std::string error() const override { return std::string(parser_.error()); }
  [[nodiscard]] bool is_amid_command() const override { return parser_.is_amid_command(); }
  [[nodiscard]] FoundCommand find(const CommandArguments& words) override;
  [[nodiscard]] std::string denial(Denial reason, const CommandSpec& spec,
                                   const CommandArguments& words) const override;
  void write_error(std::string_view error, ReplyBytes& reply) const override;

 private:
  MemcachedParser parser_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_PROTOCOL_H_
