#include "control/server/command_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/server/controller_limits.h"

namespace skua::control {

absl::Status CommandQueue::push(Lane lane, Command command, const std::string& source) {
  const size_t waiting = of(lane).size();
  if (lane == Lane::kOthers && waiting >= kCommandsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kCommandsMax, " requests wait for the control plane. Try again later"));
  }
  if (lane == Lane::kJoining) {
    const auto from_there = by_source_.find(source);
    const size_t of_source = from_there == by_source_.end() ? 0 : from_there->second;
    if (waiting >= kJoiningMax || of_source >= kJoiningPerSourceMax) {
      return absl::ResourceExhaustedError(absl::StrCat(waiting, " registrations wait for the control plane; at most ",
                                                       kJoiningMax, ", and ", kJoiningPerSourceMax,
                                                       " from one host. Try again in a few seconds"));
    }
    if (!source.empty()) ++by_source_[source];
  }
  of(lane).push_back({std::move(command), source});
  return absl::OkStatus();
}

std::vector<CommandQueue::Command> CommandQueue::take_round() {
  std::vector<Command> round = take_nodes();
  take(Lane::kJoining, kJoiningPerRound, round);
  take(Lane::kOthers, kOthersPerRound, round);
  return round;
}

std::vector<CommandQueue::Command> CommandQueue::take_nodes() {
  std::vector<Command> nodes;
  take(Lane::kNodes, of(Lane::kNodes).size(), nodes);
  return nodes;
}

std::vector<CommandQueue::Command> CommandQueue::take_all() {
  std::vector<Command> all;
  for (const Lane lane : {Lane::kNodes, Lane::kJoining, Lane::kOthers}) take(lane, of(lane).size(), all);
  return all;
}

void CommandQueue::take(Lane lane, size_t max, std::vector<Command>& to) {
  std::deque<Waiting>& waiting = of(lane);
  for (; max > 0 && !waiting.empty(); --max) {
    const auto from_there = by_source_.find(waiting.front().source);
    const bool counted = lane == Lane::kJoining && from_there != by_source_.end();
    if (counted && --from_there->second == 0) by_source_.erase(from_there);
    to.push_back(std::move(waiting.front().command));
    waiting.pop_front();
  }
}

bool CommandQueue::empty() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane.empty(); });
}

}  // namespace skua::control
