// One attempt of an operation, and what follows from its end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/table_names.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/failure_text.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {

// --- Routing

void ClientCore::dispatch(Operation& operation) {
  if (closing_) {
    return fail(operation, absl::StatusCode::kCancelled, "the client was closed", false);
  }
  operation.target = kNoTarget;
  if (operation.routes_revision != routes_.revision() || operation.routes_revision == 0) [[unlikely]] {
    operation.routes = routes_.find_table(operation.table);
    if (operation.routes == nullptr) return dispatch_without_table(operation);
    operation.routes_revision = routes_.revision();
  }
  const TableRoutes* table = operation.routes;
  if (operation.kind == Kind::kMultiGet) return start_multi_get(operation, *table);
  if (operation.kind == Kind::kScan) return start_scan(operation, *table);
  const auto shard_count = static_cast<uint32_t>(table->shards.size());
  if (!operation.is_part() && shard_count > 0) {
    if (operation.method == Method::kBatch) {
      if (!place_batch(operation, shard_count)) return;
    } else {
      operation.shard = shard_of_key(operation.key, shard_count);
      operation.shard_known = true;
    }
  }
  if (operation.shard >= shard_count) {
    return fail(operation, absl::StatusCode::kAborted,
                "the table was dropped and created anew with fewer shards meanwhile", false);
  }
  const ShardRoute& route = table->shards[operation.shard];
  if (!operation.at_least.empty() && !may_read(operation, *table, route)) return;
  operation.target = route.target;
  if (route.target == kNoTarget) {
    cluster_.hurry();
    return park(operation, Awaits::kMap, kTimeNever);
  }
  operation.spreads = route.backup_count > 0 && !operation.is_write();
  if (operation.spreads) spread_read(operation, *table, route);
  if (!sessions_->is_open(operation.target)) {
    return park(operation, Awaits::kSession, sessions_->ensure_open(operation.target, now()));
  }
  send(operation, *table, route);
}

void ClientCore::spread_read(Operation& operation, const TableRoutes& table, const ShardRoute& route) {
  operation.at_backup = false;
  if (std::exchange(operation.to_primary, false)) return;
  const TimeNs time = submitting_ > 0 ? operation.started_ns : now();
  const auto is_open = [this](TargetId target) { return sessions_->is_open(target); };
  const std::span<const TargetId> backups = table.backups_of(route);
  for (const TargetId backup : backups) {
    if (!is_open(backup)) sessions_->ensure_open(backup, time);
  }
  operation.target = spread_.choose(route.target, backups, time, rng_, is_open);
  operation.at_backup = operation.target != route.target;
}

void ClientCore::turn_to_primary(Operation& operation, bool at_fault) {
  ++counters_.backup_reads_refused;
  if (at_fault) spread_.failed(operation.target, now());
  operation.to_primary = true;
  dispatch(operation);
}

void ClientCore::dispatch_without_table(Operation& operation) {
  // A table that was created a moment ago may not be in our map yet, so the operation waits for a newer map. A table
  // that does not exist is reported early, and not after the whole timeout. Without the control plane the client cannot
  // tell the two apart, and waits.
  const TimeNs until = operation.started_ns + kUnknownTableWaitNs;
  if (routes_.revision() > 0 && now() >= until && cluster_.connection().ok()) {
    return fail(operation, absl::StatusCode::kFailedPrecondition, why_no_table(operation.table), false);
  }
  cluster_.hurry();
  park(operation, Awaits::kMap, now() < until ? until : now() + kUnknownTableWaitNs);
}

