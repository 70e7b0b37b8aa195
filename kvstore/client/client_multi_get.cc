// MULTI_GET: keys are grouped by shard. Each group is a part; parts are in flight at the same time. A key whose value
// did not fit into its group's reply is read again by a part of its own.
#include <algorithm>
#include <numeric>
#include <utility>

#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/codec/text.h"

namespace skua::kv {

absl::Status ClientCore::multi_get(std::string_view table, std::span<const std::string_view> keys,
                                   const ReadOptions& options, MultiGetCallback&& done) {
  if (absl::Status status = admit(table, options.timeout); !status.ok()) return status;
  if (absl::Status status = check_read_of_many(Method::kMultiGet, options); !status.ok()) return status;
  if (keys.empty() || keys.size() > kBatchOpsMax) {
    return beyond_limit("a MULTI_GET", "key", keys.size(), kBatchOpsMax, 1);
  }
  for (std::string_view key : keys) {
    if (absl::Status status = check_key(key); !status.ok()) return status;
  }
  Operation& operation = begin(Method::kMultiGet, table, {}, options.timeout);
  operation.kind = Kind::kMultiGet;
  if (operation.multi_get == nullptr) operation.multi_get = std::make_unique<MultiGetState>();
  MultiGetState& state = *operation.multi_get;
  state.key_bytes.clear();
  for (std::string_view key : keys) state.key_bytes.append(key);
  state.keys.clear();
  size_t offset = 0;
  for (std::string_view key : keys) {
    state.keys.push_back(std::string_view(state.key_bytes).substr(offset, key.size()));
    offset += key.size();
  }
  state.alone.clear();
  state.next_group = 0;
  operation.on_multi_get = std::move(done);
  return submit(operation);
}

void ClientCore::start_multi_get(Operation& parent, const TableRoutes& table) {
  MultiGetState& state = *parent.multi_get;
  const auto count = static_cast<uint32_t>(state.keys.size());
  const auto shard_count = static_cast<uint32_t>(table.shards.size());
  std::vector<uint32_t> shards(count);
  for (uint32_t i = 0; i < count; ++i) shards[i] = shard_of_key(state.keys[i], shard_count);
  state.places.resize(count);
  std::iota(state.places.begin(), state.places.end(), 0);
  std::sort(state.places.begin(), state.places.end(),
            [&](uint32_t a, uint32_t b) { return shards[a] != shards[b] ? shards[a] < shards[b] : a < b; });
  std::vector<std::string_view> grouped(count);
  state.groups.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t shard = shards[state.places[i]];
    grouped[i] = state.keys[state.places[i]];
    if (state.groups.empty() || state.groups.back().shard != shard) {
      state.groups.push_back({shard, i, 0});
    }
    ++state.groups.back().count;
  }
  state.keys = std::move(grouped);
  state.result.entries.assign(count, KeyResult());
  parent.state = State::kInFlight;
  run_parent(parent);
}

bool ClientCore::start_multi_get_part(Operation& parent) {
  MultiGetState& state = *parent.multi_get;
  if (state.next_group < state.groups.size()) {
    const uint32_t group = state.next_group++;
    Operation& part = begin_part(parent, Kind::kMultiGetPart, Method::kMultiGet, state.groups[group].shard);
    part.part = group;
    dispatch(part);
    return true;
  }
  if (state.alone.empty()) return false;
  const uint32_t key = state.alone.back();
  state.alone.pop_back();
  const auto group =
      std::upper_bound(state.groups.begin(), state.groups.end(), key,
                       [](uint32_t wanted, const MultiGetState::Group& at) { return wanted < at.first + at.count; });
  Operation& part = begin_part(parent, Kind::kMultiGetPart, Method::kGet, group->shard);
  part.part = key;
  part.alone = true;
  part.key.assign(state.keys[key]);
  dispatch(part);
  return true;
}

absl::StatusOr<ByteSpan> ClientCore::encode_multi_get_part(const Operation& part, const Route& route) {
  const MultiGetState& state = *part.parent->multi_get;
  const MultiGetState::Group& group = state.groups[part.part];
  const auto keys = std::span(state.keys).subspan(group.first, group.count);
  scratch_.resize(multi_get_bytes(keys));
  return encode_multi_get(route, keys, std::as_writable_bytes(std::span(scratch_)));
}

void ClientCore::on_multi_get_reply(Operation& part, rpc::Lease&& lease) {
  absl::StatusOr<MultiGetReply> reply = decode_multi_get_reply(lease.bytes());
  if (!reply.ok()) return on_malformed(part, reply.status());
  if (!judge(part, reply->head)) return;
  MultiGetState& state = *part.parent->multi_get;
  const MultiGetState::Group& group = state.groups[part.part];
  if (reply->entries.size() != group.count) {
    return on_malformed(part, absl::InternalError("it has another number of entries than keys"));
  }
  const Token token{part.table_id, part.shard, reply->head.epoch, reply->head.index};
  for (uint32_t i = group.first; i < group.first + group.count; ++i) {
    const std::optional<MultiGetEntry> entry = reply->entries.next();
    if (entry->status == KvStatus::kResourceExhausted) {
      state.alone.push_back(i);
      continue;
    }
    absl::Status status;
    if (entry->status == KvStatus::kNotFound) {
      status = not_found_;
    } else if (entry->status != KvStatus::kOk) {
      status = absl::Status(to_status_code(entry->status), status_name(entry->status));
    }
    state.result.entries[state.places[i]] = {status, entry->version, as_string_view(entry->value), token};
  }
  const std::string_view all = as_string_view(lease.bytes());
  state.result.memory.emplace_back(all, std::move(lease));
  part_ended(part);
}

void ClientCore::on_lone_value(Operation& part, GetResult&& result) {
  MultiGetState& state = *part.parent->multi_get;
  KeyResult& out = state.result.entries[state.places[part.part]];
  out = {result.status, result.version, result.value.bytes(), result.token};
  state.result.memory.push_back(std::move(result.value));
  part_ended(part);
}

void ClientCore::fail_keys(const Operation& part, const absl::Status& status) {
  MultiGetState& state = *part.parent->multi_get;
  if (part.alone) {
    state.result.entries[state.places[part.part]].status = status;
    return;
  }
  const MultiGetState::Group& group = state.groups[part.part];
  for (uint32_t i = group.first; i < group.first + group.count; ++i) {
    state.result.entries[state.places[i]].status = status;
  }
}

void ClientCore::finish_multi_get(Operation& parent, Outcome&& outcome) {
  MultiGetState& state = *parent.multi_get;
  static_cast<Outcome&>(state.result) = std::move(outcome);
  MultiGetCallback done = std::move(parent.on_multi_get);
  OperationPool::hold(parent);  // the result is in parent, and end() drops a hold
  end(parent, state.result);
  done(std::move(state.result));
  state.result.entries.clear();
  state.result.memory.clear();
  static_cast<Outcome&>(state.result) = Outcome();
  OperationPool::drop(parent);
}

}  // namespace skua::kv
