// Deliberate faults of sessions and endpoints, for the self-test of their simulation (rpc/base/mutant.h).
#ifndef SKUA_RPC_PROTOCOL_PROTOCOL_MUTANTS_H_
#define SKUA_RPC_PROTOCOL_PROTOCOL_MUTANTS_H_

#include "rpc/base/mutant.h"

namespace skua::rpc {

enum class Mutant {
  kNone,
  kAckHole,              // acknowledge a packet that did not arrive
  kReuseGeneration,      // a new session at an index keeps the old one's generation
  kRunHandlerTwice,      // a duplicate of an answered request runs the handler again
  kLoseCredit,           // an acknowledged packet's credit is not given back
  kReleaseLeaseEarly,    // lent memory goes back to the transport while the application reads it
  kIgnoreDeadline,       // calls wait for ever
  kFreeBeforeTxDone,     // a message is released while the transport may still read it
  kAcceptStaleResponse,  // an old request number's response completes the new call
  kKeepBudget,           // some pulled packets that arrived stay counted in the receive budget
  kIgnoreBudget,         // sessions pull whether there is room in the receive budget or not
  kIgnoreDeparture,      // paced packets leave at once
  kNoSever,              // a session ends while its peer may read its memory, and the connection stands
  kAnyConnection,        // memory is read over another connection than it was announced over
  kForgetLost,           // what was in flight when a connection broke is not repeated over the next one
  kKeepBinding,          // a session whose connection broke takes no packets that come by another one
  kDropLent,             // an announced message's memory is released when its call ends, whether it was read or not
  kAnyLife,              // a record is given to the session that has its index now, whatever its life
  kForeignEcho,          // a bundle echoes the time stamp of another association
  kBelieveCut,           // of a record that ends beyond its bundle, the part that is there is used
  kLoseSmallCredit,      // the credit of a small call that was repeated in a packet is not given back
  kReuseNumber,          // a small call has the number of the one before in its sslot
  kForgetAnswer,         // a small request that was answered is forgotten
  kOpenByPacket,         // a packet opens a session although certificates are wanted
  kKeysToNobody,         // who proved no name is given keys, over a carrier that may not be secret
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_PROTOCOL_MUTANTS_H_
