// Binding `basic`: no store at all. It answers OK at once, so what a run measures is the driver
// itself; with basicdb.verbose=true it prints each operation as Java YCSB's BasicDB does, and with
// basicdb.simulatedelay it answers late.
#ifndef SKUA_YCSB_BINDINGS_BASIC_H_
#define SKUA_YCSB_BINDINGS_BASIC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ycsb/bindings/binding.h"

namespace skua::ycsb {

[[nodiscard]] BindingEntry basic_binding();

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_BASIC_H_
