// One session per target (worker of a node): opened when first needed, given up when the node
// restarts, opened again with a pause that grows until something was heard by a session: one that opens, and ends
// before it has answered anything, has failed too.
//
//               ensure_open()            described: begin_connect        answered: finish_connect
//     kClosed ---------------> kDescribing ------------------> kAwaiting ----------------> kOpen
//        ^  ^                       |                              |                         |
//        |  +--- pause over --- kFailed <--------- error ----------+                         |
//        +-------------- node restarted or gone, session lost, session suspect --------------+
//                        (lost or suspect before anything was heard: kFailed)
//
// Describing and the handshake go over gRPC (ClusterAccess); their results come back through the
// endpoint's mailbox, with the opening's number, so that a result of an opening that was given up is
// told from a current one.
#ifndef SKUA_KVSTORE_CLIENT_SESSIONS_H_
#define SKUA_KVSTORE_CLIENT_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/client/cluster_access.h"
#include "kvstore/client/route_table.h"
#include "kvstore/client/types.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Told on the client's thread. Must not call back in here but for const methods.
class SessionHost {
 public:
  virtual void session_ready(TargetId target) = 0;
  /// An opening failed; the next one is possible after a pause.
  virtual void session_failed(TargetId target, const absl::Status& why) = 0;
  /// A session is gone; ensure_open() says when it can be opened anew, mostly at once.
  virtual void session_lost(TargetId target) = 0;

 protected:
  ~SessionHost() = default;
};

/// Thread: the endpoint's. Host, endpoint, cluster and routes must outlive it.
class Sessions {
 public:
  Sessions(SessionHost& host, rpc::Endpoint& endpoint, ClusterAccess& cluster, const RouteTable& routes,
           ClientCounters& counters, uint64_t seed);

  [[nodiscard]] bool is_open(TargetId target) const {
    return target < entries_.size() && entries_[target].state == State::kOpen && !entries_[target].suspect;
  }
  /// Only while is_open().
  [[nodiscard]] rpc::SessionId session(TargetId target) const { return entries_[target].session; }

  /// Why the latest opening failed; OK if none did since the last success.
  [[nodiscard]] const absl::Status& last_error(TargetId target) const { return entries_[target].last_error; }

  /// Starts opening unless it is open, being opened, or pausing after a failure. Returns when to ask
  /// again at the latest; the host is told of changes before.
  TimeNs ensure_open(TargetId target, TimeNs now);

  /// A call was started on, or came back from, the target's session. `heard`: with an answer of the node's, whatever it
  /// says.
  void call_started(TargetId target) { ++entries_[target].calls; }
  void call_ended(TargetId target, rpc::SessionId session, bool heard);

  /// Carry no further call on this session; it is given up once the last one has come back.
  void suspect(TargetId target, rpc::SessionId session);
  /// The target's node restarted or is gone.
  void drop(TargetId target);

  void close_all();
  /// To be called between the endpoint's turns: closes what was found dead during one.
  void clean_up();

 private:
  enum class State : uint8_t { kClosed, kDescribing, kAwaiting, kOpen, kFailed };

  struct Entry {
    State state = State::kClosed;
    bool suspect = false;
    bool heard = false;  // by this session
    rpc::SessionId session;
    uint64_t opening = 0;
    uint32_t failures = 0;  // in a row, since something was heard
    uint32_t calls = 0;
    TimeNs retry_at_ns = 0;
    absl::Status last_error;
  };

  void describe(TargetId target);
  void on_described(TargetId target, uint64_t opening, const absl::StatusOr<control::NodeDescription>& node);
  void on_answered(TargetId target, uint64_t opening, const absl::StatusOr<std::string>& answer);
  void on_event(const rpc::SessionEvent& event);
  void fail(TargetId target, const absl::Status& why);
  /// A session that stood is over.
  void lose(Entry& entry);
  /// Not opened for a while: longer with each failure in a row.
  void pause(Entry& entry);
  /// Forgets the session; clean_up() closes it.
  void reset(Entry& entry);
  Entry& entry_of(TargetId target);

  SessionHost& host_;
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
