#include "control/core/doubts.h"

#include <algorithm>
#include <tuple>

#include "control/core/view_context.h"

namespace skua::control {

bool Doubts::note(const ViewContext& context, const std::string& sender, const Doubt& doubt) {
  const auto found = context.state.shards.find(doubt.shard.shard);
  if (found == context.state.shards.end()) return false;
  const ShardRecord& record = found->second;
  const Replica* member = find_member(record, sender);
  if (member == nullptr || !context.valid(*member)) return false;
  if (std::max(doubt.shard.epoch, doubt.last_epoch) > record.epoch) return false;
  OfShard& of_shard = shards_.try_emplace(found->first, OfShard{record.fork, 0, 0, {}}).first->second;
  match_fork(context, record, of_shard);
  if (doubt.shard.epoch < of_shard.fork_epoch) return false;

  const auto [place, is_new] = of_shard.nodes.try_emplace(sender);
  Said& said = place->second;
  const uint64_t process = context.node(sender)->incarnation;
  const bool begins = is_new || said.process != process || is_over(context, sender, said);
  const bool differs = begins || said.epoch != doubt.shard.epoch || said.last_epoch != doubt.last_epoch ||
                       said.last_index != doubt.last_index;
  said = {begins ? context.now : said.first,
          context.now,
          context.now,
          process,
          doubt.shard.epoch,
          doubt.last_epoch,
          doubt.last_index};
  return differs;
}

void Doubts::note_return(const std::string& uuid, TimeNs now) {
  for (auto& [shard, of_shard] : shards_) {
    const auto said = of_shard.nodes.find(uuid);
    if (said != of_shard.nodes.end()) said->second.expected = now;
  }
}

void Doubts::prune(const ViewContext& context) {
  std::erase_if(shards_, [&](const auto& entry) { return !context.state.shards.contains(entry.first); });
  for (auto& [shard, of_shard] : shards_) {
    const ShardRecord& record = context.state.shards.at(shard);
    match_fork(context, record, of_shard);
    std::erase_if(of_shard.nodes, [&](const auto& said) {
      const Replica* member = find_member(record, said.first);
      return member == nullptr || !context.valid(*member) || is_over(context, said.first, said.second);
    });
  }
  // Shards with a fork are kept, because doubts from before the fork may still arrive.
  std::erase_if(shards_, [](const auto& entry) { return entry.second.nodes.empty() && entry.second.fork_epoch == 0; });
}

bool Doubts::contains(const ViewContext& context, const ShardRecord& record, const std::string& uuid) const {
  return find(context, record, uuid) != nullptr;
}

std::optional<std::string> Doubts::longest_of_all(const ViewContext& context, const ShardRecord& record) const {
  const auto of_shard = shards_.find({record.table_id, record.shard});
  if (of_shard == shards_.end()) return std::nullopt;
  // After a fork its only member gets time to learn of it and to end its doubt.
  const bool just_forked =
      of_shard->second.fork_epoch != 0 && context.now - of_shard->second.forked_at < context.options.accusation_ttl_ns;
  if (just_forked) return std::nullopt;
  std::optional<std::string> longest;
  std::tuple<uint64_t, uint64_t> end;
  TimeNs all_began = 0;
  TimeNs all_repeated = kTimeNever;
  for (const Replica& member : members_of(record)) {
    const std::string& uuid = member.node_uuid;
    const Said* said = find(context, record, uuid);
    if (said == nullptr || !context.valid(member) || !context.serves(record, uuid)) return std::nullopt;
    // The primary may have been chosen in a fork and may not know the new epoch yet. So its doubt may be an old one.
    if (is_primary(record, uuid) && said->epoch < record.epoch) return std::nullopt;
    all_began = std::max(all_began, said->first);
    all_repeated = std::min(all_repeated, said->last);
    const std::tuple its_end(said->last_epoch, said->last_index);
    if (longest && (its_end < end || (its_end == end && *longest < uuid))) continue;
    longest = uuid;
    end = its_end;
  }
  return all_repeated < all_began ? std::nullopt : longest;
}

void Doubts::match_fork(const ViewContext& context, const ShardRecord& record, OfShard& of_shard) {
  if (of_shard.fork != record.fork) of_shard = {record.fork, record.epoch, context.now, {}};
}

bool Doubts::is_over(const ViewContext& context, const std::string& uuid, const Said& said) {
  return context.status(uuid).heard_ns - said.expected > context.options.accusation_ttl_ns;
}

const Doubts::Said* Doubts::find(const ViewContext& context, const ShardRecord& record, const std::string& uuid) const {
  const auto of_shard = shards_.find({record.table_id, record.shard});
  if (of_shard == shards_.end() || of_shard->second.fork != record.fork) return nullptr;
  const auto said = of_shard->second.nodes.find(uuid);
  return said == of_shard->second.nodes.end() || is_over(context, uuid, said->second) ? nullptr : &said->second;
}

}  // namespace skua::control
