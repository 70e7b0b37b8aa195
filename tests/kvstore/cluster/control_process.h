// A control process: the production core (control/core/cluster_core.h) as its server drives it
// (control/server/controller.h), but with a store whose answers take time.
//
//    nodes --- requests ---> queue --> step --> commit --> committed --> the map, to all nodes
//                                       ^         | lost the race, or unknown
//                                       +- load <-+
//
// One request at a time, as on the control thread. Only the process that leads does any of this; the others say who
// does. What it knows beyond the store ends with the process. It is paused as a whole: then it comes back and believes
// that it leads.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_CONTROL_PROCESS_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_CONTROL_PROCESS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control/core/cluster_core.h"
#include "control/core/shard_map.h"
#include "tests/kvstore/cluster/cluster_store.h"

namespace skua::kv::sim {

using MapPtr = std::shared_ptr<const control::ShardMap>;

/// From a node, or an operator.
struct ControlRequest {
  size_t node = 0;  // its number; 0: an operator
  uint64_t life = 0;
  uint64_t number = 0;
  std::optional<control::Event> event;  // none: asks for the map
  uint64_t map_revision = 0;
};

struct ControlReply {
  uint64_t number = 0;
  size_t from = 0;
  absl::Status status;
  bool leads = false;
  size_t leader = 0;  // if it does not lead: who does, if it knows
  MapPtr map;         // null: nothing newer
};

class ControlWorld {
 public:
  virtual ~ControlWorld() = default;
  virtual void answer(size_t control, const ControlRequest& request, const ControlReply& reply) = 0;
  virtual void publish(size_t control, const MapPtr& map) = 0;
};

class ControlProcess {
 public:
  ControlProcess(SimKernel& kernel, const ClusterSimOptions& options, ClusterStore& store, ControlWorld& world,
                 size_t number)
      : kernel_(kernel), options_(options), store_(store), world_(world), number_(number) {}

  void start();
  void crash();
  void pause_until(TimeNs time) { paused_until_ = std::max(paused_until_, time); }
  [[nodiscard]] bool is_up() const { return up_; }
  [[nodiscard]] bool leads() const { return up_ && leads_; }
  [[nodiscard]] const control::ClusterCore* core() const { return up_ && core_ ? &*core_ : nullptr; }

  void on_request(const ControlRequest& request);

  /// For people.
  [[nodiscard]] std::string describe() const;

 private:
  using Done = std::function<void(const absl::Status&)>;
  struct Command {
    control::Event event;
    Done done;
  };

  /// In this life, and not while it is paused.
  void run(TimeNs at, absl::AnyInvocable<void()> then);
  /// The same for what another part calls.
  template <typename Arg>
  std::function<void(const Arg&)> here(std::function<void(const Arg&)> then);
  [[nodiscard]] TimeNs now() const { return kernel_.now() + clock_offset_; }

  void campaign();
  void take_over(uint64_t term);
  void follow();
  void tick();
  void submit(control::Event event, Done done);
  void next();
  void attempt();
  void reload();
  void committed(ClusterStore::Outcome outcome, const control::Changes& changes);
  void finish(const absl::Status& status, bool changed);
  void publish();

  SimKernel& kernel_;
  const ClusterSimOptions& options_;
  ClusterStore& store_;
  ControlWorld& world_;
  const size_t number_;

  uint64_t life_ = 0;
  bool up_ = false;
  TimeNs paused_until_ = 0;
  TimeNs clock_offset_ = 0;

  uint64_t term_ = 0;
  bool leads_ = false;
  TimeNs renewed_ns_ = 0;
  std::optional<control::ClusterCore> core_;
  bool must_reload_ = false;
  TimeNs next_reload_ = 0;
  TimeNs look_again_ = kTimeNever;
  std::deque<Command> queue_;
  bool busy_ = false;
  bool ticking_ = false;    // a Tick waits or is under way
  uint64_t operation_ = 0;  // the store's answers to earlier ones do not count
  int attempts_ = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_CONTROL_PROCESS_H_
