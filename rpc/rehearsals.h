// Rehearsals: small calls of the engine's own, which keep the code and data of a small call in the processor's caches.
//
// An endpoint that never sleeps (busy polling) looks at the wire millions of times a second. Without calls it touches
// nothing else. After a second of that, the caches have lost the code and data of a call: some two hundred lines on
// both sides. The first call then waits for each of them. So an endpoint without calls makes a small call now and then,
// in turn on each session that it opened. The peer's engine answers it. Applications never see it, and counters do not
// count it.
#ifndef SKUA_RPC_REHEARSALS_H_
#define SKUA_RPC_REHEARSALS_H_

#include <cstdint>

#include "rpc/endpoint_context.h"
#include "rpc/incoming_calls.h"
#include "rpc/outgoing_calls.h"
#include "rpc/receive_memory.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class Rehearsals {
 public:
  /// Answers the rehearsals of peers from now on. Makes some of its own only if the options say so.
  Rehearsals(EndpointContext& context, ReceiveMemory& memory, IncomingCalls& incoming, OutgoingCalls& outgoing);
  Rehearsals(const Rehearsals&) = delete;
  Rehearsals& operator=(const Rehearsals&) = delete;

  /// When run() is due; kTimeNever: not at all.
  [[nodiscard]] TimeNs next_ns() const { return next_ns_; }
  /// Makes a call, unless the application made some since the last time.
  void run();

 private:
  EndpointContext& context_;
  OutgoingCalls& outgoing_;
  TimeNs next_ns_ = kTimeNever;
  uint64_t calls_before_ = 0;
  uint32_t session_ = 0;  // index of the session that was used last
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_REHEARSALS_H_
