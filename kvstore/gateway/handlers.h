// Handlers of all commands. For the table and for the files that have them.
#ifndef SKUA_KVSTORE_GATEWAY_HANDLERS_H_
#define SKUA_KVSTORE_GATEWAY_HANDLERS_H_

#include "kvstore/gateway/command_table.h"
#include "kvstore/gateway/command_task.h"

namespace skua::kv::gateway::handlers {

// set_commands.cc
CommandTask set(CommandRun& run);
extern const OneRequest kSetValue;   // SET without options
extern const OneRequest kSetBurst;   // many of them
CommandTask setex(CommandRun& run);  // and PSETEX
CommandTask setnx(CommandRun& run);
CommandTask mset(CommandRun& run);
CommandTask msetnx(CommandRun& run);
CommandTask getset(CommandRun& run);

// string_commands.cc
extern const OneRequest kGet;
CommandTask mget(CommandRun& run);
CommandTask getdel(CommandRun& run);
CommandTask getex(CommandRun& run);
CommandTask append(CommandRun& run);
CommandTask strlen(CommandRun& run);
CommandTask getrange(CommandRun& run);
CommandTask setrange(CommandRun& run);

// counter_commands.cc
CommandTask incr(CommandRun& run);  // and DECR, INCRBY, DECRBY
CommandTask incrbyfloat(CommandRun& run);

// key_commands.cc
CommandTask del(CommandRun& run);
CommandTask exists(CommandRun& run);
CommandTask type(CommandRun& run);
CommandTask scan(CommandRun& run);
CommandTask keys(CommandRun& run);
CommandTask dbsize(CommandRun& run);
CommandTask randomkey(CommandRun& run);
CommandTask flush(CommandRun& run);  // FLUSHALL and FLUSHDB

// hash_commands.cc
CommandTask hset(CommandRun& run);  // and HMSET
CommandTask hsetnx(CommandRun& run);
CommandTask hdel(CommandRun& run);
CommandTask hincrby(CommandRun& run);
CommandTask hincrbyfloat(CommandRun& run);

// hash_read_commands.cc
CommandTask hget(CommandRun& run);
CommandTask hmget(CommandRun& run);
CommandTask hgetall(CommandRun& run);  // and HKEYS, HVALS
CommandTask hlen(CommandRun& run);
CommandTask hexists(CommandRun& run);
CommandTask hstrlen(CommandRun& run);
CommandTask hscan(CommandRun& run);

// expiry_commands.cc
CommandTask expire(CommandRun& run);  // and PEXPIRE, EXPIREAT, PEXPIREAT
CommandTask ttl(CommandRun& run);     // and PTTL, EXPIRETIME, PEXPIRETIME
CommandTask persist(CommandRun& run);

// transaction_commands.cc
CommandTask multi(CommandRun& run);
CommandTask exec(CommandRun& run);
CommandTask discard(CommandRun& run);
CommandTask watch(CommandRun& run);
CommandTask unwatch(CommandRun& run);

// session_commands.cc
CommandTask ping(CommandRun& run);
CommandTask echo(CommandRun& run);
CommandTask select(CommandRun& run);
CommandTask hello(CommandRun& run);
CommandTask auth(CommandRun& run);
CommandTask quit(CommandRun& run);
CommandTask reset(CommandRun& run);
CommandTask client_id(CommandRun& run);
CommandTask client_getname(CommandRun& run);
CommandTask client_setname(CommandRun& run);
CommandTask client_setinfo(CommandRun& run);
CommandTask client_info(CommandRun& run);

// server_commands.cc
CommandTask info(CommandRun& run);
CommandTask config_get(CommandRun& run);
CommandTask command(CommandRun& run);
CommandTask command_count(CommandRun& run);
CommandTask command_info(CommandRun& run);
CommandTask command_docs(CommandRun& run);
CommandTask time(CommandRun& run);

}  // namespace skua::kv::gateway::handlers

#endif  // SKUA_KVSTORE_GATEWAY_HANDLERS_H_
