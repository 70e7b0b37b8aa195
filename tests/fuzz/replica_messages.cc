#include "tests/fuzz/replica_messages.h"

#include <vector>

namespace skua::kv::fuzz {
namespace {

TimeNs near_time(FuzzInput& in, TimeNs time) {
  return static_cast<TimeNs>(in.near(static_cast<uint64_t>(time)));
}

LogLevels make_levels(FuzzInput& in, uint64_t last) {
  const uint64_t level = in.near(last);
  if (in.flag()) return {level, level, level};
  return {level, in.near(last), in.near(last)};
}

EpochHistory make_runs(FuzzInput& in, uint64_t epoch, uint64_t last) {
  const EntryId base = in.flag() ? EntryId{} : EntryId{in.near(last), in.near(epoch)};
  std::vector<EntryId> runs;
  for (size_t i = in.pick(4); i > 0; --i) runs.push_back({in.near(last), in.near(epoch)});
  return EpochHistory::from_parts(base, runs, in.near(last)).value_or(EpochHistory());
}

View make_view(FuzzInput& in, View view) {
  view.epoch = in.near(view.epoch);
  view.change = in.near(view.change);
  if (in.seldom()) view.primary = in.near(view.primary);
  if (in.seldom()) view.members.clear();
  if (in.seldom() && !view.members.empty()) view.members.back().incarnation = in.near(1);
  view.read_anywhere = in.flag();
  return view;
}

Append make_append(FuzzInput& in, uint64_t epoch, uint64_t last) {
  Append append;
  append.epoch = in.near(epoch);
  append.prev = {in.near(last), in.near(epoch)};
  append.commit_index = in.near(last);
  append.acknowledge_received = in.flag();
  for (size_t i = in.pick(5); i > 0; --i) append.epochs.push_back(in.near(epoch));
  return append;
}

}  // namespace

ReplicaMessage make_message(FuzzInput& in, const View& view, uint64_t last, TimeNs sent_ns) {
  const uint64_t epoch = view.epoch;
  switch (in.pick(14)) {
    case 0: return StartView{make_view(in, view)};
    case 1:
      return TailReport{in.near(epoch), make_runs(in, epoch, last), make_levels(in, last), in.near(last), in.near(0)};
    case 2: return AppendReply{in.near(epoch), make_levels(in, last)};
    case 3: return Heartbeat{in.near(epoch), near_time(in, sent_ns), in.near(last)};
    case 4: return HeartbeatReply{in.near(epoch), near_time(in, sent_ns), in.flag(), make_levels(in, last)};
    case 5: return Confirm{in.near(epoch), in.near(1)};
    case 6: return ConfirmReply{in.near(epoch), in.near(1)};
    case 7: return Release{in.near(epoch)};
    case 8: return SnapshotNeeded{in.near(epoch)};
    case 9: return StaleEpoch{make_view(in, view)};
    case 10: return Restored{in.near(epoch), in.near(0)};
    default: return make_append(in, epoch, last);
  }
}

}  // namespace skua::kv::fuzz
