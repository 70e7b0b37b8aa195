// OpenAppends: the Appends from primaries that are not answered yet. Each is answered when its entries are as safe as
// each of them asks for.
#ifndef SKUA_KVSTORE_WORKER_OPEN_APPENDS_H_
#define SKUA_KVSTORE_WORKER_OPEN_APPENDS_H_

#include <compare>
#include <cstdint>
#include <deque>
#include <map>

#include "absl/functional/function_ref.h"
#include "kvstore/peers/peer_links.h"
#include "kvstore/service/shard_server.h"

namespace skua::kv {

/// A peer's replica of a shard.
struct RemoteReplica {
  ShardId shard{};
  NodeId node = 0;
  friend auto operator<=>(const RemoteReplica&, const RemoteReplica&) = default;
};

struct OpenAppend {
  uint64_t last = 0;
  uint64_t epoch = 0;
  bool syncs = true;
  rpc::ReplyToken reply;

  [[nodiscard]] bool is_reached(const LogLevels& levels) const {
    return last <= (syncs ? levels.durable : levels.written);
  }
};

/// Thread: the worker's. `links` must outlive this object.
class OpenAppends {
 public:
  explicit OpenAppends(PeerLinks& links) : links_(links) {}

  /// Beyond a limit the Append is answered at once, without content. Then its AppendReply goes as a message of its own.
  void add(const RemoteReplica& sender, OpenAppend&& append);
  /// Answers the Appends that `reply` covers. True: a response carried `reply`, so it needs no message.
  [[nodiscard]] bool answer(const RemoteReplica& sender, const ReplicaEnvelope& envelope, const AppendReply& reply);
  /// Answers all Appends of these senders, without content.
  void end(absl::FunctionRef<bool(const RemoteReplica&)> of);
  /// Ends Appends that no AppendReply will answer: their sender does not lead the shard; they are of another epoch (a
  /// new epoch's primary learns the end of the log by a TailReport); or the log does not have their entries.
  void end_vain(const HeldShards& shards);

 private:
  PeerLinks& links_;
  std::map<RemoteReplica, std::deque<OpenAppend>> appends_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_WORKER_OPEN_APPENDS_H_
