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
  Operation* const operation = begin(call, Method::kGet, *shard);
  if (operation == nullptr) return;
  operation->key = request->key;
  submit_read(*operation);
}

/// Three ways for a value to travel:
///   up to 224 bytes    copied behind the head: no release to wait for
///   up to 16 KiB       from the read cache's entry, which lives as long as it is pinned, whatever
///                      becomes of the store
///   larger             from RocksDB's block: the operation keeps the store open until it is sent
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
    } else if (Operation* const holder = operations_.acquire(); holder != nullptr) {
      holder->shard = &shard;
      holder->value = std::move(value);
      ++shard.operation_count;
      pin = {holder, [](void* context) {
               auto* held = static_cast<Operation*>(context);
               held->server.end(*held);
             }};
    } else {
      return answer_error(reply, Method::kGet,
                          head_of(shard, KvStatus::kResourceExhausted, 0,
                                  "the worker has kOperationsMax replies under way; try later"));
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
  Operation* const operation = begin(call, Method::kMultiGet, *shard);
  if (operation == nullptr) return;
  operation->keys = request->keys;
  if (operation->multi_get.collect(*shard->store, request->keys, false) == MultiGetPage::Outcome::kDone) {
    return finish_read(*operation);
  }
  submit_read(*operation);
}

void ShardServer::on_scan(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kScan);
  if (shard == nullptr) return;
  const absl::StatusOr<ScanRequest> request = decode_scan(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kScan, *shard, request.status());
  Operation* const operation = begin(call, Method::kScan, *shard);
  if (operation == nullptr) return;
  operation->scan = *request;
  submit_read(*operation);
}

void ShardServer::submit_read(Operation& operation) {
  if (const absl::Status status = readers_.submit(operation); !status.ok()) {
    answer_failure(operation.reply, operation.method, *operation.shard, status);
    return end(operation);
  }
  ++stats_.reads_deferred;
  ++waiting_count_;
}

void ShardServer::read_done(Operation& operation) {
  const bool posted = mailbox_->post_waiting([&operation] {
    --operation.server.waiting_count_;
    operation.server.finish_read(operation);
  });
  SKUA_CHECK(posted, "the reader pool stops before the endpoint goes");
}

void ShardServer::finish_read(Operation& operation) {
  HeldShard& shard = *operation.shard;
  const Method method = operation.method;
  ReplyToken reply = std::move(operation.reply);
  if (absl::IsNotFound(operation.status) && method == Method::kGet) {
    answer_error(reply, method, head_of(shard, KvStatus::kNotFound));
    return end(operation);
  }
  if (!operation.status.ok()) {
    answer_failure(reply, method, shard, operation.status);
    return end(operation);
  }
  const ReplyHead head = head_of(shard, KvStatus::kOk);
  if (method == Method::kGet) {
    PinnedValue value = std::move(operation.value);
    answer_value(reply, shard, value);
    return end(operation);
  }
  ByteSpan bytes;
  if (method == Method::kMultiGet) {
    bytes = operation.multi_get.finish(head);
  } else {
    bytes = operation.page->finish(head, operation.has_more);
    operation.page_bytes = bytes.size();
  }
  stats_.value_copied_bytes += bytes.size();
  operation.request.reset();
  MessagePtr message = message_holding(operation, bytes);
  answer(reply, method, KvStatus::kOk, std::move(message));
}

}  // namespace skua::kv
