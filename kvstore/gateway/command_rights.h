// What a command needs: the rights for the table that it is for. ClientConnection asks for every command that comes,
// at one place, before anything else is done with it.
//
// The rights follow from the flags of the command's table entry. A command whose flags say nothing needs both rights,
// so that a new command is never open to all by an oversight.
#ifndef SKUA_KVSTORE_GATEWAY_COMMAND_RIGHTS_H_
#define SKUA_KVSTORE_GATEWAY_COMMAND_RIGHTS_H_

#include "kvstore/gateway/client_users.h"
#include "kvstore/gateway/command_table.h"

namespace skua::kv::gateway {

/// `words` fit the command. EXEC needs none for itself: each command that it carries out needs its own.
[[nodiscard]] Rights needed_rights(const CommandSpec& spec, const CommandArguments& words);

/// Why a command is refused.
enum class Denial : uint8_t {
  kNone,
  kNoUser,        ///< the client has not authenticated
  kNoRight,       ///< its user lacks a right
  kRightWasLost,  ///< EXEC: its user has lost a right that a queued command needs
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_COMMAND_RIGHTS_H_
