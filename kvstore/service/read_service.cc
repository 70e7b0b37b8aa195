#include "kvstore/service/read_service.h"

#include <optional>
#include <span>
#include <utility>

#include "kvstore/memory/prefetch.h"
#include "kvstore/service/service_limits.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

using rpc::IncomingCall;
using rpc::MessagePtr;
using rpc::ReplyToken;

namespace {

bool is_inline(size_t value_bytes, const GetExtras& extras) {
  return value_bytes + extras.bytes() <= kInlineValueBytesMax;
}

/// True: all keys are settled now. A read that follows shows a state that is no older.
bool all_settled(const ShardReplica& replica, const StringList& keys) {
  if (replica.is_settled()) return true;
  for (const std::string_view key : keys) {
    if (!replica.is_settled(key)) return false;
  }
  return true;
}

}  // namespace

ReadService::~ReadService() {
  SKUA_CHECK(gathered_count_ == 0, "poll the endpoint before the service goes");
}

// --- GET

void ReadService::on_get(IncomingCall&& call) {
  GetRequest request;
  if (!decode_plain_get(call.request.bytes(), request)) [[unlikely]] {
    return on_special_get(std::move(call));
  }
  HeldShard* const shard = admission_.admit(call, Method::kGet, request.route);
  if (shard != nullptr) gather(*shard, request, call.request, call.reply, false);
}

void ReadService::on_special_get(IncomingCall&& call) {
  HeldShard* const shard = admission_.admit(call, Method::kGet);
  if (shard == nullptr) return;
  const absl::StatusOr<GetRequest> request = decode_get(call.request.bytes());
  if (!request.ok()) return replies_.error(call.reply, Method::kGet, *shard, request.status());
  if (request->at_least_index != 0 && !shard->shard->has_state(request->at_least_index)) {
    // A backup learns of commits a moment later than the primary.
    if (shard->reads_as_backup()) return admission_.refuse_unsettled(call.reply, Method::kGet, *shard);
    return replies_.error(call.reply, Method::kGet, *shard, KvStatus::kBehindToken,
                          "the shard has lost the write that the token is of");
  }
  gather(*shard, *request, call.request, call.reply, false);
}

void ReadService::gather(HeldShard& shard, const GetRequest& request, rpc::Lease& bytes, ReplyToken& reply,
                         bool confirmed) {
  const size_t i = gathered_count_++;
  gathered_keys_[i] = shard.shard->item_key(request.key);
  shards_.engine().expect(gathered_keys_[i]);
  Get& get = gathered_[i];
  get.shard = &shard;
  get.request = std::move(bytes);  // moving the lease does not move the key's bytes
  get.reply = std::move(reply);
  get.wishes = request.wishes;
  get.confirmed = confirmed;
  if (gathered_count_ == gathered_.size()) burst_end();
}

/// A value is fetched into the cache while the answers before it are written. Nothing that removes a shard runs in
/// between.
void ReadService::burst_end() {
  const size_t count = std::exchange(gathered_count_, 0);
  if (count == 0) return;
  shards_.engine().get_batch(std::span(gathered_keys_).first(count), std::span(gathered_found_).first(count));
  const TimeNs now = shards_.has_replicas() ? shards_.boot_ns() : 0;
  constexpr size_t kAhead = MemoryTier::kValuesAhead;
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch_bytes(gathered_found_[i + kAhead].value.bytes());
    answer_get(gathered_[i], gathered_keys_[i], gathered_found_[i], now);
    gathered_found_[i].value.reset();
    gathered_[i].request.reset();
  }
}

void ReadService::answer_get(Get& get, const ItemKey& key, MemoryTier::Lookup& found, TimeNs now) {
  HeldShard& shard = *get.shard;
  if (shard.replica != nullptr) {
    if (shard.reads_as_backup() && !shard.replica->is_settled(key.text)) {
      return admission_.refuse_unsettled(get.reply, Method::kGet, shard);
    }
    if (!get.confirmed && found.found != MemoryTier::Found::kMiss) {
      if (!Admission::is_fresh(shard, now)) [[unlikely]] {
        return confirm_get(get);
      }
      admission_.count_backup_read(shard);
    }
  }
  if (found.found == MemoryTier::Found::kHit) [[likely]] {
    if (get.wishes.is_plain() && found.value.bytes().size() <= kInlineValueBytesMax) [[likely]] {
      return answer_inline(get.reply, shard, found.value);
    }
    const GetExtras extras = extras_of(get.wishes, found.value, found.expiry);
    if (get.wishes.fields) {
      return answer_fields(get.reply, shard, found.value, Place::kMemoryTier, get.request.bytes(), extras);
    }
    return answer_value(get.reply, shard, found.value, Place::kMemoryTier, extras);
  }
  if (found.found == MemoryTier::Found::kAbsent) {
    return replies_.error(get.reply, Method::kGet, shard, KvStatus::kNotFound);
  }
  PendingRequest* const pending = admission_.begin(*this, get.request, get.reply, Method::kGet, shard);
  if (pending == nullptr) return;
  ++replies_.stats().reads_deferred;
  admission_.await_result();
  pending->wishes = get.wishes;
  pending->fetch.key = key.text;
  shard.shard->reads().fetch(pending->fetch, found.ticket);
}

