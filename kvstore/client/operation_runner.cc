#include "kvstore/client/operation_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/table_names.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/failure_text.h"
#include "kvstore/codec/key_hash.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// Most operations are such: no virtual call is needed for their requests.
bool is_plain_get(const Operation& operation) {
  return operation.method == Method::kGet && static_cast<const GetOperation&>(operation).is_plain();
}

/// A read that must see a certain state of its shard.
bool wants_state(const Operation& operation) {
  return operation.method == Method::kGet && !static_cast<const GetOperation&>(operation).at_least().empty();
}

}  // namespace

OperationRunner::OperationRunner(rpc::Endpoint& endpoint, const Clock& clock, ClusterAccess& cluster,
                                 OperationPools& pools, ClientCounters& counters, uint64_t client_id, uint64_t seed)
    : endpoint_(endpoint),
      clock_(clock),
      cluster_(cluster),
      pools_(pools),
      counters_(counters),
      rng_(seed),
      lanes_(client_id),
      sessions_(*this, endpoint, cluster, routes_, counters, rng_.next()) {}

void OperationRunner::submit(Operation& operation) {
  operation.runner = this;
  ++in_flight_;
  ++counters_.operations_started;
  ++submitting_;
  dispatch(operation);
  --submitting_;
}

TimeNs OperationRunner::next_timer_ns() {
  return std::min(parked_.next_wake_ns(), calls_.next_look_ns());
}

void OperationRunner::close() {
  closing_ = true;
  wake_parked([](const Operation&) { return true; });
  sessions_.close_all();
  sessions_.clean_up();
}

std::optional<uint32_t> OperationRunner::shard_of(std::string_view table, std::string_view key) {
  const TableRoutes* const routes = routes_.find_table(table);
  if (routes == nullptr || routes->shards.empty()) return std::nullopt;
  return routes->placement().shard_of(key);
}

absl::Status OperationRunner::readiness(std::string_view table) {
  const TableRoutes* routes = routes_.find_table(table);
  if (routes == nullptr) {
    return absl::DeadlineExceededError(
        absl::StrCat("table ", absl_view(table), " cannot be reached: ", why_no_table(table)));
  }
  absl::Status status;
  for (const ShardRoute& shard : routes->shards) {
    if (shard.target == kNoTarget) {
      status.Update(absl::DeadlineExceededError("a shard has no owner: see skuactl status"));
    } else if (!sessions_.is_open(shard.target)) {
      sessions_.ensure_open(shard.target, now());
      status.Update(
          absl::DeadlineExceededError(absl::StrCat("no session with ", routes_.target(shard.target).describe(),
                                                   " yet: ", sessions_.last_error(shard.target).message())));
    }
    // Sessions with backups are useful, but not waited for.
    for (const TargetId backup : routes->backups_of(shard)) sessions_.ensure_open(backup, now());
  }
  return status;
}

// --- The map and the clock

void OperationRunner::take_map(const control::ShardMap& map) {
  if (map.revision <= routes_.revision()) return;
  ++counters_.map_updates;
  for (TargetId target : routes_.update(map)) sessions_.drop(target);
  lanes_.forget_dropped([&](uint32_t table) { return map.find_table(control::TableId{table}) != nullptr; });
  give_up_moved();
  // Also operations that wait for a session: the node may hang, and may no longer lead the shard.
  wake_parked([](const Operation& operation) {
    return operation.awaits == Awaits::kMap || operation.awaits == Awaits::kSession;
  });
}

void OperationRunner::give_up_moved() {
  CallsInFlight::List moved;
  calls_.take_moved(routes_, lanes_.enabled(), moved);
  // A callback may end other operations of `moved` meanwhile: on_result() takes them out.
  while (CallOperation* operation = moved.pop_front()) {
    operation->moved = true;
    endpoint_.cancel(operation->call);
  }
}

void OperationRunner::work_off() {
  if (parked_.next_wake_ns() != kTimeNever) {
    const TimeNs time = clock_.now_ns();
    if (time >= parked_.next_wake_ns()) {
      wake_parked([time](const Operation& operation) { return operation.wake_at_ns <= time; });
    }
  }
  if (endpoint_.now_ns() >= calls_.next_look_ns()) {
    calls_.looked(endpoint_.now_ns());
    if (!closing_) cluster_.hurry();
  }
  sessions_.clean_up();
}

