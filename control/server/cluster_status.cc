#include "control/server/cluster_status.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "control/core/cluster_progress.h"
#include "control/core/text.h"
#include "control/proto/convert.h"
#include "control/server/controller_limits.h"

namespace skua::control {

void fill(v1::TableInfo& to, const Table& table, const ClusterCore& core) {
  to.set_id(table.id);
  to.set_name(table.name);
  to.set_shard_count(table.shard_count);
  to.set_available_shard_count(available_shard_count(core.context(), table.id));
  to.set_replicas(table.replicas);
  to.set_min_insync(table.min_insync);
  to.set_read_anywhere(table.read_anywhere);
  to.set_hash_tags(table.hash_tags);
  to.set_settled_shard_count(settled_shard_count(core.context(), table.id));
}

StatusDesk::StatusDesk(Controller& controller, MapHub& hub, ProgramSecurity security,
                       std::vector<TroubleFn> own_troubles)
    : controller_(controller),
      hub_(hub),
      security_(security),
      own_troubles_(std::move(own_troubles)),
      started_ns_(controller.now_ns()),
      board_([this] { return make(board_, &StatusDesk::fill_all); }),
      tables_([this] { return make(tables_, &StatusDesk::fill_tables); }) {}

void StatusDesk::ask(StatusBoard::AnswerFn answer) {
  board_.ask(controller_.now_ns(), controller_.generation(), std::move(answer));
}

void StatusDesk::ask_tables(StatusBoard::AnswerFn answer) {
  tables_.ask(controller_.now_ns(), controller_.generation(), std::move(answer));
}

absl::Status StatusDesk::make(StatusBoard& board, FillFn fill) {
  return controller_.query(
      [this, &board, fill](const ClusterCore& core, TimeNs now) {
        auto reply = std::make_shared<v1::GetStatusReply>();
        (this->*fill)(core, now, *reply);
        board.post(std::move(reply), now, controller_.generation());
      },
      [this, &board](const absl::Status& status) {
        board.post(status, controller_.now_ns(), controller_.generation());
      });
}

void StatusDesk::fill_tables(const ClusterCore& core, TimeNs /*now*/, v1::GetStatusReply& reply) const {
  reply.set_map_revision(core.state().map_revision);
  for (const auto& [id, table] : core.state().tables) fill(*reply.add_tables(), table, core);
}

void StatusDesk::fill_all(const ClusterCore& core, TimeNs now, v1::GetStatusReply& reply) const {
  fill_tables(core, now, reply);
  reply.set_cluster_id(core.state().cluster_id);
  reply.set_cluster_name(core.state().cluster_name);
  *reply.mutable_versions() = to_proto(kProtocolVersions);
  reply.set_uptime_ms(static_cast<uint64_t>((now - started_ns_) / kMillisecond));
  reply.set_anonymous_watcher_count(static_cast<uint32_t>(hub_.anonymous_watcher_count()));
  reply.set_watcher_count(static_cast<uint32_t>(hub_.watcher_count()));
  *reply.mutable_security() = to_proto(security_);
  const std::map<std::string, ShardCounts> counts = core.state().shard_counts();
  for (const auto& [uuid, node] : core.state().nodes) {
    const auto status = core.node_status(uuid).value_or(NodeStatus{});
    v1::NodeStatus& added = *reply.add_nodes();
    *added.mutable_node() = to_proto(node);
    // By it the node is known to be the one that registered: nobody else's business.
    added.mutable_node()->clear_instance();
    added.set_liveness(to_proto(status.liveness));
    added.set_silent_ms(static_cast<uint64_t>((now - status.heard_ns) / kMillisecond));
    added.set_applied_revision(status.applied_revision);
    added.set_trouble(trouble_of(status));
    *added.mutable_security() = to_proto(status.security);
    for (const CopyReport& copy : status.copies) *added.add_copies() = to_proto(copy);
    const auto counted = counts.find(uuid);
    const ShardCounts shards = counted == counts.end() ? ShardCounts{} : counted->second;
    added.set_owned_shard_count(static_cast<uint32_t>(shards.owned));
    added.set_staying_shard_count(static_cast<uint32_t>(shards.staying));
    added.set_replica_count(static_cast<uint32_t>(shards.replicas));
    added.set_drain_progress(drain_progress(core.context(), uuid));
    size_t whys = 0;
    for (const auto& [shard, why] : status.unserved) {
      *added.add_unserved() = to_proto(ShardRef{shard, whys++ < kUnservedWhysShownMax ? why : std::string()});
    }
  }
  for (const TroubleFn& own : own_troubles_) {
    if (const std::string trouble = own(); !trouble.empty()) {
      reply.add_troubles(absl::StrCat("the control plane: ", trouble));
    }
  }
  if (const std::string words = controller_.store_trouble(); !words.empty()) {
    reply.add_troubles(
        absl::StrCat("the control plane: its metadata store takes no changes: ", cut_text(words, kTroubleBytesMax),
                     ". Until it does, views stay as they are, nodes cannot register, and a node that dies holds up "
                     "its shards. Make "
                     "room on the disk of the store or mend it; with etcd, see that most of its members run"));
  }
  for (const std::string& trouble : core.stranger_troubles()) reply.add_troubles(trouble);
  for (const std::string& trouble : shard_troubles(core.context(), kTroublesShownMax)) reply.add_troubles(trouble);
  for (const std::string& hint : hints(core.context(), kHintsShownMax)) reply.add_hints(hint);
}

}  // namespace skua::control