/// Looks the key up again after a round of the members. The value that was found is dropped, because it may be larger
/// than a pending request should pin.
void ReadService::confirm_get(Get& get) {
  HeldShard& shard = *get.shard;
  admission_.confirm(
      shard, [this, &shard, bytes = std::move(get.request), reply = std::move(get.reply)](bool confirmed) mutable {
        const absl::StatusOr<GetRequest> request = decode_get(bytes.bytes());
        if (!confirmed || !request.ok()) return admission_.refuse_stale(reply, Method::kGet, shard);
        gather(shard, *request, bytes, reply, true);
        burst_end();
      });
}

/// What the client asked for beside the value. The time in ms until a key expires is at least 1.
GetExtras ReadService::extras_of(const GetWishes& wishes, const PinnedValue& value, uint64_t expires_at) const {
  GetExtras extras;
  extras.size_only = wishes.size_only;
  if (wishes.mark) extras.mark = value.mark();
  if (!wishes.ttl || expires_at == 0) return extras;
  const uint64_t now_ms = shards_.engine().now_ms();
  extras.ttl_ms = expires_at > now_ms ? expires_at - now_ms : 1;
  return extras;
}

/// A value is sent in one of three ways. In each of them the shard is not needed any longer:
///   up to 216 bytes              copied behind the head: no release to wait for
///   larger, from memory          from its place in the memory tier, which a pin keeps; from a copy while pins keep
///                                half of the memory: an idle caller keeps its last replies, and must not make writes
///                                wait for room
///   larger, and not in memory    from the copy that the shard has made of the value in the database
void ReadService::answer_value(ReplyToken& reply, HeldShard& shard, PinnedValue& value, Place place,
                               const GetExtras& extras) {
  const size_t size = value.bytes().size();
  if (extras.size_only) {
    return replies_.send(reply, Method::kGet, KvStatus::kOk, reply_head(shard, value.version(), size, extras));
  }
  const bool has_body = !is_inline(size, extras);
  if (has_body && place == Place::kMemoryTier && shards_.engine().is_pinned_much()) [[unlikely]] {
    return answer_copy(reply, shard, size > kShortReplyBytesMax ? value.copied() : std::move(value), extras);
  }
  if (place == Place::kCopy && size > kShortReplyBytesMax) {
    return answer_copy(reply, shard, std::move(value), extras);
  }
  MessagePtr message = value_head(shard, value, extras);
  if (has_body) {
    const ByteSpan bytes = value.bytes();
    const PinnedValue::Pin pin = value.detach();
    const bool added = message->add_body(bytes, pin.release, pin.owner);
    SKUA_CHECK(added, "a new message has room for a body");
  }
  replies_.send(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

/// Answers with the fields of a row that the GET names. `request`: its bytes. The names are read from them once more,
/// so that a GET without names has no room for them. Fields that lie side by side are sent as the value is, from where
/// the row lies, unless that would keep a copy of a row that is much larger.
void ReadService::answer_fields(ReplyToken& reply, HeldShard& shard, PinnedValue& row, Place place, ByteSpan request,
                                const GetExtras& extras) {
  const absl::StatusOr<GetRequest> asked = decode_get(request);
  if (!asked.ok()) return replies_.error(reply, Method::kGet, shard, asked.status());
  const std::optional<ChosenFields> fields = ChosenFields::of(row.bytes(), asked->fields);
  if (!fields.has_value()) {
    return replies_.error(reply, Method::kGet, replies_.head_of(shard, KvStatus::kNotARow, row.version()));
  }
  const std::optional<ByteSpan> part = fields->one_part();
  const size_t size = fields->byte_count();
  const bool may_keep_row = place == Place::kMemoryTier || is_inline(size, extras) || 2 * size >= row.bytes().size();
  if (!part.has_value() || !may_keep_row) return answer_parts(reply, shard, *fields, row.version(), extras);
  row.narrow(*part);
  answer_value(reply, shard, row, place, extras);
}

/// Puts the fields together in the reply.
void ReadService::answer_parts(ReplyToken& reply, HeldShard& shard, const ChosenFields& fields, uint64_t version,
                               const GetExtras& extras) {
  const size_t size = fields.byte_count();
  ReplyPage* const page = replies_.take_page(reply, Method::kGet, shard, size);
  if (page == nullptr) return;
  MessagePtr message = reply_head(shard, version, size, extras);
  page->bytes.clear();
  page->bytes.reserve(size);
  fields.append_to(page->bytes);
  ReplyPagePool::lend(*page, as_byte_span(page->bytes), *message);
  replies_.stats().value_copied_bytes += size;
  replies_.send(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

void ReadService::answer_inline(ReplyToken& reply, const HeldShard& shard, const PinnedValue& value) {
  const ByteSpan bytes = value.bytes();
  MessagePtr message = replies_.make_message();
  std::byte* const to = message->grow_head(kReplyHeaderBytes + bytes.size());
  SKUA_CHECK(to != nullptr, "a reply head and an inline value fit a message's head");
  write_get_reply_head(replies_.head_of(shard, KvStatus::kOk, value.version()), bytes.size(), to);
  copy_bytes(to + kReplyHeaderBytes, bytes);
  replies_.stats().value_copied_bytes += bytes.size();
  replies_.send(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

/// A message with the head of a reply whose value has so many bytes.
MessagePtr ReadService::reply_head(const HeldShard& shard, uint64_t version, size_t bytes, const GetExtras& extras) {
  HeadBuffer buffer;
  MessagePtr message = replies_.make_message();
  const bool fits = message->append_head(
      encode_get_reply_head(replies_.head_of(shard, KvStatus::kOk, version), bytes, buffer, extras));
  SKUA_CHECK(fits, "a reply head fits a message's head");
  return message;
}

/// The same, and with the value if it is inline.
MessagePtr ReadService::value_head(const HeldShard& shard, const PinnedValue& value, const GetExtras& extras) {
  const ByteSpan bytes = value.bytes();
  MessagePtr message = reply_head(shard, value.version(), bytes.size(), extras);
  if (is_inline(bytes.size(), extras)) {
    const bool fits = message->append_head(bytes);
    SKUA_CHECK(fits, "a reply head and an inline value fit a message's head");
    replies_.stats().value_copied_bytes += bytes.size();
  } else {
    replies_.stats().value_zero_copy_bytes += bytes.size();
  }
  return message;
}

/// Sends a value from a reply page: a short value is copied into the page; a larger one is a copy already, and the page
/// keeps it.
void ReadService::answer_copy(ReplyToken& reply, HeldShard& shard, PinnedValue&& value, const GetExtras& extras) {
  const size_t bytes = value.bytes().size();
  ReplyPage* const page = replies_.take_page(reply, Method::kGet, shard, bytes);
  if (page == nullptr) return;
  MessagePtr message = value_head(shard, value, extras);
  if (bytes <= kShortReplyBytesMax) {
    page->bytes.assign(as_string_view(value.bytes()));
    ReplyPagePool::lend(*page, as_byte_span(page->bytes), *message);
    value.reset();
  } else {
    page->value = std::move(value);
    ReplyPagePool::lend(*page, page->value.bytes(), *message);
  }
  replies_.send(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

// --- GETs that memory could not answer

void ReadService::fetch_done(FetchOp& op) {
  PendingRequest& pending = *static_cast<PendingRequest*>(op.context);
  admission_.got_result();
  admission_.answer_when_fresh(pending);
}

void ReadService::answer(PendingRequest& pending) {
  if (pending.method == Method::kGet) {
    answer_fetched(pending);
  } else {
    send_page(pending);
  }
}

void ReadService::answer_fetched(PendingRequest& pending) {
  FetchOp& op = pending.fetch;
  HeldShard& shard = *pending.shard;
  if (absl::IsNotFound(op.status)) {
    replies_.error(pending.reply, Method::kGet, shard, KvStatus::kNotFound);
    return admission_.end(pending);
  }
  if (!op.status.ok()) return admission_.fail(pending, op.status);
  const GetExtras extras = extras_of(pending.wishes, op.value, op.expires_at);
  if (pending.wishes.fields) {
    answer_fields(pending.reply, shard, op.value, Place::kCopy, pending.request.bytes(), extras);
  } else {
    answer_value(pending.reply, shard, op.value, Place::kCopy, extras);
  }
  admission_.end(pending);
}

// --- MULTI_GET and SCAN

void ReadService::on_multi_get(IncomingCall&& call) {
  HeldShard* const shard = admission_.admit(call, Method::kMultiGet);
  if (shard == nullptr) return;
  const absl::StatusOr<MultiGetRequest> request = decode_multi_get(call.request.bytes());
  if (!request.ok()) {
    return replies_.error(call.reply, Method::kMultiGet, *shard, request.status());
  }
  admission_.count_operations(call, *shard, request->keys.size());
  if (shard->reads_as_backup() && !all_settled(*shard->replica, request->keys)) {
    return admission_.refuse_unsettled(call.reply, Method::kMultiGet, *shard);
  }
  PendingRequest* const pending = admission_.begin(*this, call.request, call.reply, Method::kMultiGet, *shard);
  if (pending == nullptr) return;
  pending->keys = request->keys;
  pending->multi_get.wishes = request->wishes;
  tell_time(*pending, call.deadline_ns);
  const bool has_all = pending->multi_get.look_up(shards_.engine(), *shard->shard, request->keys);
  if (!has_all && !request->wishes.memory_only) return submit(*pending);
  pending->multi_get.build(pending->now_ms);
  pending->multi_get.release();  // the reply has copies, and may wait for other replicas
  admission_.answer_when_fresh(*pending);
}

void ReadService::tell_time(PendingRequest& pending, TimeNs deadline_ns) const {
  pending.now_ms = shards_.engine().now_ms();
  pending.deadline_ns = deadline_ns;
  pending.time = &shards_.told_time();
}

void ReadService::on_scan(IncomingCall&& call) {
  HeldShard* const shard = admission_.admit(call, Method::kScan);
  if (shard == nullptr) return;
  const absl::StatusOr<ScanRequest> request = decode_scan(call.request.bytes());
  if (!request.ok()) return replies_.error(call.reply, Method::kScan, *shard, request.status());
  if (shard->reads_as_backup() && !shard->replica->is_settled()) {
    return admission_.refuse_unsettled(call.reply, Method::kScan, *shard);
  }
  PendingRequest* const pending = admission_.begin(*this, call.request, call.reply, Method::kScan, *shard);
  if (pending == nullptr) return;
  pending->scan = *request;
  pending->session = call.session;
  tell_time(*pending, call.deadline_ns);
  admission_.await_result();
  if (shard->shard->reads().is_applied(pending->applied)) applied(pending->applied);
}

void ReadService::applied(AppliedWait& wait) {
  PendingRequest& pending = *static_cast<PendingRequest*>(wait.context);
  admission_.got_result();
  if (!wait.status.ok()) return admission_.fail(pending, wait.status);
  submit(pending);
}

void ReadService::submit(PendingRequest& pending) {
  if (const absl::Status status = readers_.submit(pending); !status.ok()) return admission_.fail(pending, status);
  ++replies_.stats().reads_deferred;
  admission_.await_result();
}

void ReadService::read_done(PendingRequest& pending) {
  const bool posted = mailbox_->post_waiting([this, &pending] {
    admission_.got_result();
    if (absl::IsDeadlineExceeded(pending.status)) return admission_.fail_late(pending);
    if (!pending.status.ok()) return admission_.fail(pending, pending.status);
    // The reply has copies, and may wait for other replicas.
    if (pending.method == Method::kMultiGet) pending.multi_get.let_go(*pending.shard->shard, pending.keys);
    admission_.answer_when_fresh(pending);
  });
  SKUA_CHECK(posted, "the reader pool stops before the endpoint goes");
}

/// The reply to a MULTI_GET or SCAN is built.
void ReadService::send_page(PendingRequest& pending) {
  HeldShard& shard = *pending.shard;
  const Method method = pending.method;
  ReplyToken reply = std::move(pending.reply);
  const ReplyHead head = replies_.head_of(shard, KvStatus::kOk);
  ByteSpan bytes;
  if (method == Method::kMultiGet) {
    bytes = pending.multi_get.finish(head);
  } else {
    bytes = pending.page->finish(head, pending.has_more);
    admission_.count_skipped(pending.session, shard, pending.page->skipped_bytes());
  }
  ReplyPage* const page = replies_.take_page(reply, method, shard, bytes.size());
  if (page == nullptr) return admission_.end(pending);
  replies_.stats().value_copied_bytes += bytes.size();
  MessagePtr message = replies_.make_message();
  if (bytes.size() <= kShortReplyBytesMax) {
    page->bytes.assign(as_string_view(bytes));
    bytes = as_byte_span(page->bytes);
  } else if (method == Method::kMultiGet) {
    page->bytes.swap(pending.multi_get.bytes);
  } else {
    page->rows.swap(pending.page);
  }
  ReplyPagePool::lend(*page, bytes, *message);
  admission_.end(pending);
  replies_.send(reply, method, KvStatus::kOk, std::move(message));
}

}  // namespace skua::kv
