#include "kvstore/client/get_operation.h"

#include <utility>

#include "kvstore/client/failure_text.h"
#include "kvstore/client/multi_get_operation.h"
#include "kvstore/client/operation_runner.h"
#include "kvstore/codec/text.h"

namespace skua::kv {

namespace {

/// Memory for names of fields that an operation keeps for its next use.
constexpr size_t kKeptNameBytesMax = 1024;

}  // namespace

inline void GetOperation::take(std::string_view key, const ReadOptions& options) {
  method = Method::kGet;
  is_part = false;
  key_.assign(key);
  at_least_ = options.at_least;
  wishes_ = {.ttl = options.with_ttl,
             .mark = options.with_mark,
             .size_only = options.size_only,
             .fields = !options.fields.empty()};
  features = (wishes_.mark ? kFeatureMarks : 0) | (wishes_.size_only ? kFeatureGetSize : 0) |
             (wishes_.fields ? kFeatureGetFields : 0);
}

inline absl::Status GetOperation::check(std::string_view key, const ReadOptions& options) {
  if (options.memory_only || !options.fields.empty()) [[unlikely]] {
    if (absl::Status status = take_rare(options); !status.ok()) return status;
  }
  return check_key(key);
}

absl::Status GetOperation::take_rare(const ReadOptions& options) {
  if (options.memory_only) {
    return absl::InvalidArgumentError("GET does not take memory_only; read the key with MULTI_GET");
  }
  if (options.size_only) {
    return absl::InvalidArgumentError("GET takes either fields or size_only: the value's size is that of the whole");
  }
  field_count_ = options.fields.size();
  return encode_field_names(options.fields, field_names_);
}

absl::Status GetOperation::accept(const GetCall& call, GetCallback&& callback) {
  if (absl::Status status = check(call.key, call.options); !status.ok()) return status;
  take(call.key, call.options);
  done_ = std::move(callback);
  function_.call = nullptr;
  return absl::OkStatus();
}

absl::Status GetOperation::accept(const PlainGetCall& call, const GetFunction& function) {
  if (absl::Status status = check(call.key, call.options); !status.ok()) return status;
  take(call.key, call.options);
  function_ = function;
  return absl::OkStatus();
}

void GetOperation::ask_for(std::string_view key, bool wants_mark, MultiGetOperation& parent, uint32_t index) {
  key_.assign(key);
  at_least_ = {};
  wishes_ = {.mark = wants_mark};
  features = wants_mark ? kFeatureMarks : 0;
  parent_ = &parent;
  key_index_ = index;
}

void GetOperation::reset() {
  CallOperation::reset();
  if (field_names_.capacity() > kKeptNameBytesMax) std::string().swap(field_names_);
}

absl::StatusOr<CallOperation::Request> GetOperation::encode(const Route& route, HeadBuffer& buffer) {
  GetRequest request{route, key_, at_least_.index, wishes_};
  if (wishes_.fields) request.fields = StringList(as_byte_span(field_names_), field_count_);
  return request_of(encode_get(request, buffer), request.fields.bytes());
}

void GetOperation::on_reply(rpc::Lease&& lease) {
  GetReply reply;
  if (!decode_plain_get_reply(lease.bytes(), reply)) [[unlikely]] {
    const absl::StatusOr<GetReply> decoded = decode_get_reply(lease.bytes());
    if (!decoded.ok()) return runner->on_malformed(*this, decoded.status());
    reply = *decoded;
  }
  if (!runner->is_answer(*this, reply.head)) return;
  GetResult result;
  result.version = reply.head.version;
  result.token = token_of(reply.head);
  if (reply.head.status == KvStatus::kOk) [[likely]] {
    if (reply.ttl_ms != 0) result.ttl = std::chrono::milliseconds(reply.ttl_ms);
    result.mark = reply.mark;
    result.value_bytes = reply.value_bytes;
    result.value = ValueView(as_string_view(reply.value), std::move(lease));
  } else if (reply.head.status == KvStatus::kNotFound) {
    result.status = runner->not_found();
  } else {
    result.status = make_answer_status(*this, {}, reply.head);
  }
  finish_with(std::move(result));
}

void GetOperation::finish(Outcome&& outcome) {
  finish_with(failed<GetResult>(std::move(outcome)));
}

void GetOperation::call_function(GetResult&& result) {
  const GetFunction function = function_;
  runner->forget(*this, result);
  function.call(function.function, function.context, std::move(result));
}

void GetOperation::finish_with(GetResult&& result) {
  if (is_part) return parent_->add_lone_value(*this, std::move(result));
  if (function_.call != nullptr) return call_function(std::move(result));
  runner->end(*this, done_, std::move(result));
}

}  // namespace skua::kv
