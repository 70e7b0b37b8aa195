#include "kvstore/service/pending_request.h"

#include <algorithm>
#include <utility>

#include "kvstore/memory/prefetch.h"
#include "kvstore/service/held_shards.h"
#include "kvstore/service/service_limits.h"
#include "rpc/base/check.h"

namespace skua::kv {

bool MultiGetPage::look_up(WorkerEngine& engine, const Shard& shard, const StringList& keys) {
  release();
  item_keys.clear();
  for (const std::string_view key : keys) {
    item_keys.push_back(shard.item_key(key));
    engine.expect(item_keys.back());
  }
  in_memory.resize(item_keys.size());
  engine.get_batch(item_keys, in_memory);
  size_t total = 0;
  bool all = true;
  for (const MemoryTier::Lookup& lookup : in_memory) {
    all = all && lookup.found != MemoryTier::Found::kMiss;
    total += lookup.value.bytes().size();
  }
  return all && total <= kMultiGetPollingBytesMax;
}

absl::Status MultiGetPage::read_missing(ShardDb& db, const StringList& keys) {
  from_disk.resize(in_memory.size());
  unread_from = in_memory.size();
  size_t total = 0;
  for (const MemoryTier::Lookup& lookup : in_memory) total += lookup.value.bytes().size();
  size_t i = 0;
  for (const std::string_view key : keys) {
    const size_t at = i++;
    if (in_memory[at].found != MemoryTier::Found::kMiss) continue;
    if (total >= kBatchBytesMax) {
      unread_from = at;
      break;
    }
    absl::Status got = db.get(key, from_disk[at]);
    if (!got.ok() && !absl::IsNotFound(got)) return got;
    total += from_disk[at].bytes().size();
    if (total > kBatchBytesMax) {
      from_disk[at].reset();
      unread_from = at;
      break;
    }
  }
  return absl::OkStatus();
}

void MultiGetPage::build(uint64_t now_ms) {
  const size_t head_bytes = multi_get_reply_head_bytes(in_memory.size(), wishes.marks);
  entries.clear();
  bytes.assign(head_bytes, '\0');
  const size_t value_bytes_max = wishes.memory_only ? kMultiGetPollingBytesMax : kBatchBytesMax;
  constexpr size_t kAhead = MemoryTier::kValuesAhead;
  for (size_t i = 0; i < in_memory.size(); ++i) {
    if (i + kAhead < in_memory.size()) prefetch_bytes(in_memory[i + kAhead].value.bytes());
    const bool is_miss = in_memory[i].found == MemoryTier::Found::kMiss;
    const PinnedValue& value = is_miss && !from_disk.empty() ? from_disk[i] : in_memory[i].value;
    MultiGetEntry entry;
    const bool is_unread = is_miss && (wishes.memory_only || i >= unread_from);
    entry.status = is_unread ? KvStatus::kResourceExhausted : KvStatus::kNotFound;
    if (value.version() != 0 && !is_expired(value.expires_at(), now_ms)) {
      entry.status = KvStatus::kOk;
      entry.version = value.version();
      entry.mark = value.mark();
      if (bytes.size() - head_bytes + value.bytes().size() <= value_bytes_max) {
        entry.value = value.bytes();
        bytes.append(as_string_view(value.bytes()));
      } else {
        entry.status = KvStatus::kResourceExhausted;
      }
    }
    entries.push_back(entry);
  }
  // The entries point into the buffer only now, because the buffer moved while it grew.
  ByteSpan rest = as_byte_span(bytes).subspan(head_bytes);
  for (MultiGetEntry& entry : entries) {
    const size_t size = entry.value.size();
    entry.value = rest.first(size);
    rest = rest.subspan(size);
  }
}

void MultiGetPage::let_go(Shard& shard, const StringList& keys) {
  if (!from_disk.empty()) {
    size_t i = 0;
    for (const std::string_view key : keys) {
      const size_t at = i++;
      if (from_disk[at].version() != 0) shard.reads().fill(key, from_disk[at], in_memory[at].ticket);
    }
  }
  release();
}

void MultiGetPage::release() {
  in_memory.clear();
  from_disk.clear();
}

ByteSpan MultiGetPage::finish(const ReplyHead& head) {
  static_cast<void>(encode_multi_get_reply_head(
      head, entries, std::as_writable_bytes(std::span(bytes.data(), bytes.size())), wishes.marks));
  return as_byte_span(bytes);
}

void PendingRequest::run() {
  if (is_late()) {
    status = absl::DeadlineExceededError("the deadline passed while the request waited for a reader");
  } else if (method == Method::kScan) {
    run_scan();
  } else {
    status = multi_get.read_missing(shard->shard->db(), keys);
    if (status.ok()) multi_get.build(now_ms);
  }
  service->read_done(*this);
}

size_t PendingRequest::result_bytes() const {
  switch (method) {
    case Method::kGet: return fetch.value.bytes().size();
    case Method::kMultiGet: return multi_get.bytes.size();
    case Method::kScan: return page->size();
    default: return 0;
  }
}

void PendingRequest::run_scan() {
  auto range = key_range_of(scan);
  if (!range.ok()) {
    status = range.status();
    return;
  }
  range->now_ms = now_ms;
  const auto stop = [this] { return is_late(); };
  range->stop.emplace(stop);
  if (page == nullptr) page = std::make_unique<ScanReplyBuilder>(scan.rows_max, scan.bytes_max);
  page->reset(scan.rows_max, scan.bytes_max, scan.wants_marks);
  const auto end = shard->shard->db().scan(*range, [this](const ScanRow& row) {
    if (scan.count_only) return page->count(row);
    return scan.keys_only ? page->add_key(row) : page->add(row);
  });
  status = end.status();
  has_more = end.ok() && end->has_more;
}

PendingRequestPool::~PendingRequestPool() {
  SKUA_CHECK(in_use_count_ == 0, "pending requests must come back before their server goes");
}

PendingRequest* PendingRequestPool::acquire() {
  if (free_ == nullptr) {
    if (all_.size() >= pending_max_) return nullptr;
    all_.push_back(std::make_unique<PendingRequest>());
    free_ = all_.back().get();
  }
  ++in_use_count_;
  return std::exchange(free_, free_->next);
}

void PendingRequestPool::release(PendingRequest& pending) {
  pending.request.reset();
  pending.share.reset();
  pending.fetch.value.reset();
  pending.status = absl::OkStatus();
  std::string& reply_bytes = pending.multi_get.bytes;
  if (reply_bytes.capacity() > kReplyBufferBytesKept) std::string().swap(reply_bytes);
  if (pending.page != nullptr && pending.page->capacity() > kReplyBufferBytesKept) pending.page.reset();
  pending.shard = nullptr;
  pending.has_more = false;
  pending.batch.clear();
  pending.next = std::exchange(free_, &pending);
  --in_use_count_;
}

}  // namespace skua::kv
