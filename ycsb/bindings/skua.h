// Binding `skua`: Skua through its asynchronous client library.
//
//   record                one value in row format `single`
//   insert                PUT
//   read                  GET; single fields are picked out here
//   update                PATCH: one round trip, atomic at the server
//   scan                  SCAN, merged over shards by the client
//   delete                DELETE
//
// A session is a client of its own with one session per worker of each node; all its operations are in flight on those.
#ifndef SKUA_YCSB_BINDINGS_SKUA_H_
#define SKUA_YCSB_BINDINGS_SKUA_H_

#include "ycsb/bindings/binding.h"

namespace skua::ycsb {

[[nodiscard]] BindingEntry skua_binding();

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_SKUA_H_