bool ClientCore::may_read(Operation& operation, const TableRoutes& table, const ShardRoute& route) {
  const Token& token = operation.at_least;
  if (token.table_id != table.id) {
    fail(operation, absl::StatusCode::kFailedPrecondition,
         "the token is of another table, or of one of this name that was dropped", false);
    return false;
  }
  if (token.shard != operation.shard) {
    fail(operation, absl::StatusCode::kInvalidArgument,
         absl::StrCat("the token is of shard ", token.shard, "; a token says nothing of other shards"), false);
    return false;
  }
  if (token.epoch <= route.epoch) return true;
  // The token is from a later epoch than our map's. The primary that our map names may lack the state of the token.
  cluster_.hurry();
  park(operation, Awaits::kMap, kTimeNever);
  return false;
}

// --- Sending

absl::StatusOr<ByteSpan> ClientCore::encode_head(Operation& operation, const Route& route, const RequestId& id,
                                                 ByteSpan body, HeadBuffer& buffer) {
  const Operation& op = operation;
  switch (op.method) {
    case Method::kGet: return encode_get({route, op.key, op.at_least.index, op.wants_ttl}, buffer);
    case Method::kPut:
      return encode_put_head({route, op.condition, op.key, body, id, op.durability, op.ttl_ms}, buffer);
    case Method::kDelete: return encode_delete({route, op.condition, op.key, id, op.durability}, buffer);
    case Method::kPatch:
      return encode_patch_head({route, op.create_if_missing, op.key, body, op.condition, id, op.durability}, buffer);
    case Method::kAdd: return encode_add({route, op.condition, op.key, op.delta, id, op.durability}, buffer);
    case Method::kAppend: return encode_append_head({route, op.condition, op.key, body, id, op.durability}, buffer);
    case Method::kExpire: return encode_expire({route, op.condition, op.key, op.ttl_ms, id, op.durability}, buffer);
    case Method::kBatch: return encode_batch_head({route, op.batch->ops.ops(), id, op.durability}, buffer);
    case Method::kMultiGet: return encode_multi_get_part(op, route);
    case Method::kScan: return encode_scan_page(op, route);
    case Method::kReplicate:
    case Method::kFetchChunk:
    case Method::kFetchTail:
    case Method::kVouch: break;  // only nodes send these
  }
  return absl::InternalError("no such method");
}

rpc::MessagePtr ClientCore::message_of(Operation& operation, ByteSpan head, ByteSpan body) {
  rpc::MessagePtr message = endpoint_->make_message();
  message->append_copy(head);
  if (body.empty() || (message->body_count() == 0 && message->append_head(body))) return message;
  // The body is sent from the operation's memory. The hold keeps that memory until the message is released.
  OperationPool::hold(operation);
  const bool added = message->add_body(body, &OperationPool::drop_body, &operation);
  SKUA_CHECK(added, "a request is a head and a body");
  return message;
}

void ClientCore::send(Operation& operation, const TableRoutes& table, const ShardRoute& route) {
  operation.state = State::kInFlight;
  operation.session = sessions_->session(operation.target);
  // Inside a submitting call the operation began a moment ago: started_ns saves a second look at the clock.
  operation.attempt_ns = submitting_ > 0 ? operation.started_ns : now();
  if (operation.attempt++ > 0) ++counters_.retries;
  if (operation.uncertain) ++counters_.repeated_writes;
  ++counters_.attempts;
  DurationNs left_ns = operation.deadline_ns - operation.attempt_ns;
  if (left_ns <= 0) return expire(operation);
  if (operation.spreads) left_ns = std::min(left_ns, kReadPatienceNs << std::min(operation.failed_attempts, 10u));
  const Route told{table.id, operation.shard, route.epoch, routes_.revision()};
  RequestId id;
  if (operation.is_write()) {
    id = lanes_.identify(operation, table.id, operation.shard, static_cast<uint32_t>(table.shards.size()));
  }
  operation.table_id = table.id;
  const bool is_batch = operation.method == Method::kBatch;
  const ByteSpan body = is_batch ? operation.batch->ops.ops().bytes() : as_byte_span(operation.body());
  HeadBuffer buffer;
  ByteSpan head;
  if (operation.method == Method::kGet && operation.at_least.empty() && !operation.wants_ttl) [[likely]] {
    head = encode_plain_get(told, operation.key, buffer);
  } else {
    const absl::StatusOr<ByteSpan> encoded = encode_head(operation, told, id, body, buffer);
    if (!encoded.ok()) return fail(operation, encoded.status().code(), std_view(encoded.status().message()), false);
    head = *encoded;
  }
  sessions_->call_started(operation.target);
  const auto method = static_cast<rpc::MethodId>(operation.method);
  const rpc::CallOptions options{.timeout_ns = left_ns, .now_ns = operation.attempt_ns};
  rpc::CompletionFn done = [this, &operation](rpc::CallResult&& result) { on_result(operation, std::move(result)); };
  const absl::StatusOr<rpc::CallId> call =
      body.empty() && head.size() <= rpc::kFewBytesMax
          ? endpoint_->call(operation.session, method, head, options, std::move(done))
          : endpoint_->call(operation.session, method, message_of(operation, head, body), options, std::move(done));
  if (call.ok()) {
    operation.call = *call;
    return calls_.push_back(operation);
  }
  on_result(operation, {.status = call.status(), .response = {}, .from_peer = false, .may_have_executed = false});
}

