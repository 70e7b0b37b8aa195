#include "tests/kvstore/replication/oracle.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace skua::kv::sim {

Oracle::Oracle(SimKernel& kernel, size_t shards, size_t keys) : kernel_(kernel), shards_(shards) {
  for (Shard& shard : shards_) {
    shard.state = ShardState(keys);
    shard.shown.resize(keys);
  }
}

// --- Views

void Oracle::view_decided(size_t shard, const View& view) {
  Shard& at = shards_[shard];
  const View& before = at.last_view;
  if (view.fork != before.fork) at.is_forked = true;
  if (before.epoch != 0 && view.epoch != before.epoch && view.epoch != before.epoch + 1) {
    kernel_.break_promise(absl::StrFormat("I1: epoch %d follows %d", view.epoch, before.epoch));
  }
  if (before.epoch != 0 && view.epoch == before.epoch + 1 && view.fork == before.fork) {
    for (const ReplicaId& id : view.members) {
      if (id.node != view.primary) continue;
      if (!before.is_member(id)) kernel_.break_promise("I7: a primary that was not a member");
    }
  }
  at.last_view = view;
  at.views[{view.epoch, view.change}] = view;
}

void Oracle::view_told(size_t shard, const View& view) {
  const auto& views = shards_[shard].views;
  const auto found = views.find({view.epoch, view.change});
  if (found == views.end() || !(found->second == view)) {
    kernel_.break_promise(absl::StrFormat("I1: shard %d: a view that was not decided: epoch %d change %d", shard,
                                          view.epoch, view.change));
  }
}

// --- Logs

void Oracle::appended(size_t shard, uint64_t index, uint64_t previous_epoch, const LogEntry& entry) {
  if (shards_[shard].is_forked) return;
  auto& logs = shards_[shard].logs;
  if (logs.size() < index) logs.resize(index);
  for (const Known& known : logs[index - 1]) {
    if (known.entry.epoch != entry.epoch) continue;
    if (known.entry == entry && known.previous_epoch == previous_epoch) return;
    kernel_.break_promise(absl::StrFormat("I3: shard %d: two entries %d of epoch %d", shard, index, entry.epoch));
    return;
  }
  logs[index - 1].push_back({entry, previous_epoch});
}

bool Oracle::committed(size_t shard, uint64_t index, const LogEntry& entry, bool by_primary) {
  Shard& at = shards_[shard];
  if (at.is_forked) return false;
  if (index <= at.committed.size()) {
    if (!(at.committed[index - 1] == entry)) {
      kernel_.break_promise(absl::StrFormat("shard %d: entry %d is committed twice: of epoch %d and of epoch %d", shard,
                                            index, at.committed[index - 1].epoch, entry.epoch));
    }
    return false;
  }
  if (!by_primary) {
    kernel_.break_promise(absl::StrFormat("I5: shard %d: entry %d is committed at a backup first", shard, index));
  }
  if (index != at.committed.size() + 1) kernel_.break_promise("a gap in what is committed");
  if (entry.request.client != 0) {
    // Of several that a client gave up, a later one may be executed first.
    const auto [before, first] = at.executed.try_emplace({entry.request.client, entry.request.seq}, index);
    if (!first) {
      kernel_.break_promise(absl::StrFormat("I9: shard %d: request %d/%d is executed at %d and at %d", shard,
                                            entry.request.client, entry.request.seq, before->second, index));
    }
  }
  at.committed.push_back(entry);
  at.state.apply(index, entry, false);
  at.hashes.push_back(at.state.hash());
  at.contents.push_back(at.state.contents());
  return true;
}

void Oracle::truncated(size_t shard, uint64_t index, const LogEntry& entry) {
  const Shard& at = shards_[shard];
  if (at.is_forked || index > at.committed.size() || !(at.committed[index - 1] == entry)) return;
  kernel_.break_promise(
      absl::StrFormat("I4: shard %d: entry %d of epoch %d is committed and dropped", shard, index, entry.epoch));
}

void Oracle::applied(size_t shard, const ShardState& state) {
  const Shard& at = shards_[shard];
  if (state.applied() == 0 || at.is_forked) return;
  if (state.applied() > at.hashes.size() || at.hashes[state.applied() - 1] != state.hash()) {
    kernel_.break_promise(
        absl::StrFormat("I12: shard %d: a state that is not what its log makes up to %d", shard, state.applied()));
  }
}

void Oracle::found(size_t shard, uint64_t index, uint64_t contents, const char* where) {
  const Shard& at = shards_[shard];
  if (at.is_forked || (index == 0 && contents == 0)) return;
  if (index == 0 || index > at.contents.size() || at.contents[index - 1] != contents) {
    kernel_.break_promise(
        absl::StrFormat("I12: shard %d: %s has up to %d what its log does not make", shard, where, index));
  }
}

Durability Oracle::level_of(size_t shard, uint64_t index, Durability of_writes) const {
  return shards_[shard].committed[index - 1].request.client == 0 ? Durability::kSync : of_writes;
}

// --- What clients were told

void Oracle::shown(size_t shard, uint32_t key, uint64_t version) {
  uint64_t& last = shards_[shard].shown[key];
  last = std::max(last, version);
}

void Oracle::read_served(size_t shard, uint32_t key, uint64_t version, uint64_t shown_before, const char* how) {
  if (version < shown_before && !shards_[shard].is_forked) {
    kernel_.break_promise(
        absl::StrFormat("I8: shard %d: a %s read shows version %d of key %d after version %d was shown", shard, how,
                        version, key, shown_before));
  }
  shown(shard, key, version);
}

void Oracle::acknowledged(size_t shard, uint64_t index) {
  if (index > shards_[shard].committed.size() && !shards_[shard].is_forked) {
    kernel_.break_promise(absl::StrFormat("shard %d: entry %d is acknowledged before it is committed", shard, index));
  }
}

}  // namespace skua::kv::sim
