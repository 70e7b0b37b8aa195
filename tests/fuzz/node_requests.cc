#include "tests/fuzz/node_requests.h"

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/codec/batch.h"
#include "kvstore/codec/effect.h"
#include "kvstore/codec/request.h"
#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv::fuzz {
namespace {

using testing::plain_append;

constexpr std::array kMethods = {Method::kGet,       Method::kPut,      Method::kDelete,    Method::kMultiGet,
                                 Method::kPatch,     Method::kScan,     Method::kBatch,     Method::kAdd,
                                 Method::kAppend,    Method::kExpire,   Method::kReplicate, Method::kFetchChunk,
                                 Method::kFetchTail, Method::kReplicate};
constexpr size_t kMethodsTried = 64;

ShardId pick_shard(FuzzInput& in) {
  const size_t which = in.pick(kShards.size() + 2);
  if (which < kShards.size()) return kShards[which];
  if (which == kShards.size()) return kPlain;
  return {in.number<uint32_t>(), in.number<uint32_t>()};
}

Route make_route(FuzzInput& in, NodeWorld& world) {
  const ShardId shard = pick_shard(in);
  Route route{shard.table_id, shard.shard, world.view(shard).epoch, kMapRevision};
  if (in.seldom()) route.epoch = in.near(route.epoch);
  if (in.seldom()) route.map_revision = in.near(route.map_revision);
  return route;
}

/// Few keys, so that requests meet.
std::string make_key(FuzzInput& in) {
  switch (const size_t which = in.pick(16)) {
    case 10: return std::string(kHonestKey);
    case 11: return std::string(kKeyBytesMax, 'k');
    case 12: return std::string(kKeyBytesMax + 1, 'k');
    case 13: return {};
    case 14:
    case 15: return in.short_text();
    default: return std::string(1, static_cast<char>('a' + which % 5));
  }
}

std::string make_value(FuzzInput& in) {
  switch (in.pick(8)) {
    case 0: return {};
    case 1: return std::to_string(in.number<int64_t>());
    case 2: return std::string(in.number<uint16_t>(), 'v');
    case 3: return std::string(size_t{in.byte()} << 9, 'v');
    case 4: return std::string("\1\0\0\0f\1\0\0\0v", 10);
    case 5: return std::string("\1\0\0\0g\1\0\0\0v\1\0\0\0f\xff\xff\xff\xff", 19);
    default: return in.short_text();
  }
}

RequestId make_id(FuzzInput& in) {
  if (in.flag()) return {};
  const uint64_t client = 1 + in.pick(4);
  const uint64_t seq = in.seldom() ? in.number<uint64_t>() : 1 + in.byte();
  return {client, seq, in.flag() ? in.near(seq) : 1};
}

Condition make_condition(FuzzInput& in) {
  switch (in.pick(6)) {
    case 0: return Condition::if_version(in.near(in.byte()));
    case 1: return Condition::if_absent();
    case 2: return Condition::if_present();
    default: return {};
  }
}

Durability make_durability(FuzzInput& in) {
  return static_cast<Durability>(in.pick(4));
}

uint64_t make_ttl(FuzzInput& in) {
  return in.pick(4) == 0 ? in.near(in.number<uint16_t>()) : 0;
}

std::string text_of(const absl::StatusOr<ByteSpan>& head) {
  return head.ok() ? std::string(as_string_view(*head)) : std::string();
}

/// `key` and `value` are its memory.
Mutation make_parts(FuzzInput& in, Mutation::Kind kind, const std::string& key, const std::string& value) {
  using Kind = Mutation::Kind;
  Mutation mutation{.kind = kind, .condition = make_condition(in), .key = key};
  if (kind == Kind::kPut || kind == Kind::kAppend || kind == Kind::kPatch) mutation.value = as_byte_span(value);
  if (kind == Kind::kPut || kind == Kind::kExpire) mutation.ttl_ms = make_ttl(in);
  if (kind == Kind::kAdd) mutation.delta = in.number<int64_t>();
  if (kind == Kind::kPatch) mutation.create_if_missing = in.flag();
  if (kind == Kind::kPatch) mutation.edits_row = in.flag();
  if (kind == Kind::kPut && in.pick(4) == 0) mutation.mark.tag = in.number<uint32_t>();
  if ((kind == Kind::kPut || kind == Kind::kPatch) && in.pick(4) == 0) mutation.mark.row = true;
  if (kind == Kind::kCheck) mutation.condition = Condition::if_version(in.near(in.byte()));
  if (kind == Kind::kPut && mutation.ttl_ms == 0) mutation.keep_ttl = in.flag();
  return mutation;
}

std::string make_mutation(FuzzInput& in, const Route& route, Mutation::Kind kind) {
  HeadBuffer head;
  const std::string key = make_key(in);
  const std::string value = make_value(in);
  const Mutation mutation = make_parts(in, kind, key, value);
  return text_of(encode_mutation_head({route, mutation, make_id(in), make_durability(in)}, head))
      .append(as_string_view(mutation.value));
}

std::string make_batch(FuzzInput& in, const Route& route) {
  BatchOpsBuilder builder;
  for (size_t i = 1 + in.pick(6); i > 0; --i) {
    const auto kind = static_cast<Mutation::Kind>(1 + in.pick(7));
    const std::string key = make_key(in);
    const std::string value = make_value(in);
    static_cast<void>(builder.add(make_parts(in, kind, key, value)));  // refused: not in it
  }
  HeadBuffer head;
  const std::string ops(as_string_view(builder.ops().bytes()));
  return text_of(encode_batch_head({route, builder.ops(), make_id(in), make_durability(in)}, head)).append(ops);
}

std::string make_multi_get(FuzzInput& in, const Route& route) {
  std::vector<std::string> texts;
  for (size_t i = 1 + in.pick(8); i > 0; --i) texts.push_back(make_key(in));
  const std::vector<std::string_view> keys(texts.begin(), texts.end());
  std::vector<std::byte> buffer(multi_get_bytes(keys));
  return text_of(encode_multi_get(route, keys, buffer, {.marks = in.flag(), .memory_only = in.flag()}));
}

std::string make_scan(FuzzInput& in, const Route& route) {
  const std::string start = make_key(in);
  const std::string end = make_key(in);
  const std::string token = in.pick(4) == 0 ? in.short_text() : std::string();
  const ScanRequest request{route, start,     end,       in.number<uint16_t>(), in.number<uint32_t>(),
                            token, in.flag(), in.flag(), in.pick(8) == 0};
  std::vector<std::byte> buffer(scan_bytes(request));
  return text_of(encode_scan(request, buffer));
}

std::string make_client_request(FuzzInput& in, const Route& route, Method method) {
  switch (method) {
    case Method::kGet: {
      HeadBuffer head;
      const std::string key = make_key(in);
      const uint64_t index = in.flag() ? in.near(1) : 0;
      GetRequest request{route, key, index, {.ttl = in.flag(), .mark = in.flag()}};
      request.wishes.fields = in.flag();
      request.wishes.size_only = !request.wishes.fields && in.flag();
      if (!request.wishes.fields) return text_of(encode_get(request, head));
      const std::vector<std::string_view> names(1 + in.pick(3), in.flag() ? "f" : "g");
      std::string encoded;
      if (!encode_field_names(names, encoded).ok()) std::abort();
      request.fields = StringList(as_byte_span(encoded), names.size());
      return text_of(encode_get(request, head)) + encoded;
    }
    case Method::kPut:
    case Method::kDelete:
    case Method::kPatch:
    case Method::kAdd:
    case Method::kAppend:
    case Method::kExpire: return make_mutation(in, route, *kind_of(method));
    case Method::kMultiGet: return make_multi_get(in, route);
    case Method::kScan: return make_scan(in, route);
    case Method::kBatch: return make_batch(in, route);
    default: return in.short_text();
  }
}

// --- Between nodes

std::string make_chunk(FuzzInput& in) {
  const std::string name = in.flag() ? "data" : in.short_text();
  const std::string data = in.short_text();
  Chunk chunk;
  chunk.snapshot = in.near(1);
  chunk.end = {in.near(1), in.near(kEpoch)};
  chunk.files = in.byte();
  chunk.file_bytes = in.near(data.size());
  chunk.offset = in.near(0);
  chunk.name = name;
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  return text_of(encode_chunk_head(chunk, buffer)).append(data);
}

std::string make_fetch_chunk(FuzzInput& in) {
  const ShardId shard = pick_shard(in);
  std::array<std::byte, kFetchChunkBytes> buffer;
  return text_of(encode_fetch_chunk({shard.table_id, shard.shard, in.near(0),
                                     in.pick(3) == 0 ? in.number<uint32_t>() : 0, in.near(0), in.byte() + 1U},
                                    buffer));
}

/// The peer knows the number of the link to it; others guess.
std::string make_question(FuzzInput& in, NodeWorld& world) {
  const uint64_t number = in.near(world.link_nonce());
  std::string bytes(sizeof number, '\0');
  store_le(reinterpret_cast<std::byte*>(bytes.data()), number);
  return bytes;
}

std::string make_fetch_tail(FuzzInput& in, NodeWorld& world) {
  const ShardId shard = pick_shard(in);
  const Replica* const replica = world.server().shards().replica(shard);
  const uint64_t last = replica == nullptr ? 0 : replica->last_index();
  std::array<std::byte, kFetchTailBytes> buffer;
  return std::string(
      as_string_view(encode_fetch_tail({shard.table_id, shard.shard, in.near(last), in.byte() + 1U}, buffer)));
}

}  // namespace

