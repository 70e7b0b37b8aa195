#include "kvstore/shard/shard_reads.h"

#include <cstddef>
#include <utility>

#include "kvstore/types/expiry.h"

namespace skua::kv {

bool ShardReads::fill(std::string_view key, const PinnedValue& value, MemoryTier::Ticket ticket) {
  const MemoryTier::Version version{
      .index = value.version(), .expiry = value.expires_at(), .dirty = false, .mark = value.mark()};
  return shard_.worker.memory->fill_from_disk(shard_.item_key(shard_.hashed(key)), value.bytes(), version, ticket);
}

void ShardReads::fetch(FetchOp& op, MemoryTier::Ticket ticket) {
  WorkerResources& worker = shard_.worker;
  op.behind = nullptr;
  op.status = absl::OkStatus();
  const auto under_way = reading_.find(op.key);
  if (under_way != reading_.end() && under_way->second->ticket == ticket) {
    KeyFetch& shared = *under_way->second;
    shared.last_read = shared.last_read->behind = &op;
    ++worker.counters.fetches_shared;
    return;
  }
  KeyFetch& fetch = worker.fetches.acquire(shard_.shard, op.key, ticket);
  fetch.first_read = fetch.last_read = &op;
  if (absl::Status submitted = worker.submit(fetch); !submitted.ok()) {
    op.status = std::move(submitted);
    return worker.events.fetch_done(op);
  }
  if (under_way != reading_.end()) reading_.erase(under_way);  // its key is a view into the other fetch
  reading_.emplace(fetch.key, &fetch);
}

/// A value that memory took is sent from memory. A value that memory did not take goes to the first read only, as a
/// copy, because the receiver may keep the value for longer than the shard is open. The other reads try again.
void ShardReads::fetched(KeyFetch& fetch, bool filled) {
  const auto under_way = reading_.find(fetch.key);
  if (under_way != reading_.end() && under_way->second == &fetch) reading_.erase(under_way);
  for (FetchOp *op = fetch.first_read, *next = nullptr; op != nullptr; op = next) {
    next = op->behind;
    op->expires_at = fetch.value.expires_at();
    if (!fetch.status.ok()) {
      op->status = fetch.status;
    } else if (is_expired(fetch.value.expires_at(), shard_.worker.now_ms)) {
      op->status = absl::NotFoundError("no such key");
    } else if (!filled && op == fetch.first_read) {
      op->value = fetch.is_copy ? std::move(fetch.value) : fetch.value.copied();
    } else {
      MemoryTier::Lookup found = shard_.get(shard_.hashed(op->key));
      if (found.found == MemoryTier::Found::kMiss) {
        this->fetch(*op, found.ticket);
        continue;
      }
      if (found.found == MemoryTier::Found::kAbsent) op->status = absl::NotFoundError("no such key");
      op->expires_at = found.expiry;
      op->value = std::move(found.value);
    }
    shard_.worker.events.fetch_done(*op);
  }
}

bool ShardReads::is_applied(AppliedWait& wait) {
  wait.status = absl::OkStatus();
  if (shard_.at.applied >= shard_.at.committed) return true;
  wait.index = shard_.at.committed;
  if (!in_vain().ok()) {
    wait.status = in_vain();
    shard_.worker.events.applied(wait);
    return false;
  }
  waits_.push_back(&wait);
  shard_.worker.applier->hurry(shard_.applied);
  return false;
}

void ShardReads::note_applied() {
  for (size_t i = 0; i < waits_.size();) {
    AppliedWait& wait = *waits_[i];
    const bool shown = wait.index <= shard_.at.applied;
    if (!shown && in_vain().ok()) {
      ++i;
      continue;
    }
    if (!shown) wait.status = in_vain();
    waits_.erase(waits_.begin() + static_cast<std::ptrdiff_t>(i));
    shard_.worker.events.applied(wait);
  }
}

}  // namespace skua::kv