// --- Parking

template <typename Predicate>
void OperationRunner::wake_parked(Predicate wanted) {
  // Takes the operations out first: resume() and callbacks park others.
  ParkedOperations::List woken;
  parked_.take(wanted, woken);
  while (Operation* operation = woken.pop_front()) resume(*operation);
}

void OperationRunner::resume(Operation& operation) {
  if (operation.awaits == Awaits::kCallback) {
    operation.finish(std::move(operation.failure));
  } else if (now() >= operation.deadline_ns && !closing_) {
    expire(operation);
  } else {
    dispatch(operation);
  }
}

void OperationRunner::session_changed(TargetId target) {
  wake_parked([target](const Operation& operation) {
    if (operation.awaits != Awaits::kSession) return false;
    // A read that may go to any replica waits for the first session of any of them.
    return operation.target == target || static_cast<const CallOperation&>(operation).spreads;
  });
}

void OperationRunner::session_failed(TargetId target, const absl::Status& why) {
  const auto awaits_it = [target](const Operation& operation) {
    return operation.awaits == Awaits::kSession && operation.target == target;
  };
  parked_.for_each([&](Operation& operation) {
    if (awaits_it(operation)) note_attempt(operation, now(), why);
  });
  if (absl::IsPermissionDenied(why)) {
    // The node takes no session of this program, and asking again changes nothing.
    ParkedOperations::List refused;
    parked_.take(awaits_it, refused);
    while (Operation* operation = refused.pop_front()) fail(*operation, why.code(), std_view(why.message()));
    return;
  }
  // Each woken operation calls ensure_open(), which says when the next opening may begin, and parks until then.
  session_changed(target);
}

// --- Routing

void OperationRunner::route(CallOperation& operation, const TableRoutes& table) {
  const KeyPlacement placement = table.placement();
  if (!operation.is_part && placement.shard_count > 0) {
    if (operation.method == Method::kBatch) {
      const absl::Status placed = static_cast<BatchOperation&>(operation).place(placement);
      if (!placed.ok()) return fail(operation, placed.code(), std_view(placed.message()));
    } else {
      // The key of a GET, the most frequent operation, is asked for without an indirect call.
      const bool is_get = operation.method == Method::kGet;
      operation.shard =
          placement.shard_of(is_get ? static_cast<GetOperation&>(operation).key() : operation.shown_key());
      operation.shard_known = true;
    }
  }
  // A table that was made anew may have its keys in other shards.
  if (operation.is_part && operation.part_table != table.id) {
    return fail(operation, absl::StatusCode::kAborted, "the table was dropped and created anew meanwhile");
  }
  if (operation.shard >= placement.shard_count) {
    return fail(operation, absl::StatusCode::kAborted, "the shard map has no shards of the table");
  }
  const ShardRoute& route = table.shards[operation.shard];
  if (operation.method == Method::kGet && !may_read(static_cast<GetOperation&>(operation), table, route)) return;
  operation.target = route.target;
  operation.at_backup = false;  // the attempt before may have been; the shard may have no backups any more
  if (route.target == kNoTarget) {
    cluster_.hurry();
    return park(operation, Awaits::kMap, kTimeNever);
  }
  operation.spreads = route.backup_count > 0 && !operation.is_write();
  const bool to_primary = std::exchange(operation.to_primary, false);
  if (operation.spreads && !to_primary) spread_read(operation, table, route);
  if (!sessions_.is_open(operation.target)) {
    return park(operation, Awaits::kSession, sessions_.ensure_open(operation.target, now()));
  }
  send(operation, table, route);
}

void OperationRunner::dispatch(Operation& operation) {
  if (closing_) return fail(operation, absl::StatusCode::kCancelled, "the client was closed");
  operation.target = kNoTarget;
  if (operation.routes_revision != routes_.revision() || operation.routes_revision == 0) [[unlikely]] {
    operation.routes = routes_.find_table(operation.table);
    if (operation.routes == nullptr) return dispatch_without_table(operation);
    operation.routes_revision = routes_.revision();
  }
  if (operation.is_parted) return static_cast<PartedOperation&>(operation).start(*operation.routes);
  route(static_cast<CallOperation&>(operation), *operation.routes);
}

