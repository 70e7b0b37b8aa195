// Binding `redis`: Redis and its relatives, with Java YCSB's data model.
//
//   record                HMSET key field value ...      a Redis hash per record
//   insert                and ZADD _indices hash(key) key, so that scans find it
//   read                  HGETALL key, or HMGET key field ...
//   update                HMSET key field value
//   scan                  ZRANGEBYSCORE _indices hash(start) +inf LIMIT 0 n, then a read per key
//
// hash is Java's String.hashCode, so scans run in that order, as with Java's binding. A session
// keeps all its operations in flight on one connection (pipelining): commands gather in a buffer
// that poll() sends in one piece, and replies are matched to operations in order.
#ifndef SKUA_YCSB_BINDINGS_REDIS_H_
#define SKUA_YCSB_BINDINGS_REDIS_H_

#include "ycsb/bindings/binding.h"

namespace skua::ycsb {

[[nodiscard]] BindingEntry redis_binding();

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_REDIS_H_
