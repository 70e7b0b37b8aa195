#include "tests/kvstore/client/fake_cluster.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "kvstore/codec/chosen_fields.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/row.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

constexpr uint32_t kTableId = 7;

rpc::EndpointOptions node_options() {
  rpc::EndpointOptions options;
  options.protocol.window = 256;
  return options;
}

rpc::MessagePtr copied(ByteSpan head, std::string_view body = {}) {
  rpc::MessagePtr message = rpc::MessagePtr::make();
  message->append_copy(head);
  if (!body.empty()) message->append_copy(as_byte_span(body));
  return message;
}

}  // namespace

// --- FakeNode

FakeNode::FakeNode(std::string uuid, uint64_t incarnation, std::unique_ptr<rpc::Transport> transport,
                   const Clock& clock, std::shared_ptr<FakeStore> store)
    : uuid_(std::move(uuid)),
      incarnation_(incarnation),
      store_(std::move(store)),
      transport_(std::move(transport)),
      endpoint_(std::make_unique<rpc::Endpoint>(*transport_, clock, node_options())) {
  for (Method method : {Method::kGet, Method::kPut, Method::kDelete, Method::kMultiGet, Method::kPatch, Method::kScan,
                        Method::kBatch, Method::kAdd, Method::kAppend, Method::kExpire}) {
    endpoint_->serve(static_cast<rpc::MethodId>(method), [this](rpc::IncomingCall&& call) { serve(std::move(call)); });
  }
}

void FakeNode::serve(rpc::IncomingCall call) {
  ++requests;
  if (script && script(call)) return;
  const absl::StatusOr<Route> route = decode_route(call.request.bytes());
  SKUA_CHECK(route.ok(), "the client sent a request without a route");
  const auto found = owned.find(route->shard);
  if (route->table_id != kTableId || found == owned.end() || found->second != route->epoch) {
    return reply_error(call, KvStatus::kWrongShard, "not here");
  }
  switch (static_cast<Method>(call.method)) {
    case Method::kGet: return get(call);
    case Method::kMultiGet: return multi_get(call);
    case Method::kScan: return scan(call);
    default: return write(call, route->shard);
  }
}

void FakeNode::reply_error(rpc::IncomingCall& call, KvStatus status, std::string_view text, uint64_t version) {
  HeadBuffer buffer;
  call.reply.reply(copied(encode_error_reply({.status = status, .version = version, .text = text}, buffer)));
}