Method pick_method(FuzzInput& in) {
  const uint8_t which = in.byte();
  if (which < 224) return kMethods[which % kMethods.size()];
  if (which < 232) return Method::kVouch;
  return static_cast<Method>(in.byte() % kMethodsTried);
}

std::string make_payload(FuzzInput& in, EntryId id) {
  std::string payload;
  if (in.seldom()) {
    EpochHistory runs({id.index - 1, 0});
    runs.append(id.epoch);
    return encode_barrier(as_byte_span(in.flag() ? encode_epoch_history(runs) : in.short_text()));
  }
  std::array<std::byte, kCompletionHeadBytes + kEffectHeadBytesMax> buffer;
  if (in.pick(4) == 0) {
    ByteWriter head(buffer);
    encode_completion_head({make_id(in), in.number<int64_t>(), {}}, head);
    payload += as_string_view(head.written());
  }
  for (size_t i = in.pick(3); i > 0; --i) {
    std::string key = make_key(in);
    if (key.empty() || key.size() > kKeyBytesMax) key = "k";
    const std::string value = make_value(in);
    ByteWriter head(buffer);
    const bool deletes = in.flag();
    Effect effect{key, {}, 0};
    if (!deletes) effect = {key, as_byte_span(value), make_ttl(in)};
    if (!deletes && in.pick(4) == 0) effect.mark = {in.number<uint32_t>(), in.flag()};
    encode_effect_head(effect, head);
    payload.append(as_string_view(head.written())).append(key).append(deletes ? "" : value);
  }
  in.damage(payload);
  return payload;
}

