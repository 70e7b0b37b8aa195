// What waits for the control thread, in three lanes, so that one kind of traffic does not starve another:
//
//     nodes     heartbeats, reports, and answers to claims      all of them, each round and before silence is looked for
//     joining   registrations and leaves                        kJoiningPerRound of them
//     others    tables, operators' wishes, looks at the state   kOthersPerRound of them
//
// The lane of nodes has no bound here: what comes in is bounded by who sends it (NodeRoll, ClaimDesk).
#ifndef SKUA_CONTROL_SERVER_COMMAND_QUEUE_H_
#define SKUA_CONTROL_SERVER_COMMAND_QUEUE_H_

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace skua::control {

/// Thread: none of its own; the caller's lock.
class CommandQueue {
 public:
  enum class Lane { kNodes, kJoining, kOthers };
  /// `stopping`: say UNAVAILABLE instead of running.
  using Command = std::function<void(bool stopping)>;

  /// RESOURCE_EXHAUSTED at the lane's bound, or at that of `source` (a host; empty: not counted).
  absl::Status push(Lane lane, Command command, const std::string& source = "");

  /// What is to run in one round, nodes first.
  [[nodiscard]] std::vector<Command> take_round();
  /// The lane of nodes, as far as it is.
  [[nodiscard]] std::vector<Command> take_nodes();
  [[nodiscard]] std::vector<Command> take_all();

  [[nodiscard]] bool empty() const;

 private:
  struct Waiting {
    Command command;
    std::string source;
  };

  void take(Lane lane, size_t max, std::vector<Command>& to);
  [[nodiscard]] std::deque<Waiting>& of(Lane lane) { return lanes_[static_cast<size_t>(lane)]; }

  std::array<std::deque<Waiting>, 3> lanes_;
  /// In the joining lane.
  std::map<std::string, size_t> by_source_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_COMMAND_QUEUE_H_
