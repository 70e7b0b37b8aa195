// GET, MULTI_GET and SCAN.
#include <utility>

#include "kvstore/server/shard_server.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

using rpc::IncomingCall;
using rpc::MessagePtr;
using rpc::ReplyToken;

void ShardServer::on_get(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kGet);
  if (shard == nullptr) return;
  const absl::StatusOr<GetRequest> request = decode_get(call.request.bytes());
  if (!request.ok()) [[unlikely]] {
    return answer_failure(call.reply, Method::kGet, *shard, request.status());
  }
  PinnedValue value;
  switch (shard->store->try_get(request->key, value)) {
    case ReadOutcome::kHit: return answer_value(call.reply, *shard, value);
    case ReadOutcome::kNotFound: return answer_error(call.reply, Method::kGet, head_of(*shard, KvStatus::kNotFound));
    case ReadOutcome::kWouldBlock: break;
  }
  PendingRequest* const pending = begin(call, Method::kGet, *shard);
  if (pending == nullptr) return;
  pending->key = request->key;
  submit_read(*pending);
}

/// Three ways for a value to travel:
///   up to 224 bytes    copied behind the head: no release to wait for
///   up to 16 KiB       from the read cache's entry, which lives as long as it is pinned, whatever
///                      becomes of the store
///   larger             from RocksDB's block: the pending request keeps the store open until it is sent
void ShardServer::answer_value(ReplyToken& reply, HeldShard& shard, PinnedValue& value) {
  const ByteSpan bytes = value.bytes();
  HeadBuffer buffer;
  const ByteSpan head = encode_get_reply_head(head_of(shard, KvStatus::kOk, value.version()), bytes.size(), buffer);
  MessagePtr message = endpoint_.make_message();
  bool fits = message->append_head(head);
  if (bytes.size() <= kInlineValueBytesMax) {
    fits = message->append_head(bytes) && fits;
    stats_.value_copied_bytes += bytes.size();
  } else {
    stats_.value_zero_copy_bytes += bytes.size();
    PinnedValue::Pin pin{};
    if (bytes.size() <= kReadCacheValueBytesMax) {
      pin = value.detach();
    } else if (PendingRequest* const holder = pool_.acquire(); holder != nullptr) {
      holder->shard = &shard;
      holder->value = std::move(value);
      ++shard.use_count;
      pin = {holder, [](void* context) {
               auto* held = static_cast<PendingRequest*>(context);
               held->server.end(*held);
             }};
    } else {
      return answer_error(reply, Method::kGet,
                          head_of(shard, KvStatus::kResourceExhausted, 0,
                                  "the worker has kPendingRequestsMax replies under way; try later"));
    }
    fits = message->add_body(bytes, pin.release, pin.owner) && fits;
  }
  SKUA_CHECK(fits, "a reply head and an inline value fit a message's head");
  answer(reply, Method::kGet, KvStatus::kOk, std::move(message));
}

void ShardServer::on_multi_get(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kMultiGet);
  if (shard == nullptr) return;
  const absl::StatusOr<MultiGetRequest> request = decode_multi_get(call.request.bytes());
  if (!request.ok()) {
    return answer_failure(call.reply, Method::kMultiGet, *shard, request.status());
  }
  PendingRequest* const pending = begin(call, Method::kMultiGet, *shard);
  if (pending == nullptr) return;
  pending->keys = request->keys;
  if (pending->multi_get.collect(*shard->store, request->keys, false) == MultiGetPage::Outcome::kDone) {
    return finish_read(*pending);
  }
  submit_read(*pending);
}

void ShardServer::on_scan(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kScan);
  if (shard == nullptr) return;
  const absl::StatusOr<ScanRequest> request = decode_scan(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kScan, *shard, request.status());
  PendingRequest* const pending = begin(call, Method::kScan, *shard);
  if (pending == nullptr) return;
  pending->scan = *request;
  submit_read(*pending);
}

void ShardServer::submit_read(PendingRequest& pending) {
  if (const absl::Status status = readers_.submit(pending); !status.ok()) {
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
  HeldShard& shard = *pending.shard;
  const Method method = pending.method;
  ReplyToken reply = std::move(pending.reply);
  if (absl::IsNotFound(pending.status) && method == Method::kGet) {
    answer_error(reply, method, head_of(shard, KvStatus::kNotFound));
    return end(pending);
  }
  if (!pending.status.ok()) {
    answer_failure(reply, method, shard, pending.status);
    return end(pending);
  }
  const ReplyHead head = head_of(shard, KvStatus::kOk);
  if (method == Method::kGet) {
    PinnedValue value = std::move(pending.value);
    answer_value(reply, shard, value);
    return end(pending);
  }
  ByteSpan bytes;
  if (method == Method::kMultiGet) {
    bytes = pending.multi_get.finish(head);
  } else {
    bytes = pending.page->finish(head, pending.has_more);
    pending.page_bytes = bytes.size();
  }
  stats_.value_copied_bytes += bytes.size();
  pending.request.reset();
  MessagePtr message = message_holding(pending, bytes);
  answer(reply, method, KvStatus::kOk, std::move(message));
}

}  // namespace skua::kv
