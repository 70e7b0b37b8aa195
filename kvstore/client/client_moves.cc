// Gives up calls to a node that no longer leads their shard, and repeats them at the node that does.
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
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"

namespace skua::kv {

/// The operation's call is in flight to a node that is no longer the shard's primary.
bool ClientCore::has_moved(const Operation& operation) {
  if (repeat_of(operation) == Repeat::kUnidentified) return false;
  if (operation.at_backup) return false;  // a backup was asked, and kReadPatienceNs limits the wait
  const TableRoutes* table = routes_.find_table(operation.table);
  // If the table was dropped, or dropped and created again, no other node can answer better.
  if (table == nullptr || table->id != operation.table_id || operation.shard >= table->shards.size()) return false;
  const TargetId primary = table->shards[operation.shard].target;
  return primary != kNoTarget && primary != operation.target;
}

/// Called after each new map.
void ClientCore::give_up_moved() {
  // Takes the operations out of calls_ first: an operation that is called again goes to the end of calls_.
  IntrusiveList<Operation, &Operation::call_hook> moved;
  for (Operation* at = calls_.empty() ? nullptr : &calls_.front(); at != nullptr;) {
    Operation* following = calls_.next(*at);
    if (has_moved(*at)) {
      at->call_hook.unlink();
      moved.push_back(*at);
    }
    at = following;
  }
  // A callback may end other operations of `moved` meanwhile: on_result() takes them out of either list.
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

/// When look_for_a_map() is due: when the oldest call becomes slow, and then once in each kSlowCallNs.
TimeNs ClientCore::next_look_ns() {
  if (calls_.empty()) return kTimeNever;
  return std::max(calls_.front().attempt_ns, last_look_ns_) + kSlowCallNs;
}

void ClientCore::look_for_a_map() {
  last_look_ns_ = endpoint_->now_ns();
  if (!closing_) cluster_.hurry();
}

}  // namespace skua::kv