void FakeNode::get(rpc::IncomingCall& call) {
  const auto request = decode_get(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed GET");
  const auto found = store_->entries.find(std::string(request->key));
  if (request->at_least_index >= store_->next_version) return reply_error(call, KvStatus::kBehindToken, "lost");
  if (found == store_->entries.end()) return reply_error(call, KvStatus::kNotFound, "");
  HeadBuffer buffer;
  const FakeStore::Entry& entry = found->second;
  const ReplyHead head = {.version = entry.version, .epoch = request->route.epoch, .index = store_->next_version - 1};
  const GetWishes& wishes = request->wishes;
  const GetExtras extras{.ttl_ms = wishes.ttl ? entry.ttl_ms : 0,
                         .mark = wishes.mark ? entry.mark : RecordMark(),
                         .size_only = wishes.size_only};
  std::string value = entry.value;
  if (wishes.fields) {
    const auto chosen = ChosenFields::of(as_byte_span(entry.value), request->fields);
    if (!chosen.has_value()) return reply_error(call, KvStatus::kNotARow, "", entry.version);
    value.clear();
    chosen->append_to(value);
  }
  call.reply.reply(
      copied(encode_get_reply_head(head, value.size(), buffer, extras), wishes.size_only ? std::string() : value));
}

namespace {

RequestId id_of(ByteSpan bytes) {
  const std::byte* const head = bytes.data() + kRequestHeaderBytes;
  return {load_le<uint64_t>(head), load_le<uint64_t>(head + 8), load_le<uint64_t>(head + 16)};
}

/// The achieved durability: what was asked for, and sync by default.
Durability durability_of(ByteSpan bytes) {
  const auto asked = static_cast<Durability>((static_cast<uint8_t>(bytes[25]) >> 4) & 3);
  return asked == Durability::kDefault ? Durability::kSync : asked;
}

}  // namespace

void FakeNode::write(rpc::IncomingCall& call, uint32_t shard) {
  const ByteSpan bytes = call.request.bytes();
  const RequestId id = id_of(bytes);
  ids.push_back(id);
  FakeStore::Answers& known = store_->answers[{id.client_id, shard}];
  if (id.client_id != 0) {
    known.first_incomplete = std::max(known.first_incomplete, id.first_incomplete);
    known.by_seq.erase(known.by_seq.begin(), known.by_seq.lower_bound(known.first_incomplete));
    if (id.seq < known.first_incomplete) return reply_error(call, KvStatus::kStaleRetry, "told already");
    if (const auto found = known.by_seq.find(id.seq); found != known.by_seq.end()) {
      std::string again = found->second;
      again[2] = static_cast<char>(again[2] | 4);
      return answer_write(call, std::move(again));
    }
  }
  const auto method = static_cast<Method>(call.method);
  if (method == Method::kBatch) return batch(call);
  const Mutation mutation = decode_mutation(method, bytes).value().mutation;
  const MutationResult done = apply(mutation);
  if (done.status != KvStatus::kOk) return reply_error(call, done.status, "", done.version);
  ++executed;
  HeadBuffer buffer;
  const WriteReply reply = {
      {.version = done.version, .epoch = owned[shard], .index = done.version}, durability_of(bytes), false};
  const bool has_number = method == Method::kAdd || mutation.edits_row;
  const ByteSpan answer =
      has_number ? encode_add_reply({reply, done.value}, buffer) : encode_write_reply(reply, buffer);
  if (id.client_id != 0) known.by_seq[id.seq] = as_string_view(answer);
  answer_write(call, std::string(as_string_view(answer)));
}

void FakeNode::batch(rpc::IncomingCall& call) {
  const BatchRequest request = decode_batch(call.request.bytes()).value();
  const auto before = store_->entries;
  const uint64_t version_before = store_->next_version;
  std::vector<MutationResult> entries;
  bool applied = true;
  for (const Mutation& op : request.ops) {
    SKUA_CHECK(placement.shard_of(op.key) == request.route.shard, "a key was sent to another shard");
    entries.push_back(apply(op));
    applied = applied && entries.back().status == KvStatus::kOk;
  }
  BatchReply reply;
  reply.applied = applied;
  if (applied) {
    ++executed;
    reply.durability = durability_of(call.request.bytes());
  } else {
    store_->entries = before;
    store_->next_version = version_before;
    for (MutationResult& entry : entries) {
      if (entry.status == KvStatus::kOk) entry = {};
    }
  }
  reply.head = {.version = applied ? store_->next_version - 1 : 0,
                .epoch = request.route.epoch,
                .index = store_->next_version - 1};
  std::vector<std::byte> buffer(batch_reply_bytes(entries.size()));
  std::string answer(as_string_view(encode_batch_reply(reply, entries, buffer)));
  if (applied && request.id.client_id != 0) {
    store_->answers[{request.id.client_id, request.route.shard}].by_seq[request.id.seq] = answer;
  }
  answer_write(call, std::move(answer));
}

void FakeNode::answer_write(rpc::IncomingCall& call, std::string bytes) {
  if (before_answer && before_answer(call)) return;
  call.reply.reply(copied(as_byte_span(bytes)));
}

MutationResult FakeNode::apply(const Mutation& op) {
  using Kind = Mutation::Kind;
  const std::string key(op.key);
  const auto found = store_->entries.find(key);
  const bool missing = found == store_->entries.end();
  FakeStore::Entry entry = missing ? FakeStore::Entry() : found->second;
  if (op.condition.kind == Condition::Kind::kIfAbsent && !missing) return {KvStatus::kAlreadyExists, entry.version};
  if (op.condition.kind == Condition::Kind::kIfPresent && missing) return {KvStatus::kNotFound};
  if (op.condition.kind == Condition::Kind::kIfVersion && entry.version != op.condition.version) {
    return {KvStatus::kVersionMismatch, entry.version};
  }
  if (op.kind == Kind::kCheck) return {KvStatus::kOk, entry.version};
  MutationResult done;
  bool removes = op.kind == Kind::kDelete;
  if (op.kind == Kind::kPut) entry.value = as_string_view(op.value);
  if (op.kind == Kind::kPut || (op.kind == Kind::kPatch && missing)) entry.mark = op.mark;
  if ((op.kind == Kind::kPut && !op.keep_ttl) || op.kind == Kind::kExpire) entry.ttl_ms = op.ttl_ms;
  if (op.kind == Kind::kAppend) entry.value.append(as_string_view(op.value));
  if ((op.kind == Kind::kExpire || op.kind == Kind::kDelete) && missing) return {KvStatus::kNotFound};
  if (op.kind == Kind::kPatch) {
    if (missing && !op.create_if_missing) return {KvStatus::kNotFound};
    const std::string row = entry.value;
    PatchCounts counts;
    const Edited edited = op.edits_row ? edit_row(as_byte_span(row), op.value, entry.value, counts) : Edited::kDone;
    if (edited == Edited::kUnchanged && missing) return {KvStatus::kNotFound};
    if (edited == Edited::kUnchanged) return {KvStatus::kOk, entry.version, counts.word()};
    if (edited != Edited::kDone) return {KvStatus::kNotARow, entry.version};
    done.value = counts.word();
    removes = op.edits_row && counts.left == 0;
    if (!op.edits_row && !patch_row(as_byte_span(row), op.value, entry.value).ok())
      return {KvStatus::kNotARow, entry.version};
  }
  if (op.kind == Kind::kAdd) {
    int64_t number = 0;
    if (!missing && !absl::SimpleAtoi(entry.value, &number)) return {KvStatus::kNotANumber, entry.version};
    if (__builtin_add_overflow(number, op.delta, &done.value)) return {KvStatus::kCounterOverflow, entry.version};
    entry.value = std::to_string(done.value);
  }
  done.version = store_->next_version++;
  entry.version = done.version;
  if (removes) {
    store_->entries.erase(key);
  } else {
    store_->entries[key] = entry;
  }
  return done;
}

void FakeNode::multi_get(rpc::IncomingCall& call) {
  const auto request = decode_multi_get(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed MULTI_GET");
  std::vector<MultiGetEntry> entries;
  std::string values;
  size_t bytes = 0;
  for (std::string_view key : request->keys) {
    SKUA_CHECK(placement.shard_of(key) == request->route.shard, "a key was sent to another shard");
    const auto found = store_->entries.find(std::string(key));
    const bool is_there = found != store_->entries.end();
    const bool is_cold = request->wishes.memory_only && cold_keys.contains(std::string(key));
    if (is_cold || (is_there && bytes + found->second.value.size() > kBatchBytesMax)) {
      entries.push_back({KvStatus::kResourceExhausted, 0, {}});
    } else if (!is_there) {
      entries.push_back({KvStatus::kNotFound, 0, {}});
    } else {
      bytes += found->second.value.size();
      entries.push_back({KvStatus::kOk, found->second.version, as_byte_span(found->second.value), found->second.mark});
    }
  }
  for (const MultiGetEntry& entry : entries) values.append(as_string_view(entry.value));
  std::string head(multi_get_reply_head_bytes(entries.size(), request->wishes.marks), '\0');
  call.reply.reply(
      copied(encode_multi_get_reply_head({}, entries, std::as_writable_bytes(std::span(head)), request->wishes.marks),
             values));
}

void FakeNode::scan(rpc::IncomingCall& call) {
  const auto request = decode_scan(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed SCAN");
  auto at = store_->entries.lower_bound(std::string(request->start_key));
  if (!request->resume_token.empty()) {
    const auto after = decode_resume_token(request->resume_token);
    SKUA_CHECK(after.ok(), "a resume token that no node made");
    at = store_->entries.upper_bound(std::string(*after));
  }
  ScanReplyBuilder page(request->rows_max, request->bytes_max, request->wants_marks);
  bool has_more = false;
  for (; at != store_->entries.end(); ++at) {
    if (!request->end_key.empty() && at->first >= request->end_key) break;
    if (placement.shard_of(at->first) != request->route.shard) continue;
    const ScanRow row{at->first, at->second.version, as_byte_span(at->second.value), at->second.mark};
    const bool is_taken = request->count_only  ? page.count(row)
                          : request->keys_only ? page.add_key(row)
                                               : page.add(row);
    if (!is_taken) {
      has_more = true;
      break;
    }
  }
  call.reply.reply(copied(page.finish({}, has_more)));
}

// --- FakeControl

control::ShardMap make_map(uint64_t revision, const std::vector<FakeNode*>& nodes, const std::vector<uint32_t>& owners,
                           uint64_t epoch) {
  control::ShardMap map;
  map.cluster_id = "c0ffee00-0000-4000-8000-000000000000";
  map.revision = revision;
  for (const FakeNode* node : nodes) {
    map.nodes.push_back({node->uuid(), node->incarnation(), node->grpc_address(), 1});
  }
  control::MapTable table;
  table.id = kTableId;
  table.name = "t";
  table.hash_tags = !nodes.empty() && nodes[0]->placement.hash_tags;
  for (uint32_t owner : owners) {
    control::MapShard shard;
    shard.epoch = epoch;
    if (owner < nodes.size()) shard.primary = control::MapReplica{owner, 0};
    table.shards.push_back(shard);
  }
  map.tables.push_back(std::move(table));
  return map;
}

void FakeControl::publish(const std::vector<FakeNode*>& nodes, const std::vector<uint32_t>& owners, uint64_t epoch) {
  const uint64_t revision = this->revision() + 1;
  for (FakeNode* node : nodes) {
    node->owned.clear();
    node->placement.shard_count = static_cast<uint32_t>(owners.size());
    node->map_revision = revision;
  }
  for (uint32_t shard = 0; shard < owners.size(); ++shard) {
    if (owners[shard] < nodes.size()) nodes[owners[shard]]->owned[shard] = epoch;
  }
  publish(make_map(revision, nodes, owners, epoch));
}

void FakeControl::publish(control::ShardMap map) {
  std::lock_guard lock(mutex_);
  map_ = std::make_shared<const control::ShardMap>(std::move(map));
  if (on_map_) on_map_(map_);
}

uint64_t FakeControl::revision() {
  std::lock_guard lock(mutex_);
  return map_ == nullptr ? 0 : map_->revision;
}

void FakeControl::attach(FakeNode& node) {
  std::lock_guard lock(mutex_);
  nodes_[node.grpc_address()] = &node;
}

void FakeControl::detach(const FakeNode& node) {
  std::lock_guard lock(mutex_);
  nodes_.erase(node.grpc_address());
}

void FakeControl::set_bootstrap_error(absl::Status error) {
  std::lock_guard lock(mutex_);
  bootstrap_error_ = std::move(error);
}

void FakeControl::set_silent(std::string grpc_address) {
  std::lock_guard lock(mutex_);
  silent_ = std::move(grpc_address);
}

void FakeControl::set_transport_kind(std::string kind) {
  std::lock_guard lock(mutex_);
  transport_kind_ = std::move(kind);
}

class FakeAccess final : public ClusterAccess {
 public:
  explicit FakeAccess(FakeControl& control) : control_(control) {}
  ~FakeAccess() override { stop(); }

  void start(MapFn on_map) override {
    std::lock_guard lock(control_.mutex_);
    control_.on_map_ = std::move(on_map);
    if (control_.map_ != nullptr) control_.on_map_(control_.map_);
  }
  void stop() override {
    std::lock_guard lock(control_.mutex_);
    control_.on_map_ = nullptr;
  }
  void hurry() override { ++control_.hurries; }
  std::string control_address() const override { return "control:7400"; }
  absl::Status connection() const override {
    std::lock_guard lock(control_.mutex_);
    if (control_.map_ == nullptr) {
      return absl::UnavailableError("control plane at control:7400 cannot be reached (refused). Check that it runs");
    }
    return absl::OkStatus();
  }

  void describe(const std::string& grpc_address, const std::string&, DurationNs, DescribeFn done) override {
    ++control_.describes;
    if (is_silent(grpc_address)) return;
    const absl::StatusOr<FakeNode*> node = find(grpc_address);
    if (!node.ok()) return done(node.status());
    const rpc::Descriptor descriptor = (*node)->endpoint().local_descriptor();
    control::NodeDescription description;
    description.node_uuid = (*node)->uuid();
    description.incarnation = (*node)->incarnation();
    description.features = (*node)->features;
    {
      std::lock_guard lock(control_.mutex_);
      const std::string& kind = control_.transport_kind_.empty() ? descriptor.transport : control_.transport_kind_;
      description.workers = {{0, {{kind, descriptor.encode()}}}};
    }
    done(std::move(description));
  }

  void open_session(const control::OpenSessionRequest& request, DurationNs, AnswerFn done) override {
    if (is_silent(request.grpc_address)) return;
    const absl::StatusOr<FakeNode*> node = find(request.grpc_address);
    if (!node.ok()) return done(node.status());
    if ((*node)->incarnation() != request.incarnation) {
      return done(absl::FailedPreconditionError("another incarnation lives here"));
    }
    if (!control_.threaded_) return done((*node)->endpoint().accept_offer(as_byte_span(request.offer)));
    SKUA_CHECK((*node)->endpoint().post([node = *node, offer = request.offer, done = std::move(done)] {
      done(node->endpoint().accept_offer(as_byte_span(offer)));
    }),
               "the node's mailbox is full");
  }

 private:
  bool is_silent(const std::string& address) {
    std::lock_guard lock(control_.mutex_);
    return address == control_.silent_;
  }
  absl::StatusOr<FakeNode*> find(const std::string& address) {
    std::lock_guard lock(control_.mutex_);
    if (!control_.bootstrap_error_.ok()) return control_.bootstrap_error_;
    const auto found = control_.nodes_.find(address);
    if (found == control_.nodes_.end()) return absl::UnavailableError("node at " + address + ": connection refused");
    return found->second;
  }

  FakeControl& control_;
};

std::unique_ptr<ClusterAccess> FakeControl::access() {
  return std::make_unique<FakeAccess>(*this);
}

}  // namespace skua::kv
