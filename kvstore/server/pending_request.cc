#include "kvstore/server/pending_request.h"

#include <algorithm>
#include <utility>

#include "kvstore/server/shard_server.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// One key's value; kDeferred only if the store may not wait.
MultiGetPage::Outcome look_up(ShardStore& store, std::string_view key, bool may_wait, PinnedValue& value,
                              KvStatus& status, absl::Status& failure) {
  using enum MultiGetPage::Outcome;
  status = KvStatus::kOk;
  if (!may_wait) {
    switch (store.try_get(key, value)) {
      case ReadOutcome::kHit: return kDone;
      case ReadOutcome::kNotFound: status = KvStatus::kNotFound; return kDone;
      case ReadOutcome::kWouldBlock: return kDeferred;
    }
  }
  absl::Status got = store.get(key, value);
  if (got.ok()) return kDone;
  if (!absl::IsNotFound(got)) {
    failure = std::move(got);
    return kFailed;
  }
  status = KvStatus::kNotFound;
  return kDone;
}

}  // namespace

MultiGetPage::Outcome MultiGetPage::collect(ShardStore& store, const KeyList& keys, bool may_wait) {
  const size_t head_bytes = multi_get_reply_head_bytes(keys.size());
  const size_t values_max = may_wait ? kBatchBytesMax : kMultiGetPollingBytesMax;
  entries.clear();
  bytes.assign(head_bytes, '\0');
  for (const std::string_view key : keys) {
    PinnedValue value;
    MultiGetEntry entry;
    const Outcome outcome = look_up(store, key, may_wait, value, entry.status, failure);
    if (outcome != Outcome::kDone) return outcome;
    if (entry.status == KvStatus::kOk) {
      entry.version = value.version();
      if (bytes.size() - head_bytes + value.bytes().size() <= values_max) {
        entry.value = value.bytes();
        bytes.append(as_string_view(value.bytes()));
      } else if (may_wait) {
        entry.status = KvStatus::kResourceExhausted;
      } else {
        return Outcome::kDeferred;
      }
    }
    entries.push_back(entry);
  }
  // Only now, because the buffer moved while it grew.
  ByteSpan rest = as_byte_span(bytes).subspan(head_bytes);
  for (MultiGetEntry& entry : entries) {
    const size_t size = entry.value.size();
    entry.value = rest.first(size);
    rest = rest.subspan(size);
  }
  return Outcome::kDone;
}

ByteSpan MultiGetPage::finish(const ReplyHead& head) {
  static_cast<void>(
      encode_multi_get_reply_head(head, entries, std::as_writable_bytes(std::span(bytes.data(), bytes.size()))));
  return as_byte_span(bytes);
}

void MultiGetPage::trim() {
  failure = absl::OkStatus();
  if (bytes.capacity() > kReplyBufferBytesKept) std::string().swap(bytes);
}

void PendingRequest::run() {
  switch (method) {
    case Method::kGet: status = store->get(key, value); break;
    case Method::kMultiGet:
      if (multi_get.collect(*store, keys, true) == MultiGetPage::Outcome::kFailed) {
        status = multi_get.failure;
      }
      break;
    case Method::kScan: run_scan(); break;
    default: status = absl::InternalError("not a read"); break;
  }
  server.read_done(*this);
}

void PendingRequest::run_scan() {
  const auto range = scan_range(scan);
  if (!range.ok()) {
    status = range.status();
    return;
  }
  if (page == nullptr) {
    page = std::make_unique<ScanReplyBuilder>(scan.rows_max, scan.bytes_max);
  } else {
    page->reset(scan.rows_max, scan.bytes_max);
  }
  const auto end = store->scan(*range, [this](const ScanRow& row) { return page->add(row); });
  status = end.status();
  has_more = end.ok() && end->has_more;
}

PendingRequestPool::~PendingRequestPool() {
  SKUA_CHECK(in_use_count_ == 0, "pending requests must come back before their server goes");
}

PendingRequest* PendingRequestPool::acquire() {
  if (free_ == nullptr) {
    if (all_.size() >= pending_max_) return nullptr;
    all_.push_back(std::make_unique<PendingRequest>(server_));
    free_ = all_.back().get();
  }
  ++in_use_count_;
  PendingRequest* const pending = std::exchange(free_, free_->next);
  pending->next = nullptr;
  return pending;
}

void PendingRequestPool::release(PendingRequest& pending) {
  pending.request.reset();
  pending.value.reset();
  pending.status = absl::OkStatus();
  pending.multi_get.trim();
  if (std::exchange(pending.page_bytes, 0) > kReplyBufferBytesKept) pending.page.reset();
  pending.shard = nullptr;
  pending.store = nullptr;
  pending.has_more = false;
  pending.next = std::exchange(free_, &pending);
  --in_use_count_;
}

}  // namespace skua::kv