// --- The end of an attempt

void ClientCore::on_result(Operation& operation, rpc::CallResult&& result) {
  operation.call_hook.unlink();
  if (result.status.ok()) {
    sessions_->call_ended(operation.target, operation.session, true);
    switch (operation.method) {
      case Method::kGet: return on_get_reply(operation, std::move(result.response));
      case Method::kMultiGet: return on_multi_get_reply(operation, std::move(result.response));
      case Method::kScan: return on_scan_reply(operation, std::move(result.response));
      case Method::kBatch: return on_batch_reply(operation, result.response);
      default: return on_write_reply(operation, result.response);
    }
  }
  if (operation.moved) [[unlikely]] {
    return on_given_up(operation, result);
  }
  const Judgement judgement = judge_failure(
      repeat_of(operation),
      {.code = result.status.code(), .from_peer = result.from_peer, .may_have_executed = result.may_have_executed});
  if (judgement.session_suspect) sessions_->suspect(operation.target, operation.session);
  sessions_->call_ended(operation.target, operation.session, result.from_peer);
  retry_or_give_up(operation, judgement, result.status);
}

void ClientCore::on_get_reply(Operation& operation, rpc::Lease&& lease) {
  GetReply reply;
  if (!decode_plain_get_reply(lease.bytes(), reply)) [[unlikely]] {
    absl::StatusOr<GetReply> decoded = decode_get_reply(lease.bytes());
    if (!decoded.ok()) return on_malformed(operation, decoded.status());
    reply = *decoded;
  }
  if (!judge(operation, reply.head)) return;
  GetResult result;
  result.version = reply.head.version;
  result.token = {operation.table_id, operation.shard, reply.head.epoch, reply.head.index};
  if (reply.head.status == KvStatus::kOk) [[likely]] {
    if (reply.ttl_ms != 0) result.ttl = std::chrono::milliseconds(reply.ttl_ms);
    result.value = ValueView(as_string_view(reply.value), std::move(lease));
  } else if (reply.head.status == KvStatus::kNotFound) {
    result.status = not_found_;
  } else {
    result.status = make_answer_status(operation, reply.head);
  }
  finish_get(operation, std::move(result));
}

void ClientCore::on_write_reply(Operation& operation, const rpc::Lease& lease) {
  absl::StatusOr<AddReply> reply = AddReply();
  if (operation.method == Method::kAdd) {
    reply = decode_add_reply(lease.bytes());
  } else if (const absl::StatusOr<WriteReply> plain = decode_write_reply(lease.bytes()); plain.ok()) {
    reply->write = *plain;
  } else {
    reply = plain.status();
  }
  if (!reply.ok()) return on_malformed(operation, reply.status());
  const ReplyHead& head = reply->write.head;
  if (!judge(operation, head)) return;
  WriteResult result;
  result.version = head.version;
  result.durability = reply->write.durability;
  result.repeated = reply->write.from_record;
  result.value = reply->value;
  result.token = {operation.table_id, operation.shard, head.epoch, head.index};
  if (head.status == KvStatus::kNotFound) {
    result.status = not_found_;
  } else if (head.status != KvStatus::kOk) {
    result.status = make_answer_status(operation, head);
  }
  finish_write(operation, std::move(result));
}

