// GET, MULTI_GET and SCAN.
#include <span>
#include <utility>

#include "kvstore/memory/prefetch.h"
#include "kvstore/service/service_limits.h"
#include "kvstore/service/shard_server.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

using rpc::IncomingCall;
using rpc::MessagePtr;
using rpc::ReplyToken;

namespace {

bool is_inline(size_t value_bytes, uint64_t ttl_ms) {
  return value_bytes + (ttl_ms == 0 ? 0 : sizeof ttl_ms) <= kInlineValueBytesMax;
}

/// True: all keys are settled now. A read that follows shows a state that is no older.
bool all_settled(const ShardReplica& replica, const KeyList& keys) {
  if (replica.is_settled()) return true;
  for (const std::string_view key : keys) {
    if (!replica.is_settled(key)) return false;
  }
  return true;
}

}  // namespace

void ShardServer::on_get(IncomingCall&& call) {
  GetRequest request;
  if (!decode_plain_get(call.request.bytes(), request)) [[unlikely]] {
    return on_special_get(std::move(call));
  }
  HeldShard* const shard = admit(call, Method::kGet, request.route);
  if (shard != nullptr) gather(*shard, request, call.request, call.reply, false);
}

void ShardServer::on_special_get(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kGet);
  if (shard == nullptr) return;
  const absl::StatusOr<GetRequest> request = decode_get(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kGet, *shard, request.status());
  if (request->at_least_index != 0 && !shard->shard->has_state(request->at_least_index)) {
    // A backup learns of commits a moment later than the primary.
    if (shard->reads_as_backup()) return refuse_unsettled(call.reply, Method::kGet, *shard);
    return answer_error(
        call.reply, Method::kGet,
        head_of(*shard, KvStatus::kBehindToken, 0, "the shard has lost the write that the token is of"));
  }
  gather(*shard, *request, call.request, call.reply, false);
}

void ShardServer::gather(HeldShard& shard, const GetRequest& request, rpc::Lease& bytes, ReplyToken& reply,
                         bool confirmed) {
  const size_t i = gathered_count_++;
  gathered_keys_[i] = shard.shard->item_key(request.key);
  engine_->expect(gathered_keys_[i]);
  GatheredGet& get = gathered_[i];
  get.shard = &shard;
  get.request = std::move(bytes);  // moving the lease does not move the key's bytes
  get.reply = std::move(reply);
  get.wants_ttl = request.wants_ttl;
  get.confirmed = confirmed;
  if (gathered_count_ == gathered_.size()) answer_gathered();
}

/// Answers the GETs of the burst. A lookup waits for memory two or three times, and all lookups of a burst wait
/// together. A value is fetched into the cache while the answers before it are written. Nothing that removes a shard
/// runs in between.
void ShardServer::answer_gathered() {
  const size_t count = std::exchange(gathered_count_, 0);
  if (count == 0) return;
  engine_->get_batch(std::span(gathered_keys_).first(count), std::span(gathered_found_).first(count));
  const TimeNs now = replica_count_ == 0 ? 0 : clock_.boot_ns();
  constexpr size_t kAhead = MemoryTier::kValuesAhead;
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch_bytes(gathered_found_[i + kAhead].value.bytes());
    answer_get(gathered_[i], gathered_keys_[i], gathered_found_[i], now);
    gathered_found_[i].value.reset();
    gathered_[i].request.reset();
  }
}

void ShardServer::answer_get(GatheredGet& get, const ItemKey& key, MemoryTier::Lookup& found, TimeNs now) {
  HeldShard& shard = *get.shard;
  if (shard.replica != nullptr) {
    if (shard.reads_as_backup() && !shard.replica->is_settled(key.text)) {
      return refuse_unsettled(get.reply, Method::kGet, shard);
    }
    if (!get.confirmed && found.found != MemoryTier::Found::kMiss) {
      if (!is_fresh(shard, now)) [[unlikely]] {
        return confirm_get(get);
      }
      count_backup_read(shard);
    }
  }
  if (found.found == MemoryTier::Found::kHit) [[likely]] {
    return answer_value(get.reply, shard, found.value, ValuePlace::kMemoryTier,
                        remaining_ms(get.wants_ttl, found.expiry));
  }
  if (found.found == MemoryTier::Found::kAbsent) {
    return answer_error(get.reply, Method::kGet, head_of(shard, KvStatus::kNotFound));
  }
  PendingRequest* const pending = begin(get.request, get.reply, Method::kGet, shard);
  if (pending == nullptr) return;
  ++stats_.reads_deferred;
  ++waiting_count_;
  pending->wants_ttl = get.wants_ttl;
  pending->fetch.key = key.text;
  shard.shard->reads().fetch(pending->fetch, found.ticket);
}

/// The time in ms until a key expires; at least 1. 0: the key never expires, or the client did not ask.
uint64_t ShardServer::remaining_ms(bool wants_ttl, uint64_t expires_at) const {
  if (!wants_ttl || expires_at == 0) return 0;
  return expires_at > engine_->now_ms() ? expires_at - engine_->now_ms() : 1;
}

