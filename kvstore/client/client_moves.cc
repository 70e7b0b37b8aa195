// Calls that are given up, because another node leads their shard now.
//
// A node that hangs (stopped, swapping, its network gone) closes nothing and answers nothing. The control plane has another
// primary within half a second, and new operations go there with the next map; but a call that is under way to the old one would
// wait until its session is given up, after five seconds of silence. So each new map ends such calls:
//
//     map 7: shard 3 is node A's              PUT seq 41 ---- call -----> A   hangs
//     map 8: shard 3 is node B's                  |<-- cancel: CANCELLED
//                                                 +---------- call -----> B   seq 41, the same bytes
//     (later)                                         (no such call) <--- A   its answer is dropped
//
// Why that is right. Only the map counts: it says that a later epoch has another primary. How long a call has taken says nothing about
// that, so a slow call ends nothing; it is a reason to look for a newer map (kSlowCallNs).
//   writes   A may have committed this one before, and then B has the record of seq 41 and answers from it; or it has not, and then it
//            cannot any more, because the members of B's view refuse A's epoch. Until the application is told, the write stays in its lane,
//            so no node forgets seq 41. A write without identity is left where it is: B could not know it again.
//   reads    A's answer, should it come, is for a request number that the session does not wait for any longer, and is dropped
//            there. What the application sees is B's answer to a call made after the map, never the older of two.
//   memory   cancel() frees the slot at once and the bytes later: the message holds its operation, and with it the
//            value (OperationPool::hold), until the transport lets go of it; that is when it is written, or when the connection breaks, after
//            ten seconds in which the peer takes nothing. With one-sided reads the slot lingers until A has said that it reads no more,
//            or is cut off (rpc/protocol/session_caller_read.cc). No attempt changes an operation's bytes, so two
//            wires may have them.
//
// Why calls and not the session. The session is not at fault: after a planned transfer A is well, has other shards, and would have to be
// asked for another session by two gRPC calls. Whether it lives the engine finds out by its pings, as long as calls wait for it. A
// session without calls costs nothing; when a stopped node goes on, its session is still there.
//
// Operations that wait for a session with A to be opened are routed anew by the same map (take_map): opening one with a
// node that hangs takes as long as gRPC's deadline.
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"

namespace skua::kv {

/// The node that its call is under way to is not the one to ask any longer.
bool ClientCore::has_moved(const Operation& operation) {
  if (repeat_of(operation) == Repeat::kUnidentified) return false;
  if (operation.at_backup) return false;  // it was not asked as the primary, and is not waited for long
  const TableRoutes* table = routes_.find_table(operation.table);
  // Of a table that was dropped, or made anew, nobody knows better than the node that has the call.
  if (table == nullptr || table->id != operation.table_id || operation.shard >= table->shards.size()) return false;
  const TargetId primary = table->shards[operation.shard].target;
  return primary != kNoTarget && primary != operation.target;
}

/// After a new map.
void ClientCore::give_up_moved() {
  // Taken out first: what is called again goes to the end of calls_.
  IntrusiveList<Operation, &Operation::call_hook> moved;
  for (Operation* at = calls_.empty() ? nullptr : &calls_.front(); at != nullptr;) {
    Operation* following = calls_.next(*at);
    if (has_moved(*at)) {
      at->call_hook.unlink();
      moved.push_back(*at);
    }
    at = following;
  }
  // A callback may end others of them meanwhile: on_result() takes them out of whatever list they are in.
  while (Operation* operation = moved.pop_front()) {
    operation->moved = true;
    endpoint_->cancel(operation->call);
  }
}

void ClientCore::on_given_up(Operation& operation, const rpc::CallResult& result) {
  operation.moved = false;
  ++counters_.calls_moved;
  sessions_->call_ended(operation.target, operation.session, result.from_peer);
  note_attempt(operation, operation.attempt_ns,
               absl::AbortedError("no answer yet, and another node leads the shard now"));
  operation.uncertain = operation.uncertain || (operation.is_write() && result.may_have_executed);
  dispatch(operation);
}

/// When the oldest call is slow, and again each time as much later.
TimeNs ClientCore::next_look_ns() {
  if (calls_.empty()) return kTimeNever;
  return std::max(calls_.front().attempt_ns, last_look_ns_) + kSlowCallNs;
}

void ClientCore::look_for_a_map() {
  last_look_ns_ = endpoint_->now_ns();
  if (!closing_) cluster_.hurry();
}

}  // namespace skua::kv
