#include "tests/kvstore/cluster/client_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/uuid.h"
#include "kvstore/codec/batch.h"
#include "kvstore/codec/methods.h"
#include "kvstore/node/shard_plan.h"
#include "kvstore/peers/peer_identity.h"
#include "rpc/base/check.h"
#include "tests/kvstore/cluster/cluster_names.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::sim {
namespace {

/// Every third PUT is a batch: a value that nobody may see, and the value. Attempts of one request are alike.
bool is_batch(const ClientRequest& request) {
  return request.operation.kind == OpKind::kPut && request.id.seq % 3 == 0;
}

Method method_of(const ClientRequest& request) {
  if (is_batch(request)) return Method::kBatch;
  const OpKind kind = request.operation.kind;
  return kind == OpKind::kGet ? Method::kGet : kind == OpKind::kPut ? Method::kPut : Method::kAdd;
}

BatchOpsBuilder batch_of(const std::string& key, const std::string& value) {
  BatchOpsBuilder batch;
  for (const std::string_view each : {std::string_view("-1"), std::string_view(value)}) {
    SKUA_CHECK(batch.add(mutations::put(key, as_byte_span(each))).ok(), "a batch takes two PUTs");
  }
  return batch;
}

}  // namespace

ClientProcess::ClientProcess(SimKernel& kernel, Oracle& oracle, SimWire& wire, const ClusterSimOptions& options,
                             ClientSurroundings& world, size_t number, Address address)
    : kernel_(kernel),
      oracle_(oracle),
      wire_(wire),
      options_(options),
      world_(world),
      number_(number),
      address_(address),
      epochs_(options.shards, 1),
      primaries_(options.shards) {
  const auto identity = worker_identity(control::uuid_from_random(1000 + number, 1), 1, cluster_uuid(), 0);
  SKUA_CHECK(identity.ok(), "a client's uuid is a uuid");
  transport_ = wire_.attach(address_, *identity, [this] { kick(); });
  protected_ = wire_.protect(transport_);
  endpoint_ = std::make_unique<rpc::Endpoint>(*protected_, wire_.clock(), options_.endpoint_of(address));
}

ClientProcess::~ClientProcess() {
  wire_.detach(address_);
  sessions_.clear();  // calls that end now close no session
  endpoint_.reset();
}

void ClientProcess::on_map(const MapPtr& map) {
  if (map->revision <= map_revision_) return;
  map_revision_ = map->revision;
  for (const control::MapNode& node : map->nodes) {
    for (const WantedShard& shard : wanted_shards(*map, node.uuid)) {
      if (!shard.view) continue;
      epochs_[shard.id.shard] = shard.view->epoch;
      primaries_[shard.id.shard] = shard.view->primary >> 32;
    }
  }
}

// --- Requests

std::optional<rpc::SessionId> ClientProcess::session_to(uint64_t node) {
  if (const auto known = sessions_.find(node); known != sessions_.end()) return known->second;
  const auto descriptor = world_.descriptor_of(node);
  if (!descriptor) return std::nullopt;
  auto offer = endpoint_->begin_connect(*descriptor);
  if (!offer.ok()) return std::nullopt;
  const rpc::SessionId session = offer->session;
  sessions_[node] = session;
  world_.offer_session(number_, node, offer->bytes, [this, node, session](const std::string& answer) {
    const auto known = sessions_.find(node);
    if (known == sessions_.end() || known->second != session) return;
    wire_.enter();
    if (!endpoint_->finish_connect(session, as_byte_span(answer)).ok()) give_up(node, session);
    kick();
  });
  return session;
}

void ClientProcess::give_up(uint64_t node, rpc::SessionId session) {
  const auto known = sessions_.find(node);
  if (known == sessions_.end() || known->second != session) return;
  sessions_.erase(known);
  endpoint_->close(session);
}

rpc::MessagePtr ClientProcess::encode(const ClientRequest& request) {
  const Operation& operation = request.operation;
  const std::string key = key_text(operation.key);
  const Route route{kTableId, static_cast<uint32_t>(request.shard), epochs_[request.shard], map_revision_};
  const kv::RequestId id{request.id.client, request.id.seq, request.id.seq};
  rpc::MessagePtr message = endpoint_->make_message();
  HeadBuffer head;
  if (operation.kind == OpKind::kGet) {
    message->append_copy(encode_get({route, key}, head).value());
  } else if (operation.kind == OpKind::kAdd) {
    message->append_copy(encode_mutation_head({route, mutations::add(key, operation.argument), id}, head).value());
  } else {
    std::string value = absl::StrCat(operation.argument);
    if (options_.is_text(operation.key)) {
      absl::StrAppend(&value, " ", std::string(kernel_.rng.below(options_.text_bytes_max + 1), 'x'));
    }
    if (is_batch(request)) {
      const BatchOpsBuilder batch = batch_of(key, value);
      message->append_copy(encode_batch_head({route, batch.ops(), id}, head).value());
      message->append_copy(batch.ops().bytes());
    } else {
      message->append_copy(encode_mutation_head({route, mutations::put(key, as_byte_span(value)), id}, head).value());
      message->append_copy(as_byte_span(value));
    }
  }
  return message;
}

