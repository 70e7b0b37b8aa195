// BATCH: Batch encodes the operations, and the client sends these bytes unchanged. All keys must be in one shard.
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/failure_text.h"
#include "kvstore/codec/key_hash.h"

namespace skua::kv {
namespace {

const char* kind_name(BatchOp::Kind kind) {
  switch (kind) {
    case BatchOp::Kind::kPut: return "put";
    case BatchOp::Kind::kDelete: return "delete";
    case BatchOp::Kind::kAdd: return "add";
    case BatchOp::Kind::kAppend: return "append";
    case BatchOp::Kind::kPatch: return "patch";
    case BatchOp::Kind::kExpire: return "expire";
  }
  return "?";
}

}  // namespace

absl::Status ClientCore::batch(std::string_view table, const Batch& batch, const BatchOptions& options,
                               BatchCallback&& done) {
  if (absl::Status status = admit(table, options.timeout); !status.ok()) return status;
  if (!batch.status().ok()) return batch.status();
  if (batch.size() == 0) return absl::InvalidArgumentError("BATCH needs one operation at least");
  const BatchOps::Iterator first = batch.ops_.ops().begin();
  Operation& operation = begin(Method::kBatch, table, first->key, options.timeout);
  if (operation.batch == nullptr) operation.batch = std::make_unique<BatchState>();
  operation.batch->ops = batch.ops_;
  operation.batch->on_batch = std::move(done);
  operation.durability = options.durability;
  return submit(operation);
}

bool ClientCore::place_batch(Operation& operation, uint32_t shard_count) {
  operation.shard = shard_of_key(operation.key, shard_count);
  operation.shard_known = true;
  for (const BatchOp& op : operation.batch->ops.ops()) {
    const uint32_t shard = shard_of_key(op.key, shard_count);
    if (shard == operation.shard) continue;
    operation.shard_known = false;
    fail(operation, absl::StatusCode::kInvalidArgument,
         absl::StrCat("its keys are in different shards, and a batch is atomic in one: ", shown_key(operation.key),
                      " is in shard ", operation.shard, ", ", shown_key(op.key), " in shard ", shard, " of ",
                      shard_count, "; make the table with one shard, or write them one by one"),
         false);
    return false;
  }
  return true;
}

void ClientCore::on_batch_reply(Operation& operation, const rpc::Lease& lease) {
  absl::StatusOr<BatchReply> reply = decode_batch_reply(lease.bytes());
  if (!reply.ok()) return on_malformed(operation, reply.status());
  if (!judge(operation, reply->head)) return;
  const BatchOps ops = operation.batch->ops.ops();
  if (reply->head.status == KvStatus::kOk && reply->entries.size() != ops.size()) {
    return on_malformed(operation, absl::InternalError("it has another number of entries than operations"));
  }
  BatchResult result;
  result.version = reply->head.version;
  result.durability = reply->durability;
  result.repeated = reply->from_record;
  result.token = {operation.table_id, operation.shard, reply->head.epoch, reply->head.index};
  if (reply->head.status != KvStatus::kOk) result.status = make_answer_status(operation, reply->head);
  for (BatchOps::Iterator op = ops.begin(); op != ops.end() && reply->head.status == KvStatus::kOk; ++op) {
    const std::optional<BatchEntry> entry = reply->entries.next();
    BatchOpResult& out = result.ops.emplace_back();
    out.version = entry->version;
    out.value = entry->value;
    if (entry->status == KvStatus::kOk) continue;
    const Method method = op->kind == BatchOp::Kind::kAppend ? Method::kAppend : Method::kBatch;
    const std::string why = describe_answer(method, op->condition, entry->status, entry->version, {});
    out.status = absl::Status(to_status_code(entry->status), why);
    if (reply->applied || !result.status.ok()) continue;
    result.version = entry->version;
    result.status = absl::Status(
        out.status.code(),
        absl::StrCat(describe_operation(operation), ": nothing was applied, because operation ", result.ops.size(),
                     " (", kind_name(op->kind), " ", shown_key(op->key), ") cannot be: ", why));
  }
  if (!reply->applied && result.status.ok()) {
    return on_malformed(operation, absl::InternalError("nothing was applied, and no entry says why"));
  }
  finish_batch(operation, std::move(result));
}

void ClientCore::finish_batch(Operation& operation, BatchResult&& result) {
  BatchCallback done = std::move(operation.batch->on_batch);
  end(operation, result);
  done(std::move(result));
}

}  // namespace skua::kv
