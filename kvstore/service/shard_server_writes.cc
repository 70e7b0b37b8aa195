// Mutations. Keys and values stay in the request's lease until the write is in the log and in memory.
#include <utility>
#include <vector>

#include "kvstore/codec/batch.h"
#include "kvstore/service/shard_server.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

std::string_view explain(KvStatus status) {
  switch (status) {
    case KvStatus::kInvalidArgument:
      return "the new value would be larger than values may be (16 MiB), or the patch is not in row format";
    case KvStatus::kNotARow: return "the value is not in row format";
    case KvStatus::kNotANumber: return "the value is no decimal int64";
    case KvStatus::kCounterOverflow: return "the counter would leave the range of an int64";
    case KvStatus::kAlreadyExists: return "the key exists";
    case KvStatus::kVersionMismatch: return "the key has another version";
    default: return {};
  }
}

/// True: the status of the write depends on the state of its key.
bool rests_on_state(KvStatus status) {
  switch (status) {
    case KvStatus::kNotFound:
    case KvStatus::kAlreadyExists:
    case KvStatus::kVersionMismatch:
    case KvStatus::kNotARow:
    case KvStatus::kNotANumber:
    case KvStatus::kCounterOverflow: return true;
    default: return false;
  }
}

Mutation mutation_of(const BatchOp& op) {
  switch (op.kind) {
    case BatchOp::Kind::kPut: return Mutation::put(op.key, op.value, op.condition, op.ttl_ms);
    case BatchOp::Kind::kDelete: return Mutation::remove(op.key, op.condition);
    case BatchOp::Kind::kAdd: return Mutation::add(op.key, op.delta, op.condition);
    case BatchOp::Kind::kAppend: return Mutation::append(op.key, op.value, op.condition);
    case BatchOp::Kind::kPatch: return Mutation::patch(op.key, op.value, op.create_if_missing, op.condition);
    case BatchOp::Kind::kExpire: return Mutation::expire(op.key, op.ttl_ms, op.condition);
  }
  return {};
}

}  // namespace

using rpc::IncomingCall;
using rpc::MessagePtr;

void ShardServer::on_put(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kPut);
  if (shard == nullptr) return;
  const absl::StatusOr<PutRequest> request = decode_put(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kPut, *shard, request.status());
  write(call, Method::kPut, *shard, *request,
        Mutation::put(request->key, request->value, request->condition, request->ttl_ms));
}

void ShardServer::on_delete(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kDelete);
  if (shard == nullptr) return;
  const absl::StatusOr<DeleteRequest> request = decode_delete(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kDelete, *shard, request.status());
  write(call, Method::kDelete, *shard, *request, Mutation::remove(request->key, request->condition));
}

void ShardServer::on_patch(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kPatch);
  if (shard == nullptr) return;
  const absl::StatusOr<PatchRequest> request = decode_patch(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kPatch, *shard, request.status());
  write(call, Method::kPatch, *shard, *request,
        Mutation::patch(request->key, request->fields, request->create_if_missing, request->condition));
}

void ShardServer::on_add(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kAdd);
  if (shard == nullptr) return;
  const absl::StatusOr<AddRequest> request = decode_add(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kAdd, *shard, request.status());
  write(call, Method::kAdd, *shard, *request, Mutation::add(request->key, request->delta, request->condition));
}

void ShardServer::on_append(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kAppend);
  if (shard == nullptr) return;
  const absl::StatusOr<AppendRequest> request = decode_append(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kAppend, *shard, request.status());
  write(call, Method::kAppend, *shard, *request, Mutation::append(request->key, request->value, request->condition));
}

void ShardServer::on_expire(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kExpire);
  if (shard == nullptr) return;
  const absl::StatusOr<ExpireRequest> request = decode_expire(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kExpire, *shard, request.status());
  write(call, Method::kExpire, *shard, *request, Mutation::expire(request->key, request->ttl_ms, request->condition));
}

