// The control thread: the only one that touches the core and the metadata store.
//
// A registration may take this way twice: the core says at which addresses to ask who is there, a NodeProbe asks, and
// the event comes again with the answers (control/server/claim_desk.h). Nobody waits for them but the call.
//
//    gRPC threads                      control thread
//    submit(event, done) ──> lanes ──> core.step ──> store (CAS) ──> core.committed ──> hub.publish(map) ──> watchers
//                          (bounded)       ^              │                │
//                                          └── load <── lost the race      └──> done(decision) ──> the call's reply
//
// Of several control processes on one store only the one that leads does any of this. The others refuse everything,
// naming the leader (control/proto/redirect.h). A new leader begins like a process that has just started: it reads the
// state and waits to hear from the nodes.
//
// Between events it sends itself ticks, which expire heartbeats and waits. What nodes have said by then is heard first:
// nobody is silent because this thread was busy. Everything blocks on one
// thread on purpose: control operations are rare and small, and one writer makes the order of
// decisions the order of events.
#ifndef SKUA_CONTROL_SERVER_CONTROLLER_H_
#define SKUA_CONTROL_SERVER_CONTROLLER_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "control/core/cluster_core.h"
#include "control/server/claim_desk.h"
#include "control/server/command_queue.h"
#include "control/server/map_hub.h"
#include "control/server/node_probe.h"
#include "control/server/node_roll.h"
#include "control/server/refusal_log.h"
#include "control/server/state_store.h"
#include "control/store/election.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Receives one line for the log; `warning` if somebody should look at it. Thread: the control
/// thread.
using LogFn = std::function<void(bool warning, const std::string& line)>;

struct ControllerOptions {
  CoreOptions core;
  DurationNs tick_ns = 100 * kMillisecond;
  /// May be empty.
  LogFn log;
  /// Who is revoked, before anybody is told of the state. May be empty. Thread: the control thread, before start() the
  /// caller's.
  std::function<void(uint64_t map_revision, const std::vector<std::string>& denied)> on_denied = {};
  /// There are no others. Otherwise it follows until set_leadership() says that it leads.
  bool alone = true;
};

class Controller {
 public:
  /// Runs on the control thread, exactly once. After stop() the decision is UNAVAILABLE.
  using DoneFn = std::function<void(const Decision& decision, const ClusterCore& core)>;
  /// Thread: the control thread. Pure.
  using CheckFn = absl::Status (*)(const Event& event, const ClusterState& state);
  using QueryFn = std::function<void(const ClusterCore& core, TimeNs now)>;
  /// `lagging` names the nodes that do not serve the table yet; empty means ready.
  using ReadyFn = std::function<void(const std::vector<std::string>& lagging)>;

  /// `state` is what `store` loaded last. Clock, hub and the metadata store must outlive the
  /// controller. Claims are proven by `probe`; without one they are taken at their word, which is for tests.
  Controller(ControllerOptions options, StateStore store, ClusterState state, const Clock& clock, MapHub& hub,
             std::unique_ptr<NodeProbe> probe = nullptr);
  /// stop().
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Publishes the first map, if it leads, and starts the thread.
  void start();

  /// Who leads now. What was decided for an earlier term is not carried out any more; the store sees to that. Applied
  /// within a tick. Thread: any.
  void set_leadership(Leadership leadership);

  /// Answers what is queued or waiting with UNAVAILABLE and joins the thread. Thread: any but the
  /// control thread. Idempotent.
  void stop();

  /// Queues an event. On an error `done` never runs: RESOURCE_EXHAUSTED at the bounds of CommandQueue, what NodeRoll
  /// says of a heartbeat or report that is not of a registered process, UNAVAILABLE after stop(). `source` is the host
  /// that it came from, for bounds by host; empty: not known. `principal` (role/name; empty: not known) asks for it: if
  /// this process leads and it is revoked when the event's turn comes, `done` gets PERMISSION_DENIED, whatever was when
  /// the call came.
  /// `check` (null: none) judges the event when its turn comes, if this process leads; its error is the decision.
  /// Thread: any.
  absl::Status submit(Event event, DoneFn done, const std::string& source = "", const std::string& principal = "",
                      CheckFn check = nullptr);

