// Sessions: one session per target (worker of a node). A session is opened when it is first needed, and given up when
// the node restarts. After a failure there is a pause before the next opening. The pause grows with each failure in a
// row. A session that opens, and ends before it has answered any call, counts as a failure, too.
//
//               ensure_open()            described: begin_connect        answered: finish_connect
//     kClosed ---------------> kDescribing ------------------> kAwaiting ----------------> kOpen
//        ^  ^                       |                              |                         |
//        |  +--- pause over --- kFailed <--------- error ----------+                         |
//        +-------------- node restarted or gone, session lost, session suspect --------------+
//                        (lost or suspect before it answered any call: kFailed)
//
// The description of the node and the handshake go over gRPC (ClusterAccess). Their results come back through the
// endpoint's mailbox. Each result carries the number of its opening, so that results of openings that were given up are
// ignored.
#ifndef SKUA_KVSTORE_CLIENT_SESSIONS_H_
#define SKUA_KVSTORE_CLIENT_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/client/cluster_access.h"
#include "kvstore/client/route_table.h"
#include "kvstore/client/types.h"
#include "kvstore/types/features.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"

namespace skua::kv {

class OperationRunner;

/// Tells the runner of its events, on the client's thread. The runner may call ensure_open() and start calls from
/// inside an event. Thread: the endpoint's. All constructor arguments must outlive this object.
class Sessions {
 public:
  Sessions(OperationRunner& runner, rpc::Endpoint& endpoint, ClusterAccess& cluster, const RouteTable& routes,
           ClientCounters& counters, uint64_t seed);

  [[nodiscard]] bool is_open(TargetId target) const {
    return target < entries_.size() && entries_[target].state == State::kOpen && !entries_[target].suspect;
  }
  /// Only while is_open().
  [[nodiscard]] rpc::SessionId session(TargetId target) const { return entries_[target].session; }

  /// Why the latest opening failed. OK if no opening failed since the last successful one.
  [[nodiscard]] const absl::Status& last_error(TargetId target) const { return entries_[target].last_error; }

  /// Starts to open a session unless one is open, is being opened, or pauses after a failure. Returns the time at which
  /// to call this again at the latest. If something changes before that time, the runner is told.
  TimeNs ensure_open(TargetId target, TimeNs now);

  /// What the node knows that the target's session is with.
  [[nodiscard]] Features features(TargetId target) const { return entries_[target].features; }

  /// A call was started on the target's session, or has ended. `heard`: it ended with an answer of the node, good or
  /// bad.
  void call_started(TargetId target) { ++entries_[target].calls; }
  void call_ended(TargetId target, rpc::SessionId session, bool heard);

  /// Starts no further calls on this session, and gives it up when its last call has ended.
  void suspect(TargetId target, rpc::SessionId session);
  /// The target's node restarted or is gone.
  void drop(TargetId target);

  /// Gives up all sessions; clean_up() closes them.
  void close_all();
  /// Closes the sessions that were given up. To be called between the endpoint's turns, not inside one.
  void clean_up();

 private:
  enum class State : uint8_t { kClosed, kDescribing, kAwaiting, kOpen, kFailed };

  struct Entry {
    State state = State::kClosed;
    bool suspect = false;
    bool heard = false;  // this session has answered a call
    rpc::SessionId session;
    uint64_t opening = 0;
    uint32_t failures = 0;  // in a row, since a session answered a call
    uint32_t calls = 0;
    TimeNs retry_at_ns = 0;
    Features features = 0;  // what the node said
    absl::Status last_error;
  };

  void on_described(TargetId target, uint64_t opening, const absl::StatusOr<control::NodeDescription>& node);
  void on_answered(TargetId target, uint64_t opening, const absl::StatusOr<std::string>& answer);
  void on_event(const rpc::SessionEvent& event);
  void fail(TargetId target, const absl::Status& why);
  /// A session that was opened has ended. If it never answered a call, a pause follows.
  void lose(Entry& entry);
  /// No opening for a while; the pause grows with each failure in a row.
  void pause(Entry& entry);
  /// Forgets the entry's session; clean_up() closes it.
  void reset(Entry& entry);
  Entry& entry_of(TargetId target);

  OperationRunner& runner_;
  rpc::Endpoint& endpoint_;
  ClusterAccess& cluster_;
  const RouteTable& routes_;
  ClientCounters& counters_;
  Rng rng_;
  uint64_t openings_ = 0;
  std::vector<Entry> entries_;
  std::vector<rpc::SessionId> to_close_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_SESSIONS_H_
