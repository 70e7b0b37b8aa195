// Binding `memcached`: memcached 1.6.12 or later, by its meta protocol.
//
//   record     one item; its value is the row of row_format.h
//   insert     ms key size                        stores, whether or not the key is there
//   read       mg key v                           the fields wanted are picked out of the row here
//   update     mg key v c, then ms key size C..   the row with its fields replaced, only if nobody else has stored
//                                                 meanwhile (else again); all fields at once: ms key size MR
//   delete     md key
//   scan       there is none in memcached: NOT_IMPLEMENTED
//
// As with `redis`, a session keeps all its operations in flight on one connection: commands gather in a buffer that
// poll() sends in one piece, and replies are matched to operations in order.
#ifndef SKUA_YCSB_BINDINGS_MEMCACHED_H_
#define SKUA_YCSB_BINDINGS_MEMCACHED_H_

#include "ycsb/bindings/binding.h"

namespace skua::ycsb {

[[nodiscard]] BindingEntry memcached_binding();

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_MEMCACHED_H_
