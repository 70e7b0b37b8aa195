#include "kvstore/gateway/command_burst.h"

#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/put_groups.h"

namespace skua::kv::gateway {
namespace {

constexpr CommandSpec kSetBurst{.name = "set",
                                .arity = -3,
                                .flags = kWrites | kBurst,
                                .first_key = 1,
                                .last_key = -1,
                                .key_step = 2,
                                .handler = nullptr,
                                .one_request = &handlers::kSetBurst};

}  // namespace

const CommandSpec* burst_of(const CommandSpec& spec, const CommandArguments& words) {
  // A large value does not share a request with others anyway.
  const bool is_plain_set = spec.handler == handlers::set && words.size() == 3;
  return is_plain_set && words[2].size() <= kGroupedValueBytesMax ? &kSetBurst : nullptr;
}

}  // namespace skua::kv::gateway
