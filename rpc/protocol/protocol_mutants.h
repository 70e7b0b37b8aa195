// Deliberate faults, compiled in only for the simulator's self-test: a checker that was never seen
// to catch anything proves nothing. In every other build mutant() is the constant false and costs
// nothing.
#ifndef SKUA_RPC_PROTOCOL_PROTOCOL_MUTANTS_H_
#define SKUA_RPC_PROTOCOL_PROTOCOL_MUTANTS_H_

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
  kKeepBudget,           // pulled packets that arrived stay counted in the receive budget, now and then
  kIgnoreBudget,         // sessions pull whether there is room in the receive budget or not
  kIgnoreDeparture,      // paced packets leave at once
  kNoSever,              // a session ends while its peer may read its memory, and the connection stands
  kAnyConnection,        // memory is read over another connection than it was announced over
  kForgetLost,           // what was in flight when a connection broke is not repeated over the next one
  kKeepBinding,          // a session whose connection broke takes no packets that come by another one
  kDropLent,             // an announced message's memory goes when its call ends, read or not
  kAnyLife,              // a record is taken for whatever session has its index now
  kForeignEcho,          // a bundle echoes the time stamp of another association
  kBelieveCut,           // a record that ends behind its bundle is believed as far as it goes
  kLoseSmallCredit,      // the credit of a small call that was repeated in a packet is not given back
  kReuseNumber,          // a small call has the number of the one before in its sslot
  kForgetAnswer,         // a small request that was answered is forgotten
};

#ifdef SKUA_WITH_MUTANTS
/// Set by the simulator before it makes its first endpoint.
extern Mutant g_active_mutant;
[[nodiscard]] inline bool mutant(Mutant which) {
  return g_active_mutant == which;
}
#else
[[nodiscard]] constexpr bool mutant(Mutant) {
  return false;
}
#endif

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_PROTOCOL_MUTANTS_H_
