// PUT, DELETE and PATCH. Key and value stay in the request's lease until the group is synced.
#include <utility>

#include "kvstore/server/shard_server.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

std::string_view explain(KvStatus status) {
  switch (status) {
    case KvStatus::kInvalidArgument: return "the patch is not in row format, or the patched row breaks a limit";
    case KvStatus::kNotARow: return "the value is not in row format";
    case KvStatus::kAlreadyExists: return "the key exists";
    case KvStatus::kVersionMismatch: return "the key has another version";
    default: return {};
  }
}

}  // namespace

using rpc::IncomingCall;
using rpc::MessagePtr;

void ShardServer::on_put(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kPut);
  if (shard == nullptr) return;
  const absl::StatusOr<PutRequest> request = decode_put(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kPut, *shard, request.status());
  submit_write(call, Method::kPut, *shard, Mutation::put(request->key, request->value, request->condition));
}

void ShardServer::on_delete(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kDelete);
  if (shard == nullptr) return;
  const absl::StatusOr<DeleteRequest> request = decode_delete(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kDelete, *shard, request.status());
  submit_write(call, Method::kDelete, *shard, Mutation::remove(request->key, request->condition));
}

void ShardServer::on_patch(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kPatch);
  if (shard == nullptr) return;
  const absl::StatusOr<PatchRequest> request = decode_patch(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kPatch, *shard, request.status());
  submit_write(call, Method::kPatch, *shard,
               Mutation::patch(request->key, request->fields, request->create_if_missing));
}

void ShardServer::submit_write(IncomingCall& call, Method method, HeldShard& shard, const Mutation& mutation) {
  PendingRequest* const pending = begin(call, method, shard);
  if (pending == nullptr) return;
  if (const absl::Status status = log_.submit(*shard.store, mutation, pending); !status.ok()) {
    answer_failure(pending->reply, method, shard, status);
    return end(*pending);
  }
  ++waiting_count_;
}

/// On the log thread. The pending requests are ours until the task below is posted.
void ShardServer::group_done(std::span<const LogEntry> group) {
  PendingRequest* first = nullptr;
  for (size_t i = group.size(); i-- > 0;) {
    auto* pending = static_cast<PendingRequest*>(group[i].context);
    pending->result = group[i].result;
    pending->next = std::exchange(first, pending);
  }
  const bool posted = mailbox_->post_waiting([this, first] { finish_group(first); });
  SKUA_CHECK(posted, "the log thread stops before the endpoint goes");
}

void ShardServer::finish_group(PendingRequest* first) {
  size_t count = 0;
  for (PendingRequest* pending = first; pending != nullptr; ++count) {
    PendingRequest* const next = pending->next;
    answer_write(*pending);
    end(*pending);
    pending = next;
  }
  waiting_count_ -= count;
  stats_.commit_groups.record(count);
}

void ShardServer::answer_write(PendingRequest& pending) {
  const HeldShard& shard = *pending.shard;
  const auto [status, version] = pending.result;
  if (status == KvStatus::kOk) {
    HeadBuffer buffer;
    MessagePtr message = endpoint_.make_message();
    message->append_copy(encode_write_reply(head_of(shard, status, version), buffer));
    return answer(pending.reply, pending.method, status, std::move(message));
  }
  if (status == KvStatus::kStorageFailed || status == KvStatus::kShardReadOnly) {
    const absl::Status health = shard.store->health();
    return answer_error(pending.reply, pending.method, head_of(shard, status, version, std_view(health.message())));
  }
  answer_error(pending.reply, pending.method, head_of(shard, status, version, explain(status)));
}

}  // namespace skua::kv
