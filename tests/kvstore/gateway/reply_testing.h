// The bytes of a reply, for tests.
#ifndef SKUA_TESTS_KVSTORE_GATEWAY_REPLY_TESTING_H_
#define SKUA_TESTS_KVSTORE_GATEWAY_REPLY_TESTING_H_

#include <cstddef>
#include <string>

#include "kvstore/gateway/reply_bytes.h"

namespace skua::kv::gateway {

/// All bytes in one string.
[[nodiscard]] inline std::string joined(const ReplyBytes& reply) {
  std::string out;
  size_t from = 0;
  for (const ReplyBytes::Lent& lent : reply.lent()) {
    out.append(reply.text(), from, lent.at - from).append(lent.value.bytes());
    from = lent.at;
  }
  return out.append(reply.text(), from);
}

}  // namespace skua::kv::gateway

#endif  // SKUA_TESTS_KVSTORE_GATEWAY_REPLY_TESTING_H_