std::string make_frame(FuzzInput& in, NodeWorld& world) {
  const ShardId shard = pick_shard(in);
  const Replica* const replica = world.server().shards().replica(shard);
  const uint64_t last = replica == nullptr ? 0 : replica->last_index();
  ReplicaEnvelope envelope{shard.table_id, shard.shard, NodeWorld::node_id(NodeWorld::kPeer), kStorage};
  if (in.seldom()) envelope.from = in.flag() ? NodeWorld::node_id(NodeWorld::kWorker) : in.number<uint64_t>();
  if (in.seldom()) envelope.incarnation = in.near(kStorage);
  const ReplicaMessage message = make_message(in, world.view(shard), last, in.number<int64_t>());
  if (const auto* append = std::get_if<Append>(&message)) {
    std::vector<std::string> payloads;
    for (size_t i = 0; i < append->epochs.size(); ++i) {
      payloads.push_back(make_payload(in, {append->prev.index + 1 + i, append->epochs[i]}));
    }
    std::vector<AppendEntry> entries;
    for (size_t i = 0; i < payloads.size(); ++i) {
      entries.push_back({append->epochs[i], in.seldom() ? in.number<int64_t>() : 1, *durability_of_code(in.pick(3)), 0,
                         as_byte_span(payloads[i])});
    }
    return plain_append(envelope, *append, entries);
  }
  FrameBuffer buffer;
  return text_of(encode_frame(envelope, message, buffer));
}

std::string make_answer(FuzzInput& in, NodeWorld& world) {
  std::string bytes = in.pick(4) == 0 ? make_chunk(in) : make_frame(in, world);
  in.damage(bytes);
  return bytes;
}

std::string make_request(FuzzInput& in, NodeWorld& world, Method method) {
  if (in.seldom()) return in.short_text();
  std::string bytes;
  switch (method) {
    case Method::kReplicate: bytes = make_frame(in, world); break;
    case Method::kFetchChunk: bytes = make_fetch_chunk(in); break;
    case Method::kFetchTail: bytes = make_fetch_tail(in, world); break;
    case Method::kVouch: bytes = make_question(in, world); break;
    default: bytes = make_client_request(in, make_route(in, world), method);
  }
  in.damage(bytes);
  return bytes;
}

}  // namespace skua::kv::fuzz
