#include "kvstore/client/batch_operation.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/failure_text.h"
#include "kvstore/client/operation_runner.h"
#include "kvstore/codec/key_hash.h"

namespace skua::kv {
namespace {

std::string name_of(const Mutation& op) {
  return op.kind == Mutation::Kind::kCheck ? "check" : absl::AsciiStrToLower(method_name(method_of(op.kind)));
}

/// Of an operation that could not be done.
absl::Status status_of(const Mutation& op, const MutationResult& entry) {
  const Method method = op.kind == Mutation::Kind::kAppend ? Method::kAppend : Method::kBatch;
  return {to_status_code(entry.status), describe_answer(method, op.condition, entry.status, entry.version, {})};
}

}  // namespace

absl::Status BatchOperation::accept(const BatchCall& call, BatchCallback&& callback) {
  method = Method::kBatch;
  if (!call.batch.status().ok()) return call.batch.status();
  if (call.batch.size() == 0) return absl::InvalidArgumentError("BATCH needs one operation at least");
  ops_ = call.batch.ops_;
  features = (ops_.has_checks() ? kFeatureBatchCheck : 0) | (ops_.has_marks() ? kFeatureMarks : 0);
  durability_ = call.options.durability;
  done_ = std::move(callback);
  return absl::OkStatus();
}

void BatchOperation::reset() {
  NumberedOperation::reset();
  // The memory goes with the old builder.
  if (ops_.ops().bytes().size() > kOperationBytesKept) static_cast<void>(std::exchange(ops_, {}));
  ops_.clear();
}

absl::Status BatchOperation::place(const KeyPlacement& placement) {
  const std::string_view first = ops_.ops().begin()->key;
  shard = placement.shard_of(first);
  std::optional<std::string_view> elsewhere;
  ops_.ops().for_each_key([&](std::string_view key) {
    if (placement.shard_of(key) != shard && !elsewhere.has_value()) elsewhere = key;
  });
  shard_known = !elsewhere.has_value();
  if (shard_known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "its keys are in different shards, and a batch is atomic in one: ", quoted_key(first), " is in shard ", shard,
      ", ", quoted_key(*elsewhere), " in shard ", placement.shard_of(*elsewhere), " of ", placement.shard_count,
      placement.hash_tags ? "; give them one tag in braces, {like-this}, or write them one by one"
                          : "; make the table with one shard or with hash tags, or write them one by one"));
}

absl::StatusOr<CallOperation::Request> BatchOperation::encode(const Route& route, HeadBuffer& buffer) {
  const BatchOps ops = ops_.ops();
  return request_of(encode_batch_head({route, ops, id, durability_}, buffer), ops.bytes());
}

void BatchOperation::on_reply(rpc::Lease&& lease) {
  absl::StatusOr<BatchReply> reply = decode_batch_reply(lease.bytes());
  if (!reply.ok()) return runner->on_malformed(*this, reply.status());
  if (!runner->is_answer(*this, reply->head)) return;
  if (reply->head.status == KvStatus::kOk && reply->entries.size() != ops_.size()) {
    return runner->on_malformed(*this, absl::InternalError("it has another number of entries than operations"));
  }
  BatchResult result;
  result.version = reply->head.version;
  result.durability = reply->durability;
  result.repeated = reply->from_record;
  result.token = token_of(reply->head);
  if (reply->head.status != KvStatus::kOk) {
    result.status = make_answer_status(*this, {}, reply->head);
  } else {
    read_entries(*reply, result);
  }
  if (!reply->applied && result.status.ok()) {
    return runner->on_malformed(*this, absl::InternalError("nothing was applied, and no entry says why"));
  }
  runner->end(*this, done_, std::move(result));
}

/// Reads what became of each operation. The operations themselves are only looked at up to one that could not be done.
void BatchOperation::read_entries(BatchReply& reply, BatchResult& result) const {
  result.ops.resize(reply.entries.size());
  std::optional<BatchOps::Iterator> op;
  size_t op_at = 0;
  auto next = reply.entries.begin();
  for (size_t i = 0; i < result.ops.size(); ++i, ++next) {
    const MutationResult& entry = *next;
    result.ops[i].version = entry.version;
    result.ops[i].value = entry.value;
    if (entry.status == KvStatus::kOk) continue;
    if (!op) op = ops_.ops().begin();
    for (; op_at < i; ++op_at) ++*op;
    result.ops[i].status = status_of(**op, entry);
    if (reply.applied || !result.status.ok()) continue;
    result.version = entry.version;
    result.status = absl::Status(
        result.ops[i].status.code(),
        absl::StrCat(describe_operation(*this), ": nothing was applied, because operation ", i + 1, " (", name_of(**op),
                     " ", quoted_key((*op)->key), ") cannot be: ", std::string(result.ops[i].status.message())));
  }
}

void BatchOperation::finish(Outcome&& outcome) {
  runner->end(*this, done_, failed<BatchResult>(std::move(outcome)));
}

}  // namespace skua::kv