bool ClientCore::judge(Operation& operation, const ReplyHead& head) {
  if (operation.spreads) {
    const bool answered = head.status == KvStatus::kOk || head.status == KvStatus::kNotFound;
    if (!answered && operation.at_backup) {
      turn_to_primary(operation, head.status != KvStatus::kUnavailable);
      return false;
    }
    if (answered) spread_.answered(operation.target);
    if (operation.at_backup) ++counters_.backup_reads;
  }
  if (head.status == KvStatus::kOk) return true;
  Judgement judgement = judge_reply(repeat_of(operation), head.status);
  if (judgement.verdict == Verdict::kAnswer) return true;
  // The shard takes only numbers from head.version on. If no attempt of this write can have been executed, the write
  // may get a new number.
  if (head.status == KvStatus::kStaleRetry && !operation.uncertain && lanes_.renumber(operation, head.version)) {
    judgement = {.verdict = Verdict::kRetry};
  }
  if (head.status == KvStatus::kWrongShard) ++counters_.wrong_shard;
  retry_or_give_up(operation, judgement, to_status(head));
  return false;
}

void ClientCore::on_malformed(Operation& operation, const absl::Status& why) {
  note_attempt(operation, operation.attempt_ns, why);
  fail(operation, absl::StatusCode::kInternal,
       absl::StrCat("the node's reply is malformed: ", why.message(), "; do client and node have the same version?"),
       operation.is_write());
}

void ClientCore::retry_or_give_up(Operation& operation, const Judgement& judgement, const absl::Status& cause) {
  note_attempt(operation, operation.attempt_ns, cause);
  operation.uncertain = operation.uncertain || judgement.may_have_been_applied;
  if (judgement.refresh_map && !closing_) cluster_.hurry();
  if (operation.at_backup) return turn_to_primary(operation, true);
  if (operation.spreads && absl::IsDeadlineExceeded(cause) && now() < operation.deadline_ns) {
    // The primary is silent. Another replica may answer.
    spread_.failed(operation.target, now());
    return dispatch(operation);
  }
  const std::string_view text = std_view(cause.message());
  if (judgement.verdict != Verdict::kRetry || closing_) {
    return fail(operation, cause.code(), text, judgement.may_have_been_applied);
  }
  const bool soon = operation.failed_attempts <= kRetrySoonAttempts;
  const TimeNs when = now() + retry_pause(operation.failed_attempts, kRetryPauseMinNs,
                                          soon ? kRetryPauseSoonMaxNs : kRetryPauseMaxNs, rng_);
  if (when >= operation.deadline_ns) {
    return fail(operation, absl::StatusCode::kDeadlineExceeded,
                operation.failed_attempts > 1
                    ? "no time is left for another attempt"
                    : absl::StrCat("no time is left for another attempt; the only one: ", absl_view(text)),
                false);
  }
  park(operation, judgement.refresh_map ? Awaits::kMap : Awaits::kTime, when);
}

void ClientCore::note_attempt(Operation& operation, TimeNs started_ns, const absl::Status& outcome) {
  ++operation.failed_attempts;
  Attempt attempt;
  attempt.started = std::chrono::nanoseconds(started_ns - operation.started_ns);
  if (operation.target != kNoTarget) attempt.whom = routes_.target(operation.target).describe();
  attempt.outcome = outcome.ToString();
  auto& trail = operation.trail;
  if (trail.size() == kTrailFirstMax + kTrailLatestMax) {
    trail.erase(trail.begin() + kTrailFirstMax);
  }
  trail.push_back(std::move(attempt));
}

