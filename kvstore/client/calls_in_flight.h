// CallsInFlight: the calls of a client that nodes have not answered yet. It finds those that another node should
// answer.
//
// A node that hangs (stopped, swapping, its network gone) closes nothing and answers nothing. The control plane names
// another primary within half a second, and new operations go there as soon as the client has the next map. But a call
// in flight to the old primary would wait until its session is given up, after five seconds of silence. So each new map
// ends such calls:
//
//     map 7: shard 3 is node A's              PUT seq 41 ---- call -----> A   hangs
//     map 8: shard 3 is node B's                  |<-- cancel: CANCELLED
//                                                 +---------- call -----> B   seq 41, the same bytes
//     (later)                                         (no such call) <--- A   its answer is dropped
//
// Only a map ends a call: it says that another node is primary in a later epoch. The duration of a call does not say
// that, so a slow call is not ended; it only makes the client look for a newer map (kSlowCallNs).
//
// Why this is correct:
//   writes   If A committed the write before, B has the record of seq 41 and answers from it. If A did not, A cannot
//            commit it any more, because the members of B's view refuse A's epoch. The write stays in its lane until
//            the application has the result, so no node forgets seq 41. A call of a write without id is not ended,
//            because B could not recognise the repetition.
//   reads    If A's answer still comes, it is for a request number that the session no longer waits for, and the
//            session drops it. The application gets B's answer to a call that was made after the new map, never an
//            older answer.
//   memory   cancel() frees the sslot at once and the bytes later. The message holds its operation, and with it the
//            value (OperationPool::hold), until the transport releases the message: when it is written, or when the
//            connection breaks, after ten seconds in which the peer takes nothing. With one-sided reads the sslot
//            stays in use until A has said that it reads no more, or is cut off (rpc/protocol/session_caller_read.cc).
//            No attempt changes an operation's bytes, so two messages may send them at the same time.
//
// Why the calls are given up and not the session: the session may be sound. After a planned transfer A runs well and
// has other shards; a new session would cost two gRPC calls. The engine's pings find out whether a session lives, as
// long as calls wait for it. A session without calls costs nothing, and is still there when a stopped node goes on.
//
// Operations that wait for a session with A are routed anew by the same map (take_map): opening a session with a node
// that hangs lasts until gRPC's deadline.
#ifndef SKUA_KVSTORE_CLIENT_CALLS_IN_FLIGHT_H_
#define SKUA_KVSTORE_CLIENT_CALLS_IN_FLIGHT_H_

#include "kvstore/client/operation.h"
#include "kvstore/client/route_table.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"

namespace skua::kv {

/// Thread: one at a time.
class CallsInFlight {
 public:
  using List = IntrusiveList<CallOperation, &CallOperation::call_hook>;

  void started(CallOperation& operation) { calls_.push_back(operation); }
  static void ended(CallOperation& operation) { operation.call_hook.unlink(); }

  /// Takes out the calls that another node should answer, according to a new map. The caller cancels and repeats them.
  /// ended() takes an operation out of `moved`, too. `writes_have_ids`: a node recognises the repetition of a write.
  void take_moved(RouteTable& routes, bool writes_have_ids, List& moved);

  /// When the client should look for a newer map: when the oldest call becomes slow, and then once in each kSlowCallNs.
  [[nodiscard]] TimeNs next_look_ns();
  void looked(TimeNs now) { last_look_ns_ = now; }

 private:
  List calls_;  // the oldest first
  TimeNs last_look_ns_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CALLS_IN_FLIGHT_H_