void OperationRunner::spread_read(CallOperation& operation, const TableRoutes& table, const ShardRoute& route) {
  const TimeNs time = submitting_ > 0 ? operation.started_ns : now();
  const auto is_open = [this](TargetId target) { return sessions_.is_open(target); };
  const std::span<const TargetId> backups = table.backups_of(route);
  for (const TargetId backup : backups) {
    if (!is_open(backup)) sessions_.ensure_open(backup, time);
  }
  // A backup whose version is too old for the read is passed over: the primary may be newer.
  const auto can_serve = [&](TargetId target) {
    return is_open(target) && (operation.features & ~sessions_.features(target)) == 0;
  };
  operation.target = spread_.choose(route.target, backups, time, rng_, can_serve);
  operation.at_backup = operation.target != route.target;
}

void OperationRunner::turn_to_primary(CallOperation& operation, bool at_fault) {
  ++counters_.backup_reads_refused;
  if (at_fault) spread_.failed(operation.target, now());
  operation.to_primary = true;
  dispatch(operation);
}

void OperationRunner::dispatch_without_table(Operation& operation) {
  // A table that was created a moment ago may not be in our map yet, so the operation waits for a newer map. A table
  // that does not exist is reported early, and not after the whole timeout. Without the control plane the client cannot
  // tell the two apart, and waits.
  const TimeNs until = operation.started_ns + kUnknownTableWaitNs;
  if (routes_.revision() > 0 && now() >= until && cluster_.connection().ok()) {
    return fail(operation, absl::StatusCode::kFailedPrecondition, why_no_table(operation.table));
  }
  if (routes_.revision() == 0 && absl::IsPermissionDenied(cluster_.connection())) {
    return fail(operation, absl::StatusCode::kPermissionDenied, why_no_table(operation.table));
  }
  cluster_.hurry();
  park(operation, Awaits::kMap, now() < until ? until : now() + kUnknownTableWaitNs);
}

bool OperationRunner::may_read(GetOperation& operation, const TableRoutes& table, const ShardRoute& route) {
  const Token& token = operation.at_least();
  if (token.empty()) [[likely]] {
    return true;
  }
  if (token.table_id != table.id) {
    fail(operation, absl::StatusCode::kFailedPrecondition,
         "the token is of another table, or of one of this name that was dropped");
    return false;
  }
  if (token.shard != operation.shard) {
    fail(operation, absl::StatusCode::kInvalidArgument,
         absl::StrCat("the token is of shard ", token.shard, "; a token says nothing of other shards"));
    return false;
  }
  if (token.epoch <= route.epoch) return true;
  // The token is from a later epoch than our map's. The primary that our map names may lack the state of the token.
  cluster_.hurry();
  park(operation, Awaits::kMap, kTimeNever);
  return false;
}

// --- Sending

bool OperationRunner::encode(CallOperation& operation, const TableRoutes& table, const Route& told, HeadBuffer& buffer,
                             CallOperation::Request& request) {
  if (const Features lacking = operation.features & ~sessions_.features(operation.target); lacking != 0) {
    const Features one = lacking & (~lacking + 1);
    fail(operation, absl::StatusCode::kUnimplemented,
         absl::StrCat("the node does not know ", feature_name(one),
                      ", because its version is too old; upgrade all nodes"));
    return false;
  }
  if (operation.is_write()) {
    auto& write = static_cast<NumberedOperation&>(operation);
    write.id = lanes_.identify(write, table.id, write.shard, static_cast<uint32_t>(table.shards.size()));
  }
  const absl::StatusOr<CallOperation::Request> encoded = operation.encode(told, buffer);
  if (!encoded.ok()) {
    fail(operation, encoded.status().code(), std_view(encoded.status().message()));
    return false;
  }
  request = *encoded;
  return true;
}

rpc::MessagePtr OperationRunner::message_of(CallOperation& operation, const CallOperation::Request& request) {
  rpc::MessagePtr message = endpoint_.make_message();
  message->append_copy(request.head);
  if (request.body.empty() || (message->body_count() == 0 && message->append_head(request.body))) return message;
  // The body is sent from the operation's memory. The hold keeps that memory until the message is released.
  operation.hold();
  const auto release = [](void* held) { static_cast<CallOperation*>(held)->drop(); };
  const bool added = message->add_body(request.body, release, &operation);
  SKUA_CHECK(added, "a request is a head and a body");
  return message;
}

