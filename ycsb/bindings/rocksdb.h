// Binding `rocksdb`: RocksDB inside the driver's own process, the way YCSB-cpp measures it.
//
//   record     one value under the record's key: the row of row_format.h
//   insert     Put
//   read       Get, and the fields wanted are picked out of the row
//   update     Get and Put of the row with its fields replaced; a lock keeps two of the same record apart
//   delete     Delete
//   scan       an iterator from the start key on, in order of keys
//
// RocksDB's calls return when they are done, so operations never overlap within a thread: submit() does them and
// completes them at once. What -inflight is for other bindings, -threads is for this one; RocksDB commits the writes of
// threads that wait at the same time together.
#ifndef SKUA_YCSB_BINDINGS_ROCKSDB_H_
#define SKUA_YCSB_BINDINGS_ROCKSDB_H_

#include "ycsb/bindings/binding.h"

namespace skua::ycsb {

[[nodiscard]] BindingEntry rocksdb_binding();

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_ROCKSDB_H_
