// Clients' requests at a node: as kvstore/service/shard_server*.cc, without sessions.
//
// A linearizable read looks at the value first and asks may_read() afterwards, in the same epoch; if that says no, a primary asks the
// members, and a backup (of a table that is read anywhere) sends the client there. A backup answers of keys only that are settled.
#include <algorithm>
#include <utility>

#include "tests/kvstore/cluster/cluster_node.h"
#include "tests/kvstore/cluster/node_request.h"

namespace skua::kv::sim {

void ClusterNode::on_request(const ClientRequest& what) {
  Held& at = held(what.shard);
  Request& request = *requests_.emplace_back(std::make_unique<Request>());
  request.request = what;
  request.key = key_text(what.operation.key);
  ++at.uses;
  const bool reads =
      what.operation.kind == OpKind::kGet && at.phase == Phase::kServing && at.replica->reads_as_backup();
  if (!reads && (at.phase != Phase::kServing || !at.replica->is_serving())) return redirect(request);
  what.operation.kind == OpKind::kGet ? read(request) : write(request);
  kick();
}

void ClusterNode::redirect(Request& request) {
  const Held& at = held(request.request.shard);
  uint64_t next = at.replica == nullptr ? 0 : at.replica->replica().view().primary >> 32;
  if (next == number_) next = 0;
  answer(request, {request.request.id, false, 0, next});
}

void ClusterNode::answer(Request& request, const ClientReply& reply) {
  if (up_) world_.to_client(*this, reply);
  const size_t shard = request.request.shard;
  --held(shard).uses;
  std::erase_if(requests_, [&request](const auto& known) { return known.get() == &request; });
  if (up_ && held(shard).phase == Phase::kLeaving) kick();
}

// --- Reads

void ClusterNode::read(Request& request) {
  Held& at = held(request.request.shard);
  request.epoch = at.replica->replica().view().epoch;
  request.shown_before = oracle_.shown_version(request.request.shard, request.request.operation.key);
  if (at.replica->reads_as_backup() && !at.replica->is_settled(request.key)) {
    kernel_.hit(Probe::kDirtyBackupRead);
    return redirect(request);
  }
  MemoryTier::Lookup lookup = engine_->get(*at.shard, request.key);
  if (lookup.found == MemoryTier::Found::kMiss) {
    kernel_.hit(Probe::kReadFromDisk);
    request.fetch.key = request.key;
    request.fetch.context = &request;
    return engine_->fetch(*at.shard, request.fetch, lookup.ticket);
  }
  if (lookup.found == MemoryTier::Found::kHit) {
    request.found = value_number(as_string_view(lookup.value.bytes()));
    request.version = lookup.value.version();
  }
  lookup.value.reset();
  // Between the sample and the question there may be a long pause.
  run(kernel_.now() + kernel_.between(0, 20 * kMicrosecond), [this, &request] { check_read(request); });
}

void ClusterNode::found(Request& request) {
  if (!request.fetch.status.ok() && !absl::IsNotFound(request.fetch.status)) return redirect(request);
  if (request.fetch.status.ok()) {
    request.found = value_number(as_string_view(request.fetch.value.bytes()));
    request.version = request.fetch.value.version();
  }
  request.fetch.value.reset();
  check_read(request);
}

void ClusterNode::check_read(Request& request) {
  const size_t shard = request.request.shard;
  Held& at = held(shard);
  if (at.phase != Phase::kServing || request.epoch != at.replica->replica().view().epoch) {
    kernel_.hit(Probe::kReadOverTaken);
    return redirect(request);
  }
  const bool is_backup = at.replica->reads_as_backup();
  if (at.replica->may_read(now())) {
    kernel_.hit(is_backup ? Probe::kBackupRead : Probe::kLeaseRead);
    return serve(request, is_backup ? "backup's" : "leased");
  }
  if (is_backup) return redirect(request);
  // What was read before the round began may be answered after it.
  at.replica->confirm(
      [this, &request](bool confirmed) {
        if (!confirmed) return redirect(request);
        kernel_.hit(Probe::kConfirmedRead);
        serve(request, "confirmed");
      },
      now());
}

void ClusterNode::serve(Request& request, const char* how) {
  oracle_.read_served(request.request.shard, request.request.operation.key, request.version, request.shown_before, how);
  answer(request, {request.request.id, true, request.found, number_});
}

// --- Writes

void ClusterNode::write(Request& request) {
  Held& at = held(request.request.shard);
  if (!at.replica->takes_writes()) return redirect(request);
  const Operation& operation = request.request.operation;
  if (operation.kind == OpKind::kPut) {
    request.value = absl::StrCat(operation.argument);
    if (options_.is_text(operation.key)) {
      absl::StrAppend(&request.value, " ", std::string(kernel_.rng.below(options_.text_bytes_max + 1), 'x'));
    }
    request.write.mutation = Mutation::put(request.key, as_byte_span(request.value));
  } else {
    request.write.mutation = Mutation::add(request.key, operation.argument);
  }
  request.write.id = {request.request.id.client, request.request.id.seq, request.request.id.seq};
  request.write.context = &request;
  engine_->write(*at.shard, request.write);
}

void ClusterNode::written(WriteOp& op) {
  Request& request = *static_cast<Request*>(op.context);
  const size_t shard = request.request.shard;
  if (!up_) return;  // nobody hears of it; the request goes with the process
  if (op.result.status == KvStatus::kOk) {
    observe(shard);
    if (op.from_record) kernel_.hit(Probe::kDedupHit);
    oracle_.acknowledged(shard, op.result.version);
    oracle_.shown(shard, request.request.operation.key, op.result.version);
    return answer(request, {request.request.id, true, op.result.value, number_});
  }
  if (op.result.status == KvStatus::kStaleRetry) kernel_.hit(Probe::kStaleRequest);
  if (op.result.status == KvStatus::kNotANumber) kernel_.break_promise("a counter that is no number");
  redirect(request);
}

}  // namespace skua::kv::sim
