#include "tests/kvstore/replication/sim_client.h"

#include "absl/strings/str_format.h"

namespace skua::kv::sim {
namespace {

constexpr size_t kAbandonedMax = 6;  // of a key: each doubles what the checker must keep

}  // namespace

std::string Histories::trouble() const {
  for (size_t shard = 0; shard < ops.size(); ++shard) {
    for (size_t key = 0; key < ops[shard].size(); ++key) {
      size_t culprit = 0;
      const std::vector<HistoryOp>& history = ops[shard][key];
      const Linearizable verdict = check_linearizable(history, &culprit);
      if (verdict == Linearizable::kYes) continue;
      if (verdict == Linearizable::kTooComplex) return "a history that is too complex to be checked";
      const HistoryOp& op = history[culprit];
      return absl::StrFormat(
          "I8: shard %d key %d is not linearizable: operation of kind %d, moments %d to %d, result %d", shard, key,
          static_cast<int>(op.kind), op.called, op.answered, op.result);
    }
  }
  return "";
}

void SimClient::next_after(DurationNs think) {
  under_way_ = false;
  kernel_.queue.at(kernel_.now() + kernel_.between(think / 2, think + think / 2), [this] {
    if (!under_way_) begin();
  });
}

void SimClient::finish(bool read_all) {
  finishing_ = true;
  to_read_ = read_all ? options_.shards * options_.keys : 0;
  if (!under_way_) {
    idle_ = false;
    begin();
  }
}

void SimClient::begin() {
  if (finishing_ && to_read_ == 0) {
    idle_ = true;
    return;
  }
  choose();
  const Operation& operation = request_.operation;
  std::vector<HistoryOp>& history = histories_.ops[request_.shard][operation.key];
  op_ = history.size();
  history.push_back({operation.kind, operation.argument, operation.expected, ++histories_.moments});
  under_way_ = true;
  attempts_ = 0;
  attempt();
}

void SimClient::choose() {
  ++request_.id.seq;
  request_.id.client = number_ + 1;
  Operation& operation = request_.operation;
  if (finishing_) {
    --to_read_;
    request_.shard = to_read_ / options_.keys;
    operation = {OpKind::kGet, static_cast<uint32_t>(to_read_ % options_.keys), 0, 0};
    return;
  }
  request_.shard = kernel_.rng.below(options_.shards);
  operation = {OpKind::kGet, static_cast<uint32_t>(kernel_.rng.below(options_.keys)), 0, 0};
  if (!kernel_.rng.chance(options_.write_share)) return;
  const uint64_t kind = kernel_.rng.below(options_.conditional_writes ? 3 : 2);
  operation.kind = kind == 0 ? OpKind::kPut : kind == 1 ? OpKind::kAdd : OpKind::kCas;
  if (options_.is_text(operation.key)) operation.kind = OpKind::kPut;
  operation.argument = operation.kind == OpKind::kAdd ? 1 : ++histories_.values * 1000;
  if (operation.kind != OpKind::kCas) return;
  operation.expected = histories_.last_seen[request_.shard][operation.key];  // often it still is
}

void SimClient::attempt() {
  const uint64_t number = ++attempt_number_;
  ++attempts_;
  uint64_t node = hints_[request_.shard];
  const bool anywhere = options_.read_anywhere && request_.operation.kind == OpKind::kGet && kernel_.rng.chance(0.5);
  if (node == 0 || anywhere || kernel_.rng.chance(0.02)) node = kernel_.rng.between(1, options_.nodes);
  world_.to_node(number_, node, request_);
  kernel_.queue.at(kernel_.now() + options_.patience_ns, [this, number] {
    if (!under_way_ || number != attempt_number_) return;
    hints_[request_.shard] = 0;
    if (abandons()) return next_after(options_.think_ns);
    attempt();
  });
}

void SimClient::attempt_after(DurationNs pause) {
  const uint64_t number = ++attempt_number_;
  kernel_.queue.at(kernel_.now() + pause, [this, number] {
    if (under_way_ && number == attempt_number_) attempt();
  });
}

bool SimClient::abandons() {
  if (finishing_ || attempts_ < 2 || !kernel_.rng.chance(options_.abandon)) return false;
  if (request_.operation.kind != OpKind::kGet) {
    size_t& abandoned = histories_.abandoned[request_.shard][request_.operation.key];
    if (abandoned >= kAbandonedMax) return false;
    ++abandoned;
  }
  kernel_.hit(Probe::kAbandoned);
  return true;
}

void SimClient::on_reply(const ClientReply& reply) {
  if (!under_way_ || !(reply.id == request_.id)) return;
  hints_[request_.shard] = reply.try_next;
  if (!reply.is_done) return attempt_after(kernel_.between(kMillisecond, 20 * kMillisecond));
  op().answered = ++histories_.moments;
  op().result = reply.result;
  if (op().kind == OpKind::kPut) {
    histories_.last_seen[request_.shard][request_.operation.key] = op().argument;
  } else if (op().kind != OpKind::kCas) {
    histories_.last_seen[request_.shard][request_.operation.key] = op().result;
  }
  ++answered_;
  kernel_.note("answered", number_, reply.id.seq, static_cast<uint64_t>(reply.result), reply.try_next);
  next_after(finishing_ ? kMillisecond : options_.think_ns);
}

}  // namespace skua::kv::sim
