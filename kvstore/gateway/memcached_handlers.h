// Handlers of memcached's commands. For their table and for the files that have them.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_HANDLERS_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_HANDLERS_H_

#include "kvstore/gateway/command_table.h"
#include "kvstore/gateway/command_task.h"

namespace skua::kv::gateway::memcached_handlers {

// memcached_store_commands.cc
CommandTask store(CommandRun& run);          // set add replace cas append, and ms for these
CommandTask store_prepend(CommandRun& run);  // prepend, and ms for that

// memcached_key_commands.cc
CommandTask get(CommandRun& run);  // get gets
extern const OneRequest kGetOne;   // of one key
CommandTask gat(CommandRun& run);  // gat gats
CommandTask touch(CommandRun& run);
CommandTask remove(CommandRun& run);  // delete

// memcached_counter_commands.cc
CommandTask sum(CommandRun& run);  // incr decr ma

// memcached_meta_commands.cc
CommandTask meta_get(CommandRun& run);
CommandTask meta_delete(CommandRun& run);
CommandTask meta_debug(CommandRun& run);
CommandTask meta_noop(CommandRun& run);

// memcached_server_commands.cc
CommandTask authenticate(CommandRun& run);  // the first set of a client that must authenticate

CommandTask version(CommandRun& run);
CommandTask verbosity(CommandRun& run);
CommandTask stats(CommandRun& run);
CommandTask flush_all(CommandRun& run);
CommandTask quit(CommandRun& run);

}  // namespace skua::kv::gateway::memcached_handlers

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_HANDLERS_H_
