// PUT, DELETE and PATCH. Key and value stay in the request's lease until the write is in the log and in memory.
#include <utility>

#include "absl/strings/str_cat.h"
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
  if (request->ttl_ms != 0) return answer_unimplemented(call, Method::kPut, *shard, "a time to live");
  if (request->durability > durability_) {
    return answer_unimplemented(call, Method::kPut, *shard, durability_name(request->durability));
  }
  write(call, Method::kPut, *shard, Mutation::put(request->key, request->value, request->condition));
}

void ShardServer::on_delete(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kDelete);
  if (shard == nullptr) return;
  const absl::StatusOr<DeleteRequest> request = decode_delete(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kDelete, *shard, request.status());
  if (request->durability > durability_) {
    return answer_unimplemented(call, Method::kDelete, *shard, durability_name(request->durability));
  }
  write(call, Method::kDelete, *shard, Mutation::remove(request->key, request->condition));
}

void ShardServer::on_patch(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kPatch);
  if (shard == nullptr) return;
  const absl::StatusOr<PatchRequest> request = decode_patch(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kPatch, *shard, request.status());
  if (request->condition.kind != Condition::Kind::kNone) {
    return answer_unimplemented(call, Method::kPatch, *shard, "a condition");
  }
  if (request->durability > durability_) {
    return answer_unimplemented(call, Method::kPatch, *shard, durability_name(request->durability));
  }
  write(call, Method::kPatch, *shard, Mutation::patch(request->key, request->fields, request->create_if_missing));
}

void ShardServer::answer_unimplemented(IncomingCall& call, Method method, const HeldShard& shard,
                                       std::string_view what) {
  const std::string text = absl::StrCat("this node has not: ", absl_view(what));
  answer_error(call.reply, method, head_of(shard, KvStatus::kUnimplemented, 0, text));
}

void ShardServer::write(IncomingCall& call, Method method, HeldShard& shard, const Mutation& mutation) {
  if (!growth_.ok() && mutation.kind != Mutation::Kind::kDelete) {
    return answer_failure(call.reply, method, shard, growth_);
  }
  PendingRequest* const pending = begin(call, method, shard);
  if (pending == nullptr) return;
  pending->write.mutation = mutation;
  ++waiting_count_;
  engine_->write(*shard.engine, pending->write);
}

void ShardServer::write_done(WriteOp& op) {
  PendingRequest& pending = *static_cast<PendingRequest*>(op.context);
  --waiting_count_;
  answer_write(pending);
  end(pending);
}

void ShardServer::answer_write(PendingRequest& pending) {
  const HeldShard& shard = *pending.shard;
  const auto [status, version] = pending.write.result;
  if (status == KvStatus::kOk) {
    HeadBuffer buffer;
    MessagePtr message = endpoint_.make_message();
    message->append_copy(encode_write_reply({head_of(shard, status, version), durability_, false}, buffer));
    return answer(pending.reply, pending.method, status, std::move(message));
  }
  const std::string_view why = pending.write.why.empty() ? explain(status) : std::string_view(pending.write.why);
  answer_error(pending.reply, pending.method, head_of(shard, status, version, why));
}

}  // namespace skua::kv