MutableByteSpan OperationRunner::scratch(size_t bytes) {
  scratch_.resize(bytes);
  return scratch_;
}

void OperationRunner::send(CallOperation& operation, const TableRoutes& table, const ShardRoute& route) {
  operation.session = sessions_.session(operation.target);
  // Inside submit() the operation began a moment ago: started_ns saves a second look at the clock.
  operation.attempt_ns = submitting_ > 0 ? operation.started_ns : now();
  if (operation.attempt++ > 0) ++counters_.retries;
  if (operation.uncertain) ++counters_.repeated_writes;
  ++counters_.attempts;
  DurationNs left_ns = operation.deadline_ns - operation.attempt_ns;
  if (left_ns <= 0) return expire(operation);
  if (operation.spreads) left_ns = std::min(left_ns, kReadPatienceNs << std::min(operation.failed_attempts, 10u));
  operation.table_id = table.id;
  HeadBuffer buffer;
  CallOperation::Request request;
  const Route told{table.id, operation.shard, route.epoch, routes_.revision()};
  if (is_plain_get(operation)) [[likely]] {
    request.head = encode_plain_get(told, static_cast<GetOperation&>(operation).key(), buffer);
  } else if (!encode(operation, table, told, buffer, request)) {
    return;
  }
  sessions_.call_started(operation.target);
  const auto method = static_cast<rpc::MethodId>(operation.method);
  const rpc::CallOptions options{.timeout_ns = left_ns, .now_ns = operation.attempt_ns};
  rpc::CompletionFn done = [this, &operation](rpc::CallResult&& result) { on_result(operation, std::move(result)); };
  const absl::StatusOr<rpc::CallId> call =
      request.body.empty() && request.head.size() <= rpc::kFewBytesMax
          ? endpoint_.call(operation.session, method, request.head, options, std::move(done))
          : endpoint_.call(operation.session, method, message_of(operation, request), options, std::move(done));
  if (call.ok()) {
    operation.call = *call;
    return calls_.started(operation);
  }
  on_result(operation, {.status = call.status(), .response = {}, .from_peer = false, .may_have_executed = false});
}

// --- The end of an operation

std::string OperationRunner::why_no_table(std::string_view table) const {
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

void OperationRunner::expire(Operation& operation) {
  std::string cause;
  if (routes_.find_table(operation.table) == nullptr) {
    cause = why_no_table(operation.table);
  } else if (operation.awaits == Awaits::kMap && operation.target == kNoTarget && wants_state(operation)) {
    cause = "no shard map came that is as new as the token, or that names an owner of its shard";
  } else if (operation.awaits == Awaits::kMap && operation.target == kNoTarget) {
    cause = "the shard has no owner: its node was taken out of the cluster by force; drop the table";
  } else if (operation.awaits == Awaits::kSession) {
    const absl::Status& why = sessions_.last_error(operation.target);
    cause = absl::StrCat("no session with it could be opened: ",
                         absl::IsFailedPrecondition(why) || absl::IsResourceExhausted(why)
                             ? why.message()
                             : "is that node running? see skuactl status");
  } else {
    cause = "the deadline passed before the next attempt";
  }
  fail(operation, absl::StatusCode::kDeadlineExceeded, cause);
}

void OperationRunner::fail(Operation& operation, absl::StatusCode code, std::string_view cause,
                           bool may_have_been_applied) {
  Outcome outcome = make_failure(operation, routes_, code, cause, may_have_been_applied || operation.uncertain);
  if (submitting_ == 0) return operation.finish(std::move(outcome));
  operation.failure = std::move(outcome);
  park(operation, Awaits::kCallback, 0);
}

void OperationRunner::forget(Operation& operation, const Outcome& outcome) {
  if (outcome.ok()) ++counters_.operations_ok;
  if (outcome.detail != nullptr) ++counters_.operations_failed;
  ++finished_;
  --in_flight_;
  if (operation.is_write()) RequestLanes::complete(static_cast<NumberedOperation&>(operation));
  operation.drop();
}

}  // namespace skua::kv