void ClientProcess::send(uint64_t node, const ClientRequest& request) {
  wire_.enter();
  const auto session = session_to(node);
  if (!session) return wire_.leave();
  const uint64_t shown = oracle_.shown_version(request.shard, request.operation.key);
  const auto method = static_cast<rpc::MethodId>(method_of(request));
  auto called = endpoint_->call(
      *session, method, encode(request), {.timeout_ns = 2 * options_.patience_ns},
      [this, sent = Sent{node, request, shown, *session}](rpc::CallResult&& result) { on_result(sent, result); });
  if (!called.ok()) give_up(node, *session);
  kick();
  wire_.leave();
}

// --- Answers

void ClientProcess::on_result(const Sent& sent, const rpc::CallResult& result) {
  // A call that failed says nothing of its outcome. The client loses patience and tries again.
  if (!result.status.ok()) return give_up(sent.node, sent.session);
  const ByteSpan bytes = result.response.bytes();
  if (sent.request.operation.kind == OpKind::kGet) {
    const auto reply = decode_get_reply(bytes);
    return reply.ok() ? on_get(sent, *reply) : kernel_.break_promise("a reply to a GET that is none");
  }
  if (sent.request.operation.kind == OpKind::kAdd) {
    const auto reply = decode_add_reply(bytes);
    return reply.ok() ? on_write(sent, reply->write, reply->value)
                      : kernel_.break_promise("a reply to an ADD that is none");
  }
  if (is_batch(sent.request)) {
    const auto reply = decode_batch_reply(bytes);
    if (!reply.ok()) return kernel_.break_promise("a reply to a BATCH that is none");
    if (reply->head.status == KvStatus::kOk && !reply->applied) kernel_.break_promise("a batch of PUTs is refused");
    return on_write(sent, {reply->head, reply->durability, reply->from_record}, 0);
  }
  const auto reply = decode_write_reply(bytes);
  return reply.ok() ? on_write(sent, *reply, 0) : kernel_.break_promise("a reply to a PUT that is none");
}

void ClientProcess::on_get(const Sent& sent, const GetReply& reply) {
  const bool found = reply.head.status == KvStatus::kOk;
  if (!found && reply.head.status != KvStatus::kNotFound) return redirect(sent, reply.head);
  kernel_.hit(Probe::kLeaseRead);
  const ClientRequest& request = sent.request;
  oracle_.read_served(request.shard, request.operation.key, found ? reply.head.version : 0, sent.shown_before,
                      "node's");
  world_.answered(number_, {request.id, true, found ? value_number(as_string_view(reply.value)) : 0, sent.node});
}

void ClientProcess::on_write(const Sent& sent, const WriteReply& reply, int64_t result) {
  const ClientRequest& request = sent.request;
  if (reply.head.status == KvStatus::kStaleRetry) kernel_.hit(Probe::kStaleRequest);
  if (reply.head.status == KvStatus::kNotANumber) kernel_.break_promise("a counter that is no number");
  if (reply.head.status != KvStatus::kOk) return redirect(sent, reply.head);
  if (reply.from_record) kernel_.hit(Probe::kDedupHit);
  oracle_.acknowledged(request.shard, reply.head.version);
  oracle_.shown(request.shard, request.operation.key, reply.head.version);
  world_.answered(number_, {request.id, true, result, sent.node});
}

void ClientProcess::redirect(const Sent& sent, const ReplyHead& head) {
  const size_t shard = sent.request.shard;
  epochs_[shard] = std::max(epochs_[shard], head.epoch);
  world_.answered(number_, {sent.request.id, false, 0, primaries_[shard] == sent.node ? 0 : primaries_[shard]});
}

// --- The loop

void ClientProcess::kick() {
  if (std::exchange(poll_scheduled_, true)) return;
  kernel_.queue.at(kernel_.now(), [this] {
    poll_scheduled_ = false;
    poll();
  });
}

void ClientProcess::poll() {
  wire_.enter();
  while (endpoint_->poll() > 0) {
  }
  wire_.leave();
  const TimeNs due = SimWire::kernel_time(endpoint_->next_timer_ns());
  if (due >= timer_at_) return;
  timer_at_ = due;
  kernel_.queue.at(due, [this, due] {
    if (timer_at_ != due) return;
    timer_at_ = kTimeNever;
    kick();
  });
}

}  // namespace skua::kv::sim