/// A value is sent in one of three ways. In each of them the shard is not needed any longer:
///   up to 216 bytes              copied behind the head: no release to wait for
///   larger, from memory          from its place in the memory tier, which a pin keeps; from a copy while pins keep
///                                half of the memory: an idle caller keeps its last replies, and must not make writes
///                                wait for room
///   larger, and not in memory    from the copy that the engine has made of the value in the database
void ShardServer::answer_value(ReplyToken& reply, HeldShard& shard, PinnedValue& value, ValuePlace place,
                               uint64_t ttl_ms) {
  const size_t size = value.bytes().size();
  const bool has_body = !is_inline(size, ttl_ms);
  if (!has_body && ttl_ms == 0) [[likely]] {
    return answer_inline(reply, shard, value);
  }
  if (has_body && place == ValuePlace::kMemoryTier && engine_->is_pinned_much()) [[unlikely]] {
    return answer_copy(reply, shard, size > kShortReplyBytesMax ? value.copied() : std::move(value), ttl_ms);
  }
  if (place == ValuePlace::kCopy && size > kShortReplyBytesMax) {
    return answer_copy(reply, shard, std::move(value), ttl_ms);
  }
  MessagePtr message = value_head(shard, value, ttl_ms);
  if (has_body) {
    const ByteSpan bytes = value.bytes();
    const PinnedValue::Pin pin = value.detach();
    const bool added = message->add_body(bytes, pin.release, pin.owner);
    SKUA_CHECK(added, "a new message has room for a body");
  }
  answer(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

void ShardServer::answer_inline(ReplyToken& reply, const HeldShard& shard, const PinnedValue& value) {
  const ByteSpan bytes = value.bytes();
  MessagePtr message = endpoint_.make_message();
  std::byte* const to = message->grow_head(kReplyHeaderBytes + bytes.size());
  SKUA_CHECK(to != nullptr, "a reply head and an inline value fit a message's head");
  write_get_reply_head(head_of(shard, KvStatus::kOk, value.version()), bytes.size(), to);
  copy_bytes(to + kReplyHeaderBytes, bytes);
  stats_.value_copied_bytes += bytes.size();
  answer(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

/// A message with the head of a reply, and with the value if it is inline.
MessagePtr ShardServer::value_head(const HeldShard& shard, const PinnedValue& value, uint64_t ttl_ms) {
  const ByteSpan bytes = value.bytes();
  HeadBuffer buffer;
  const ByteSpan head =
      encode_get_reply_head(head_of(shard, KvStatus::kOk, value.version()), bytes.size(), buffer, ttl_ms);
  MessagePtr message = endpoint_.make_message();
  bool fits = message->append_head(head);
  if (is_inline(bytes.size(), ttl_ms)) {
    fits = message->append_head(bytes) && fits;
    stats_.value_copied_bytes += bytes.size();
  } else {
    stats_.value_zero_copy_bytes += bytes.size();
  }
  SKUA_CHECK(fits, "a reply head and an inline value fit a message's head");
  return message;
}

/// Sends a value from a reply page: a short value is copied into the page; a larger one is a copy already, and the page
/// keeps it.
void ShardServer::answer_copy(ReplyToken& reply, HeldShard& shard, PinnedValue&& value, uint64_t ttl_ms) {
  const size_t bytes = value.bytes().size();
  std::optional<rpc::Lease> share = bytes <= kShortReplyBytesMax ? rpc::Lease() : reply.reserve(bytes);
  if (!share.has_value()) return answer_no_room(reply, Method::kGet, shard);
  MessagePtr message = value_head(shard, value, ttl_ms);
  ReplyPage& page = bytes <= kShortReplyBytesMax ? short_pages_.acquire() : pages_.acquire();
  page.share = *std::move(share);
  if (bytes <= kShortReplyBytesMax) {
    page.bytes.assign(as_string_view(value.bytes()));
    ReplyPagePool::lend(page, as_byte_span(page.bytes), *message);
    value.reset();
  } else {
    page.value = std::move(value);
    ReplyPagePool::lend(page, page.value.bytes(), *message);
  }
  answer(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

/// Refuses a reply: earlier replies that the caller has not taken yet use up its share of memory.
void ShardServer::answer_no_room(ReplyToken& reply, Method method, const HeldShard& shard) {
  answer_error(reply, method,
               head_of(shard, KvStatus::kResourceExhausted, 0,
                       "replies that this client has not taken yet use up its memory here; ask for less at a time"));
}

void ShardServer::fetch_done(FetchOp& op) {
  PendingRequest& pending = *static_cast<PendingRequest*>(op.context);
  --waiting_count_;
  if (!hold_until_fresh(pending, &ShardServer::answer_fetched)) answer_fetched(pending);
}

void ShardServer::answer_fetched(PendingRequest& pending) {
  FetchOp& op = pending.fetch;
  HeldShard& shard = *pending.shard;
  if (absl::IsNotFound(op.status)) {
    answer_error(pending.reply, Method::kGet, head_of(shard, KvStatus::kNotFound));
    return end(pending);
  }
  if (!op.status.ok()) {
    answer_failure(pending.reply, Method::kGet, shard, op.status);
    return end(pending);
  }
  answer_value(pending.reply, shard, op.value, ValuePlace::kCopy, remaining_ms(pending.wants_ttl, op.expires_at));
  end(pending);
}

void ShardServer::on_multi_get(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kMultiGet);
  if (shard == nullptr) return;
  const absl::StatusOr<MultiGetRequest> request = decode_multi_get(call.request.bytes());
  if (!request.ok()) {
    return answer_failure(call.reply, Method::kMultiGet, *shard, request.status());
  }
  if (shard->reads_as_backup() && !all_settled(*shard->replica, request->keys)) {
    return refuse_unsettled(call.reply, Method::kMultiGet, *shard);
  }
  PendingRequest* const pending = begin(call.request, call.reply, Method::kMultiGet, *shard);
  if (pending == nullptr) return;
  pending->keys = request->keys;
  pending->now_ms = engine_->now_ms();
  if (!pending->multi_get.look_up(*shard->shard, request->keys)) return submit_read(*pending);
  pending->multi_get.build(pending->now_ms);
  answer_page(*pending);
}

void ShardServer::on_scan(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kScan);
  if (shard == nullptr) return;
  const absl::StatusOr<ScanRequest> request = decode_scan(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kScan, *shard, request.status());
  if (shard->reads_as_backup() && !shard->replica->is_settled()) {
    return refuse_unsettled(call.reply, Method::kScan, *shard);
  }
  PendingRequest* const pending = begin(call.request, call.reply, Method::kScan, *shard);
  if (pending == nullptr) return;
  pending->scan = *request;
  pending->now_ms = engine_->now_ms();
  ++waiting_count_;
  if (shard->shard->reads().is_applied(pending->applied)) applied(pending->applied);
}

/// The database shows everything that was committed when the SCAN came, or `wait.status` says why not.
void ShardServer::applied(AppliedWait& wait) {
  PendingRequest& pending = *static_cast<PendingRequest*>(wait.context);
  --waiting_count_;
  if (wait.status.ok()) return submit_read(pending);
  answer_failure(pending.reply, pending.method, *pending.shard, wait.status);
  end(pending);
}

void ShardServer::submit_read(PendingRequest& pending) {
  if (const absl::Status status = readers_.submit(pending); !status.ok()) {
    pending.multi_get.slots.clear();
    answer_failure(pending.reply, pending.method, *pending.shard, status);
    return end(pending);
  }
  ++stats_.reads_deferred;
  ++waiting_count_;
}

void ShardServer::read_done(PendingRequest& pending) {
  const bool posted = mailbox_->post_waiting([&pending] {
    --pending.server.waiting_count_;
    pending.server.finish_read(pending);
  });
  SKUA_CHECK(posted, "the reader pool stops before the endpoint goes");
}

void ShardServer::finish_read(PendingRequest& pending) {
  if (pending.status.ok()) return answer_page(pending);
  answer_failure(pending.reply, pending.method, *pending.shard, pending.status);
  pending.multi_get.slots.clear();
  end(pending);
}

void ShardServer::answer_page(PendingRequest& pending) {
  if (!hold_until_fresh(pending, &ShardServer::send_page)) send_page(pending);
}

void ShardServer::send_page(PendingRequest& pending) {
  HeldShard& shard = *pending.shard;
  const Method method = pending.method;
  ReplyToken reply = std::move(pending.reply);
  const ReplyHead head = head_of(shard, KvStatus::kOk);
  ByteSpan bytes;
  if (method == Method::kMultiGet) {
    pending.multi_get.let_go(*shard.shard, pending.keys);
    bytes = pending.multi_get.finish(head);
  } else {
    bytes = pending.page->finish(head, pending.has_more);
  }
  rpc::Lease share;
  if (bytes.size() > kShortReplyBytesMax) {
    std::optional<rpc::Lease> room = reply.reserve(bytes.size());
    if (!room.has_value()) {
      answer_no_room(reply, method, shard);
      return end(pending);
    }
    share = *std::move(room);
  }
  stats_.value_copied_bytes += bytes.size();
  MessagePtr message = endpoint_.make_message();
  lend_page(pending, bytes, std::move(share), *message);
  end(pending);
  answer(reply, method, KvStatus::kOk, std::move(message));
}

/// Moves the reply's bytes from the pending request to a page, which becomes the body of `message`.
void ShardServer::lend_page(PendingRequest& pending, ByteSpan bytes, rpc::Lease&& share, rpc::Message& message) {
  if (bytes.size() <= kShortReplyBytesMax) {
    ReplyPage& page = short_pages_.acquire();
    page.bytes.assign(as_string_view(bytes));
    return ReplyPagePool::lend(page, as_byte_span(page.bytes), message);
  }
  ReplyPage& page = pages_.acquire();
  page.share = std::move(share);
  if (pending.method == Method::kMultiGet) {
    page.bytes.swap(pending.multi_get.bytes);
  } else {
    page.rows.swap(pending.page);
  }
  ReplyPagePool::lend(page, bytes, message);
}

}  // namespace skua::kv
