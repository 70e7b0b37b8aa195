// Deliberate faults of sealed frames: each opens a door to an attacker. They are for the self-test of the attacks
// (rpc/base/mutant.h).
#ifndef SKUA_RPC_TRANSPORT_SEALED_SEAL_MUTANTS_H_
#define SKUA_RPC_TRANSPORT_SEALED_SEAL_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::rpc {

enum class SealMutant {
  kNone,
  kReuseNumber,      // some frames have the number of the one before
  kRestartNumbers,   // numbers start again with each key
  kMarkBeforeTag,    // a number is marked as seen before its frame's tag was checked
  kSkipTag,          // a wrong tag is taken
  kModeOfPacket,     // the frame says how it is protected, not the channel
  kOneKey,           // both directions have the same keys
  kKeepKeys,         // frames of all generations are sealed under the first key
  kForgetWindow,     // numbers are not marked as seen
  kUnsealedForKeys,  // a keyless peer's packet is taken for the first channel
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_SEAL_MUTANTS_H_
