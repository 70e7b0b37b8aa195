// What the oracle and the world see of a node.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/effect.h"
#include "tests/kvstore/cluster/cluster_node.h"

namespace skua::kv::sim {

LogEntry ClusterNode::entry_of(const ReplicaEntry& entry) const {
  LogEntry out;
  out.epoch = entry.epoch;
  EffectReader reader(entry.payload);
  if (reader.completion()) {
    out.request = {reader.completion()->id.client_id, reader.completion()->id.seq};
    out.result = reader.completion()->value;
  }
  while (const auto effect = reader.next()) {
    out.has_effect = true;
    out.key = key_number(effect->key);
    out.value = effect->value ? value_number(as_string_view(*effect->value)) : 0;
  }
  return out;
}

void ClusterNode::observe_all() {
  for (size_t shard = 0; shard < options_.shards; ++shard) observe(shard);
}

void ClusterNode::observe(size_t shard) {
  const HeldShard* const held = serving(shard);
  if (held == nullptr || !engine().log_health().ok()) return;
  Seen& seen = seen_[shard];
  const Replica& replica = held->replica->replica();
  const uint64_t last = held->shard->indices().last;
  if (seen.epoch != replica.view().epoch) {
    seen.epoch = replica.view().epoch;
    seen.last = std::min(seen.last, seen.commit);  // what is behind it may have been replaced
  }
  seen.last = std::min(seen.last, last);
  while (seen.last < last) {
    const uint64_t index = ++seen.last;
    const Entry* const entry = held->shard->entries().find(index);
    const auto previous = replica.log().epoch_of(index - 1);
    if (entry != nullptr && (previous || index == 1)) {
      oracle_.appended(shard, index, previous.value_or(0), entry_of(entry->view()));
    }
  }
  while (seen.commit < replica.commit_index()) {
    const uint64_t index = ++seen.commit;
    const Entry* const entry = held->shard->entries().find(index);
    if (entry != nullptr) world_.entry_committed(shard, index, entry_of(entry->view()), replica);
  }
}

const ShardReplica* ClusterNode::replica(size_t shard) const {
  const HeldShard* const held = serving(shard);
  return held == nullptr ? nullptr : held->replica.get();
}

bool ClusterNode::has_data(size_t shard) const {
  const HeldShard* const held = serving(shard);
  return held != nullptr && engine().log_health().ok() && held->shard->health().ok();
}

bool ClusterNode::has_received(size_t shard, EntryId entry) const {
  const EpochHistory& log = replica(shard)->replica().log();
  return entry.index <= log.base().index || log.epoch_of(entry.index) == entry.epoch;
}

bool ClusterNode::has_damaged() const {
  const ShardViews views = durable_views();
  return std::ranges::any_of(refused_, [&](const auto& refused) {
    const auto known = views.find(refused.first);
    return known != views.end() && known->second.mentions(replica_id());
  });
}

bool ClusterNode::holds(size_t shard, EntryId entry, Durability level) const {
  const EpochHistory& log = replica(shard)->replica().log();
  if (entry.index <= log.base().index) return true;
  const ShardIndices& levels = serving(shard)->shard->indices();
  return log.epoch_of(entry.index) == entry.epoch &&
         (level == Durability::kSync ? levels.synced : levels.written) >= entry.index;
}

bool ClusterNode::is_doubtful(size_t shard) const {
  return replica(shard) != nullptr && replica(shard)->replica().is_doubtful();
}

uint64_t ClusterNode::contents_of(const Database& database) {
  uint64_t contents = 0;
  for (const auto& [key, row] : database.rows()) {
    const uint32_t number = key_number(key);
    contents ^= Item{value_number(row.value), row.version}.hash(number);
  }
  return contents;
}

std::string ClusterNode::describe(size_t shard) const {
  std::string out = absl::StrCat("node ", number_, up_ ? "" : " is down");
  if (!up_) return out;
  if (!engine().log_health().ok()) absl::StrAppend(&out, ", log: ", engine().log_health().message());
  const HeldShard* const held = serving(shard);
  if (held == nullptr) return out;
  const Replica& replica = held->replica->replica();
  absl::StrAppend(&out, ": ", replica_role_name(replica.role()), " epoch ", replica.view().epoch, ".",
                  replica.view().change, " last ", replica.last_index(), " commit ", replica.commit_index(),
                  " applied ", held->shard->indices().committed, " base ", replica.log().base().index, " written ",
                  held->shard->indices().written, " synced ", held->shard->indices().synced,
                  held->replica->is_serving() ? " serving" : "", replica.is_doubtful() ? " in doubt" : "");
  const PeerLinksCounters& links = worker_->links();
  absl::StrAppend(&out, "; links: ", links.messages_sent, " sent, ", links.dropped_unknown, " unknown, ",
                  links.dropped_down, " down, ", links.dropped_full, " full, ", links.dropped_refused, " refused, ",
                  links.requests_failed, " failed; ", links.messages_received, " received, ", links.refused_unknown,
                  " of unknown, ", links.refused_incarnation, " of other lives, ", links.refused_unproven,
                  " unproven; ", links.sessions_opened, " opened, ", links.sessions_lost, " lost, ",
                  links.open_failures, " not opened");
  if (!held->shard->health().ok()) {
    absl::StrAppend(&out, ", ", held->shard->health().message());
  }
  for (const ReplicaId& member : replica.view().members) {
    if (const auto levels = replica.peer_levels(member.node)) {
      absl::StrAppend(&out, " [", member.node >> 32, ": ", levels->received, " ", levels->durable, "]");
    }
  }
  return out;
}

/// Of the process that ends.
void ClusterNode::count_probes() const {
  const WorkerStats stats = worker_->server().stats();
  const auto& gets = stats.requests.answers[static_cast<size_t>(Method::kGet)];
  if (stats.requests.backup_reads > 0) kernel_.hit(Probe::kBackupRead);
  if (stats.storage.fetches > 0) kernel_.hit(Probe::kReadFromDisk);
  if (gets[static_cast<size_t>(KvStatus::kUnavailable)] > 0) kernel_.hit(Probe::kDirtyBackupRead);
}

}  // namespace skua::kv::sim
