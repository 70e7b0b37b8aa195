#include "tests/kvstore/client/fake_cluster.h"

#include <algorithm>
#include <array>
#include <utility>

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
  for (Method method :
       {Method::kGet, Method::kPut, Method::kDelete, Method::kMultiGet, Method::kPatch, Method::kScan}) {
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
    case Method::kPut: return put(call);
    case Method::kDelete: return remove(call);
    case Method::kMultiGet: return multi_get(call);
    case Method::kPatch: return patch(call);
    case Method::kScan: return scan(call);
    default: break;
  }
}

void FakeNode::reply_error(rpc::IncomingCall& call, KvStatus status, std::string_view text, uint64_t version) {
  HeadBuffer buffer;
  call.reply.reply(copied(encode_error_reply({.status = status, .version = version, .text = text}, buffer)));
}

void FakeNode::reply_written(rpc::IncomingCall& call, uint64_t version) {
  HeadBuffer buffer;
  call.reply.reply(copied(encode_write_reply({.head = {.version = version}, .durability = Durability::kSync}, buffer)));
}

void FakeNode::get(rpc::IncomingCall& call) {
  const auto request = decode_get(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed GET");
  const auto found = store_->entries.find(std::string(request->key));
  if (found == store_->entries.end()) return reply_error(call, KvStatus::kNotFound, "");
  HeadBuffer buffer;
  const FakeStore::Entry& entry = found->second;
  call.reply.reply(copied(encode_get_reply_head({.version = entry.version}, entry.value.size(), buffer), entry.value));
}

void FakeNode::put(rpc::IncomingCall& call) {
  const auto request = decode_put(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed PUT");
  const std::string key(request->key);
  const auto found = store_->entries.find(key);
  const uint64_t present = found == store_->entries.end() ? 0 : found->second.version;
  if (request->condition.kind == Condition::Kind::kIfAbsent && present != 0) {
    return reply_error(call, KvStatus::kAlreadyExists, "the key exists", present);
  }
  if (request->condition.kind == Condition::Kind::kIfVersion && present != request->condition.version) {
    return reply_error(call, KvStatus::kVersionMismatch, "another version", present);
  }
  const uint64_t version = store_->next_version++;
  store_->entries[key] = {std::string(as_string_view(request->value)), version};
  reply_written(call, version);
}

void FakeNode::remove(rpc::IncomingCall& call) {
  const auto request = decode_delete(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed DELETE");
  store_->entries.erase(std::string(request->key));
  reply_written(call, store_->next_version++);
}

void FakeNode::patch(rpc::IncomingCall& call) {
  const auto request = decode_patch(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed PATCH");
  const std::string key(request->key);
  const auto found = store_->entries.find(key);
  if (found == store_->entries.end() && !request->create_if_missing) {
    return reply_error(call, KvStatus::kNotFound, "");
  }
  std::string patched;
  const std::string before = found == store_->entries.end() ? "" : found->second.value;
  if (!patch_row(as_byte_span(before), request->fields, patched).ok()) {
    return reply_error(call, KvStatus::kNotARow, "not a row");
  }
  const uint64_t version = store_->next_version++;
  store_->entries[key] = {patched, version};
  reply_written(call, version);
}

void FakeNode::multi_get(rpc::IncomingCall& call) {
  const auto request = decode_multi_get(call.request.bytes());
  SKUA_CHECK(request.ok(), "malformed MULTI_GET");
  std::vector<MultiGetEntry> entries;
  std::string values;
  size_t bytes = 0;
  for (std::string_view key : request->keys) {
    SKUA_CHECK(shard_of_key(key, shard_count) == request->route.shard, "a key was sent to another shard");
    const auto found = store_->entries.find(std::string(key));
    if (found == store_->entries.end()) {
      entries.push_back({KvStatus::kNotFound, 0, {}});
    } else if (bytes + found->second.value.size() > kBatchBytesMax) {
      entries.push_back({KvStatus::kResourceExhausted, 0, {}});
    } else {
      bytes += found->second.value.size();
      entries.push_back({KvStatus::kOk, found->second.version, as_byte_span(found->second.value)});
    }
  }
  for (const MultiGetEntry& entry : entries) values.append(as_string_view(entry.value));
  std::string head(multi_get_reply_head_bytes(entries.size()), '\0');
  call.reply.reply(copied(encode_multi_get_reply_head({}, entries, std::as_writable_bytes(std::span(head))), values));
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
  ScanReplyBuilder page(request->rows_max, request->bytes_max);
  bool has_more = false;
  for (; at != store_->entries.end(); ++at) {
    if (!request->end_key.empty() && at->first >= request->end_key) break;
    if (shard_of_key(at->first, shard_count) != request->route.shard) continue;
    if (!page.add({at->first, at->second.version, as_byte_span(at->second.value)})) {
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
    node->shard_count = static_cast<uint32_t>(owners.size());
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
    if (control_.map_ == nullptr) return absl::UnavailableError("connection refused");
    return absl::OkStatus();
  }

  void describe(const std::string& grpc_address, const std::string&, DurationNs, DescribeFn done) override {
    ++control_.describes;
    const absl::StatusOr<FakeNode*> node = find(grpc_address);
    if (!node.ok()) return done(node.status());
    const rpc::Descriptor descriptor = (*node)->endpoint().local_descriptor();
    control::NodeDescription description;
    description.node_uuid = (*node)->uuid();
    description.incarnation = (*node)->incarnation();
    {
      std::lock_guard lock(control_.mutex_);
      const std::string& kind = control_.transport_kind_.empty() ? descriptor.transport : control_.transport_kind_;
      description.workers = {{0, {{kind, descriptor.encode()}}}};
    }
    done(std::move(description));
  }

  void open_session(const SessionRequest& request, DurationNs, AnswerFn done) override {
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
