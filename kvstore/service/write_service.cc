#include "kvstore/service/write_service.h"

#include <algorithm>
#include <utility>

#include "kvstore/codec/batch.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

std::string_view explain(KvStatus status) {
  switch (status) {
    case KvStatus::kInvalidArgument:
      return "the new value would be larger than values may be (16 MiB), or the patch is not in row format";
    case KvStatus::kNotARow: return "the value is not in row format, or the record is not marked as a row";
    case KvStatus::kIsARow: return "the record is marked as a row: PATCH it, or PUT it whole";
    case KvStatus::kNotANumber: return "the value is no decimal int64";
    case KvStatus::kCounterOverflow: return "the counter would leave the range of an int64";
    case KvStatus::kAlreadyExists: return "the key exists";
    case KvStatus::kVersionMismatch: return "the key has another version";
    default: return {};
  }
}

/// True: data may grow by the mutation. An edit that only removes fields writes what is left of the row.
bool makes_grow(const Mutation& mutation) {
  return mutation.kind != Mutation::Kind::kDelete && mutation.kind != Mutation::Kind::kCheck;
}

/// True: the answer tells something of the shard's state. A value that would be too large is told with the version of
/// the value that it would replace.
bool tells_of_state(const WriteOp& op) {
  const auto [status, version, value] = op.result;
  if (status == KvStatus::kOk) return version == 0 || op.is_unchanged;
  return rests_on_state(status) || (status == KvStatus::kInvalidArgument && version != 0);
}

}  // namespace

using rpc::IncomingCall;
using rpc::MessagePtr;

// --- One mutation

void WriteService::on_mutation(IncomingCall&& call) {
  const auto method = static_cast<Method>(call.method);
  HeldShard* const shard = admission_.admit(call, method);
  if (shard == nullptr) return;
  const absl::StatusOr<MutationRequest> request = decode_mutation(method, call.request.bytes());
  if (!request.ok()) return replies_.error(call.reply, method, *shard, request.status());
  PendingRequest* const pending = begin(call, method, *shard, request->id, makes_grow(request->mutation));
  if (pending == nullptr) return;
  pending->write.mutation = request->mutation;
  start(*pending, request->id, request->durability);
}

// --- Batches

void WriteService::on_batch(IncomingCall&& call) {
  HeldShard* const shard = admission_.admit(call, Method::kBatch);
  if (shard == nullptr) return;
  const absl::StatusOr<BatchRequest> request = decode_batch(call.request.bytes(), &ops_);
  if (!request.ok()) return replies_.error(call.reply, Method::kBatch, *shard, request.status());
  admission_.count_operations(call, *shard, ops_.size());
  const bool grows = std::ranges::any_of(ops_, makes_grow);
  PendingRequest* const pending = begin(call, Method::kBatch, *shard, request->id, grows);
  if (pending == nullptr) return;
  std::swap(pending->batch, ops_);
  start(*pending, request->id, request->durability);
}

// --- What all writes share

/// A pending request for a write that may be executed. Null: the request was answered. `grows`: the write makes data
/// grow. A repetition of an executed write is answered even if nothing may grow. Otherwise its client would take the
/// write for not executed.
PendingRequest* WriteService::begin(IncomingCall& call, Method method, HeldShard& shard, const RequestId& id,
                                    bool grows) {
  if (!admission_.takes_writes(call, method, shard)) return nullptr;
  if (grows && !growth_.ok() && !shard.shard->is_repetition(id)) {
    replies_.error(call.reply, method, shard, growth_);
    return nullptr;
  }
  if (!admission_.takes_client_id(call, method, shard, id)) return nullptr;
  return admission_.begin(*this, call.request, call.reply, method, shard);
}

void WriteService::start(PendingRequest& pending, const RequestId& id, Durability durability) {
  WriteOp& op = pending.write;
  op.batch = pending.batch;
  if (!pending.batch.empty()) op.mutation = {};
  op.id = id;
  op.durability = durability;
  admission_.await_result();
  pending.shard->shard->write(op);
}

void WriteService::write_done(WriteOp& op) {
  PendingRequest& pending = *static_cast<PendingRequest*>(op.context);
  admission_.got_result();
  // A refusal because of the shard's state tells the client that state, so it must be as fresh as a read. The same is
  // true if an earlier attempt was refused: perhaps no client was told of that refusal, because the state was not the
  // newest.
  if (tells_of_state(op)) return admission_.answer_when_fresh(pending);
  answer(pending);
}

void WriteService::answer(PendingRequest& pending) {
  const WriteOp& op = pending.write;
  const auto [status, version, value] = op.result;
  if (status == KvStatus::kOk) {
    replies_.send(pending.reply, pending.method, status, reply_to(pending));
  } else {
    const std::string_view why = op.why.empty() ? explain(status) : std::string_view(op.why);
    replies_.error(pending.reply, pending.method, replies_.head_of(*pending.shard, status, version, why));
  }
  admission_.end(pending);
}

void WriteService::read_done(PendingRequest& /*pending*/) {
  SKUA_CHECK(false, "a write gives no read to the reader pool");
}

MessagePtr WriteService::reply_to(PendingRequest& pending) {
  const WriteOp& op = pending.write;
  const ReplyHead head = replies_.head_of(*pending.shard, KvStatus::kOk, op.result.version);
  MessagePtr message = replies_.make_message();
  if (pending.method != Method::kBatch) {
    HeadBuffer buffer;
    const WriteReply reply = {head, op.achieved, op.from_record};
    const bool has_number = pending.method == Method::kAdd || op.mutation.edits_row;
    message->append_copy(has_number ? encode_add_reply({reply, op.result.value}, buffer)
                                    : encode_write_reply(reply, buffer));
    return message;
  }
  const size_t bytes = batch_reply_bytes(op.results.size());
  if (batch_reply_.size() < bytes) batch_reply_.resize(bytes);
  BatchReply reply;
  reply.head = head;
  reply.applied = !op.not_applied;
  reply.durability = op.not_applied ? Durability::kDefault : op.achieved;
  reply.from_record = op.from_record;
  message->append_copy(encode_batch_reply(reply, op.results, batch_reply_));
  return message;
}

}  // namespace skua::kv
