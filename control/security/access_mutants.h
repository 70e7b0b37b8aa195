// Deliberate faults of who may do what, for the self-test of these rules' tests (rpc/base/mutant.h).
#ifndef SKUA_CONTROL_SECURITY_ACCESS_MUTANTS_H_
#define SKUA_CONTROL_SECURITY_ACCESS_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::control {

enum class AccessMutant {
  kNone,
  kAnyRole,       // a caller of any role may call a method
  kAnyServer,     // a server of any role is believed
  kAnyCluster,    // certificates of another cluster are taken
  kAnyNode,       // a node may speak for another one
  kAnyAnonymous,  // a caller without a certificate may call what needs a name
  kAnyDocument,   // a certificate whose name is no identity of Skua's is taken
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_ACCESS_MUTANTS_H_
