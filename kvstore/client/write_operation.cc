#include "kvstore/client/write_operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/failure_text.h"
#include "kvstore/client/operation_runner.h"
#include "kvstore/client/write_options.h"
#include "kvstore/codec/row.h"
#include "kvstore/codec/text.h"

namespace skua::kv {

absl::Status WriteOperation::take_options(const WriteOptions& options) {
  const absl::StatusOr<Condition> condition = condition_of(options);
  if (!condition.ok()) return condition.status();
  if (options.if_absent && (method == Method::kDelete || method == Method::kExpire)) {
    return absl::InvalidArgumentError(absl::StrCat(method_name(method), " cannot be if_absent"));
  }
  const absl::StatusOr<uint64_t> ttl_ms = ttl_ms_of(options.ttl);
  if (!ttl_ms.ok()) return ttl_ms.status();
  if (*ttl_ms != 0 && method != Method::kPut && method != Method::kExpire) {
    return absl::InvalidArgumentError(
        absl::StrCat(method_name(method), " has no time to live; a key keeps the one it has, and EXPIRE sets it"));
  }
  if (options.keep_ttl && method != Method::kPut) {
    return absl::InvalidArgumentError(absl::StrCat("keep_ttl is PUT's; ", method_name(method), " keeps it anyhow"));
  }
  if (!options.mark.empty() && method != Method::kPut && (method != Method::kPatch || options.mark.tag != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("a mark is PUT's; ", method_name(method), " keeps the record's"));
  }
  condition_ = *condition;
  mark_ = options.mark;
  features = mark_.empty() ? 0 : kFeatureMarks;
  ttl_ms_ = *ttl_ms;
  keep_ttl_ = options.keep_ttl;
  durability_ = options.durability;
  return absl::OkStatus();
}

absl::Status WriteOperation::take_fields(std::span<const FieldUpdate> fields) {
  if (fields.empty()) return absl::InvalidArgumentError("PATCH needs one field at least");
  size_t bytes = 0;
  for (const FieldUpdate& field : fields) {
    if (field.remove && !field.value.empty()) {
      return absl::InvalidArgumentError("a field that PATCH removes has no value");
    }
    edits_row_ |= field.remove;
    bytes += field_bytes({field.name, as_byte_span(field.value)});
  }
  if (bytes > kValueBytesMax) return beyond_limit("the PATCH", "byte", bytes, kValueBytesMax);
  for (const FieldUpdate& field : fields) {
    append_field(payload_, {field.name, as_byte_span(field.value), field.remove});
  }
  if (edits_row_) features |= kFeatureRowEdits;
  return edits_row_ ? check_edit(as_byte_span(payload_)) : check_row(as_byte_span(payload_));
}

absl::Status WriteOperation::accept(WriteCall& call, WriteCallback&& callback) {
  method = call.method;
  if (absl::Status status = check_value(as_byte_span(call.value.bytes())); !status.ok()) return status;
  if (absl::Status status = check_key(call.key); !status.ok()) return status;
  if (absl::Status status = take_options(call.options); !status.ok()) return status;
  edits_row_ = call.count_fields;
  if (method == Method::kPatch) {
    if (absl::Status status = take_fields(call.fields); !status.ok()) return status;
  }
  key_.assign(call.key);
  delta_ = call.delta;
  create_if_missing_ = call.create_if_missing;
  if (!call.value.is_view()) {
    value_ = std::move(call.value);
  } else if (method != Method::kPatch) {
    payload_.assign(call.value.bytes());
  }
  done_ = std::move(callback);
  return absl::OkStatus();
}

void WriteOperation::reset() {
  NumberedOperation::reset();
  value_ = PutValue();
  payload_.clear();
  if (payload_.capacity() > kOperationBytesKept) payload_.shrink_to_fit();
}

absl::StatusOr<CallOperation::Request> WriteOperation::encode(const Route& route, HeadBuffer& buffer) {
  const std::optional<Mutation::Kind> kind = kind_of(method);
  if (!kind.has_value()) return absl::InternalError("not a write of one key");
  const ByteSpan bytes = as_byte_span(body());
  const Mutation mutation{*kind,  create_if_missing_, condition_, key_,      bytes, ttl_ms_,
                          delta_, keep_ttl_,          mark_,      edits_row_};
  return request_of(encode_mutation_head({route, mutation, id, durability_}, buffer), bytes);
}

void WriteOperation::on_reply(rpc::Lease&& lease) {
  absl::StatusOr<AddReply> reply = AddReply();
  if (method == Method::kAdd || edits_row_) {
    reply = decode_add_reply(lease.bytes());
  } else if (const absl::StatusOr<WriteReply> plain = decode_write_reply(lease.bytes()); plain.ok()) {
    reply->write = *plain;
  } else {
    reply = plain.status();
  }
  if (!reply.ok()) return runner->on_malformed(*this, reply.status());
  const ReplyHead& head = reply->write.head;
  if (!runner->is_answer(*this, head)) return;
  WriteResult result;
  result.version = head.version;
  result.durability = reply->write.durability;
  result.repeated = reply->write.from_record;
  if (edits_row_) {
    result.fields = PatchCounts::of_word(reply->value);
  } else {
    result.value = reply->value;
  }
  result.token = token_of(head);
  if (head.status == KvStatus::kNotFound) {
    result.status = runner->not_found();
  } else if (head.status != KvStatus::kOk) {
    result.status = make_answer_status(*this, condition_, head);
  }
  runner->end(*this, done_, std::move(result));
}

void WriteOperation::finish(Outcome&& outcome) {
  runner->end(*this, done_, failed<WriteResult>(std::move(outcome)));
}

}  // namespace skua::kv