  /// Queues a look at the state. Errors and threads as for submit().
  absl::Status query(QueryFn done, std::function<void(const absl::Status&)> failed);

  /// Waits until all owners of the table serve `revision`, or until `deadline`, then runs `done`.
  /// Thread: the control thread only, that is from inside a DoneFn. At kReadyWaitersMax it does not
  /// wait.
  void when_ready(TableId table, uint64_t revision, TimeNs deadline, ReadyFn done);

  [[nodiscard]] TimeNs now_ns() const { return clock_.now_ns(); }

  /// Whether the metadata store failed at the last tick. Thread: the control thread only, that is from inside a QueryFn.
  [[nodiscard]] bool has_store_trouble() const { return tick_failed_; }

  /// What the metadata store said when it failed at the last tick or did not store a change lately; empty if it did not
  /// fail. Thread: the control thread only.
  [[nodiscard]] std::string store_trouble() const {
    return tick_failed_ || look_again_ != kTimeNever ? store_trouble_ : std::string();
  }

  /// When the control thread last went on: it does so between two commands, and at each tick. Thread: any. Waits for
  /// nothing.
  [[nodiscard]] TimeNs last_step_ns() const { return last_step_ns_.load(std::memory_order_relaxed); }

  /// Grows with every change of the map, of a node's life, or of what a node serves. Thread: any.
  [[nodiscard]] uint64_t generation() const { return generation_.load(); }

 private:
  using Command = CommandQueue::Command;
  struct ReadyWaiter {
    TableId table;
    uint64_t revision;
    TimeNs deadline;
    ReadyFn done;
  };

  absl::Status enqueue(CommandQueue::Lane lane, Command command, const std::string& source = "");
  void post_answer(uint64_t claim, ClaimAnswer answer);
  void register_node(Claim claim);
  void give_up_claims(const absl::Status& why);
  void run();
  void note_step() { last_step_ns_.store(clock_.now_ns(), std::memory_order_relaxed); }
  void apply_leadership();
  bool take_over(const Leadership& leadership);
  void follow(const Leadership& leadership);
  /// To everybody who has a copy: the roll, the hub, the status.
  void publish_state(bool nodes_changed);
  [[nodiscard]] absl::Status judge(const Event& event, const std::string& principal, CheckFn check) const;
  void execute(const Event& event, const DoneFn& done, const std::string& source);
  void hear_nodes();
  void tick();
  Decision decide(const Event& event);
  absl::Status commit(Decision& decision, bool& retry);
  absl::Status reload();
  void serve_waiters(bool give_up);
  void note(const Event& event, const Decision& decision, const std::string& source = "");
  void log(bool warning, const std::string& line) const;

  const ControllerOptions options_;
  const Clock& clock_;
  MapHub& hub_;
  NodeRoll roll_;
  std::atomic<uint64_t> generation_{1};
  std::atomic<TimeNs> last_step_ns_;

  // Owned by the control thread (by the constructing thread before start()).
  StateStore store_;
  std::optional<ClusterCore> core_;  // always there
  bool must_reload_ = false;
  /// Why this process does not lead; OK if it does.
  absl::Status not_leading_;
  /// A change was committed since the last tick: the views may have to follow at once.
  bool changed_ = false;
  /// The last tick could not reach the store; said once.
  bool tick_failed_ = false;
  /// The store's last words, while its trouble lasts.
  std::string store_trouble_;
  TimeNs next_tick_reload_ = 0;
  /// The store could not be read: until when it is not asked again, and what commands are told until then.
  TimeNs next_reload_ = 0;
  absl::Status reload_trouble_;
  /// A change of unknown outcome may come into effect after the state was read again: when to look once more.
  TimeNs look_again_ = kTimeNever;
  /// What was last logged about a store that a new leader cannot read.
  std::string take_over_trouble_;
  std::list<ReadyWaiter> waiters_;
  RefusalLog refusals_;

  std::mutex mutex_;
  std::condition_variable wake_;
  CommandQueue commands_;  // protected by mutex_
  bool stopping_ = false;  // protected by mutex_
  /// What has not been applied yet. Protected by mutex_.
  std::optional<Leadership> leadership_;
  std::thread thread_;
  /// Null without a probe. Last, because its end may still post answers.
  std::unique_ptr<ClaimDesk> claims_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROLLER_H_
