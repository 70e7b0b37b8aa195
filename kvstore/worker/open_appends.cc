#include "kvstore/worker/open_appends.h"

#include <cstddef>
#include <iterator>
#include <utility>

namespace skua::kv {
namespace {

/// Of one peer and shard.
constexpr size_t kOpenAppendsMax = 64;

}  // namespace

void OpenAppends::add(const RemoteReplica& sender, OpenAppend&& append) {
  std::deque<OpenAppend>& appends = appends_[sender];
  if (appends.size() >= kOpenAppendsMax) return append.reply.reply(links_.make_message());
  appends.push_back(std::move(append));
}

bool OpenAppends::answer(const RemoteReplica& sender, const ReplicaEnvelope& envelope, const AppendReply& reply) {
  const auto open = appends_.find(sender);
  if (open == appends_.end()) return false;
  std::deque<OpenAppend>& appends = open->second;
  bool carried = false;
  while (!appends.empty() && appends.front().is_reached(reply.levels)) {
    rpc::ReplyToken token = std::move(appends.front().reply);
    appends.pop_front();
    // The last Append carries the reply: it has waited least, and the levels cover all of them.
    const bool last = appends.empty() || !appends.front().is_reached(reply.levels);
    rpc::MessagePtr frame = last ? links_.make_frame(envelope, reply) : links_.make_message();
    carried = carried || last;
    token.reply(frame ? std::move(frame) : links_.make_message());
  }
  return carried;
}

void OpenAppends::end(absl::FunctionRef<bool(const RemoteReplica&)> of) {
  for (auto& [sender, appends] : appends_) {
    if (!of(sender)) continue;
    for (OpenAppend& append : appends) append.reply.reply(links_.make_message());
    appends.clear();
  }
}

void OpenAppends::end_vain(const HeldShards& shards) {
  for (auto it = appends_.begin(); it != appends_.end();) {
    auto& [sender, appends] = *it;
    const Replica* const replica = shards.replica(sender.shard);
    const bool follows = replica != nullptr && replica->view().primary == sender.node;
    const uint64_t last = follows ? replica->last_index() : 0;
    std::erase_if(appends, [&](OpenAppend& append) {
      if (follows && append.last <= last && append.epoch == replica->view().epoch) return false;
      append.reply.reply(links_.make_message());
      return true;
    });
    it = appends.empty() ? appends_.erase(it) : std::next(it);
  }
}

}  // namespace skua::kv
