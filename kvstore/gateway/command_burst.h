// Bursts: SETs that one connection sends together run as one command. The client does not see it: each SET has its own
// reply.
//
//    SET a 1   SET b 2   SET a 3   GET c   SET d 4
//    '------ burst ----'   |         |       |          a key comes once in a burst, and any other command ends it
//         "set a 1 b 2"  burst      GET    burst
//
// What a command costs besides its words (its run, its place among the hazards, its request and result) is paid once.
// The words of a burst lie as those of MSET. The store gets a burst as one request (StoreRequest::Kind::kPuts) and
// tells which of its PUTs failed. So each SET has a reply of its own. All replies come when the last PUT is answered.
//
// A burst is open while its connection looks at the bytes of one read. So no SET waits for input that may come later.
#ifndef SKUA_KVSTORE_GATEWAY_COMMAND_BURST_H_
#define SKUA_KVSTORE_GATEWAY_COMMAND_BURST_H_

#include <cstddef>

#include "kvstore/gateway/command_arguments.h"
#include "kvstore/gateway/command_table.h"

namespace skua::kv::gateway {

/// The words of so many small SETs fit into memory that a run keeps for later commands.
inline constexpr size_t kBurstCommandsMax = 32;

/// The burst command that this command may become part of; null: it runs by itself.
[[nodiscard]] const CommandSpec* burst_of(const CommandSpec& spec, const CommandArguments& words);

/// The number of commands in the burst's words.
[[nodiscard]] inline size_t burst_size(const CommandArguments& words) {
  return (words.size() - 1) / 2;
}

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_COMMAND_BURST_H_