void ShardServer::on_batch(IncomingCall&& call) {
  HeldShard* const shard = admit(call, Method::kBatch);
  if (shard == nullptr) return;
  const absl::StatusOr<BatchRequest> request = decode_batch(call.request.bytes());
  if (!request.ok()) return answer_failure(call.reply, Method::kBatch, *shard, request.status());
  if (!takes_writes(call, Method::kBatch, *shard)) return;
  bool grows = false;
  for (const BatchOp& op : request->ops) grows |= op.kind != BatchOp::Kind::kDelete;
  if (grows && !may_grow(*shard, request->id)) return answer_failure(call.reply, Method::kBatch, *shard, growth_);
  PendingRequest* const pending = begin(call.request, call.reply, Method::kBatch, *shard);
  if (pending == nullptr) return;
  for (const BatchOp& op : request->ops) pending->batch.push_back(mutation_of(op));
  start_write(*pending, request->id, request->durability);
}

/// True: a write that makes data grow may be executed. A repetition of an executed write is answered even if nothing
/// may grow. Otherwise its client would take the write for not executed.
bool ShardServer::may_grow(const HeldShard& shard, const RequestId& id) const {
  return growth_.ok() || shard.shard->is_repetition(id);
}

template <typename Request>
void ShardServer::write(IncomingCall& call, Method method, HeldShard& shard, const Request& request,
                        const Mutation& mutation) {
  if (!takes_writes(call, method, shard)) return;
  if (mutation.kind != Mutation::Kind::kDelete && !may_grow(shard, request.id)) {
    return answer_failure(call.reply, method, shard, growth_);
  }
  PendingRequest* const pending = begin(call.request, call.reply, method, shard);
  if (pending == nullptr) return;
  pending->write.mutation = mutation;
  start_write(*pending, request.id, request.durability);
}

void ShardServer::start_write(PendingRequest& pending, const RequestId& id, Durability durability) {
  WriteOp& op = pending.write;
  op.batch = pending.batch;
  if (!pending.batch.empty()) op.mutation = {};
  op.id = id;
  op.durability = durability;
  ++waiting_count_;
  pending.shard->shard->write(op);
}

void ShardServer::write_done(WriteOp& op) {
  PendingRequest& pending = *static_cast<PendingRequest*>(op.context);
  --waiting_count_;
  // A write that the state of the shard refused is a read of that state, so it must be as fresh as a read. The same is
  // true if an earlier attempt was refused: perhaps no client was told of that refusal, because the state was not the
  // newest.
  const bool is_read = op.result.status == KvStatus::kOk ? op.result.version == 0 : rests_on_state(op.result.status);
  if (is_read && hold_until_fresh(pending, &ShardServer::finish_write)) {
    return;
  }
  finish_write(pending);
}

void ShardServer::finish_write(PendingRequest& pending) {
  answer_write(pending);
  end(pending);
}

void ShardServer::answer_write(PendingRequest& pending) {
  const WriteOp& op = pending.write;
  const auto [status, version, value] = op.result;
  if (status == KvStatus::kOk) return answer(pending.reply, pending.method, status, write_reply(pending));
  const std::string_view why = op.why.empty() ? explain(status) : std::string_view(op.why);
  answer_error(pending.reply, pending.method, head_of(*pending.shard, status, version, why));
}

MessagePtr ShardServer::write_reply(PendingRequest& pending) {
  const WriteOp& op = pending.write;
  const ReplyHead head = head_of(*pending.shard, KvStatus::kOk, op.result.version);
  MessagePtr message = endpoint_.make_message();
  if (pending.method != Method::kBatch) {
    HeadBuffer buffer;
    const WriteReply reply = {head, op.achieved, op.from_record};
    message->append_copy(pending.method == Method::kAdd ? encode_add_reply({reply, op.result.value}, buffer)
                                                        : encode_write_reply(reply, buffer));
    return message;
  }
  std::vector<BatchEntry> entries;
  entries.reserve(op.results.size());
  for (const MutationResult& result : op.results) entries.push_back({result.status, result.version, result.value});
  std::vector<std::byte> buffer(batch_reply_bytes(entries.size()));
  BatchReply reply;
  reply.head = head;
  reply.applied = !op.not_applied;
  reply.durability = op.not_applied ? Durability::kDefault : op.achieved;
  reply.from_record = op.from_record;
  message->append_copy(encode_batch_reply(reply, entries, buffer));
  return message;
}

}  // namespace skua::kv