// --- The end of an operation

std::string ClientCore::why_no_table(std::string_view table) const {
  const absl::Status connection = cluster_.connection();
  const std::string control = cluster_.control_address();
  // The connection's message names the address and what to do.
  if (routes_.revision() == 0) return absl::StrCat("no shard map: ", connection.message());
  if (connection.ok()) {
    const std::string where = absl::StrCat(" in the cluster's map (revision ", routes_.revision(), ")");
    return absl::StrCat(control::no_such_table(table, where, routes_.table_names()).message(),
                        ". Create it with skuactl table create ", absl_view(table));
  }
  return absl::StrCat("the table is not in shard map ", routes_.revision(),
                      ", and a newer one cannot be had from the control plane at ", control, ": ",
                      connection.message());
}

void ClientCore::expire(Operation& operation) {
  std::string cause;
  if (routes_.find_table(operation.table) == nullptr) {
    cause = why_no_table(operation.table);
  } else if (operation.awaits == Awaits::kMap && operation.target == kNoTarget && !operation.at_least.empty()) {
    cause = "no shard map came that is as new as the token, or that names an owner of its shard";
  } else if (operation.awaits == Awaits::kMap && operation.target == kNoTarget) {
    cause = "the shard has no owner: its node was taken out of the cluster by force; drop the table";
  } else if (operation.awaits == Awaits::kSession) {
    const absl::Status& why = sessions_->last_error(operation.target);
    cause = absl::StrCat("no session with it could be opened: ",
                         absl::IsFailedPrecondition(why) ? why.message() : "is that node running? see skuactl status");
  } else {
    cause = "the deadline passed before the next attempt";
  }
  fail(operation, absl::StatusCode::kDeadlineExceeded, cause, false);
}

void ClientCore::fail(Operation& operation, absl::StatusCode code, std::string_view cause, bool may_have_been_applied) {
  Outcome outcome = make_failure(operation, routes_, code, cause, may_have_been_applied || operation.uncertain);
  if (submitting_ == 0) return finish(operation, std::move(outcome));
  operation.failure = std::move(outcome);
  park(operation, Awaits::kCallback, 0);
}

void ClientCore::finish_get(Operation& operation, GetResult&& result) {
  if (operation.is_part()) return on_lone_value(operation, std::move(result));
  GetCallback done = std::move(operation.on_get);
  end(operation, result);
  done(std::move(result));
}

void ClientCore::finish(Operation& operation, Outcome&& outcome) {
  switch (operation.kind) {
    case Kind::kMultiGetPart:
    case Kind::kScanPage: return part_failed(operation, std::move(outcome));
    case Kind::kMultiGet: return finish_multi_get(operation, std::move(outcome));
    case Kind::kScan: return finish_scan(operation, std::move(outcome));
    case Kind::kSingle: break;
  }
  if (operation.method == Method::kGet) {
    GetResult result;
    static_cast<Outcome&>(result) = std::move(outcome);
    return finish_get(operation, std::move(result));
  }
  if (operation.method == Method::kBatch) {
    BatchResult result;
    static_cast<Outcome&>(result) = std::move(outcome);
    return finish_batch(operation, std::move(result));
  }
  WriteResult result;
  static_cast<Outcome&>(result) = std::move(outcome);
  finish_write(operation, std::move(result));
}

void ClientCore::finish_write(Operation& operation, WriteResult&& result) {
  WriteCallback done = std::move(operation.on_write);
  end(operation, result);
  done(std::move(result));
}

void ClientCore::end(Operation& operation, const Outcome& outcome) {
  if (outcome.ok()) ++counters_.operations_ok;
  if (outcome.detail != nullptr) ++counters_.operations_failed;
  ++finished_;
  --in_flight_;
  RequestLanes::complete(operation);
  OperationPool::drop(operation);
}

}  // namespace skua::kv
