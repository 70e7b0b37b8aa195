#include "kvstore/shard/fetch.h"

#include <utility>

#include "kvstore/shard/engine_limits.h"
#include "kvstore/shard/shard.h"

namespace skua::kv {

void KeyFetch::run() {
  status = shard->db().get(key, value);
  if (status.ok() && value.bytes().size() > kCopiedByReaderBytes) {
    value = value.copied();
    is_copy = true;
  }
  shard->worker().events.post([this] { shard->fetched(*this); });
}

KeyFetch& FetchPool::acquire(Shard& shard, std::string_view key, MemoryTier::Ticket ticket) {
  if (free_ == nullptr) free_ = all_.emplace_back(std::make_unique<KeyFetch>()).get();
  KeyFetch& fetch = *std::exchange(free_, free_->next_free);
  fetch.shard = &shard;
  fetch.key = key;
  fetch.ticket = ticket;
  return fetch;
}

void FetchPool::release(KeyFetch& fetch) {
  fetch.shard = nullptr;
  fetch.first_read = fetch.last_read = nullptr;
  fetch.writes = {};
  fetch.for_batch = nullptr;
  fetch.status = absl::OkStatus();
  fetch.value.reset();
  fetch.is_copy = false;
  fetch.next_free = std::exchange(free_, &fetch);
}

}  // namespace skua::kv
