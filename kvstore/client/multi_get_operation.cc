#include "kvstore/client/multi_get_operation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kvstore/client/client_limits.h"
#include "kvstore/client/operation_runner.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/codec/text.h"

namespace skua::kv {

absl::Status MultiGetOperation::accept(const MultiGetCall& call, MultiGetCallback&& callback) {
  method = Method::kMultiGet;
  if (absl::Status status = check_read_of_many(method, call.options); !status.ok()) return status;
  if (call.keys.empty() || call.keys.size() > kBatchOpsMax) {
    return beyond_limit("a MULTI_GET", "key", call.keys.size(), kBatchOpsMax, 1);
  }
  key_bytes_.clear();
  for (std::string_view key : call.keys) {
    if (absl::Status status = check_key(key); !status.ok()) return status;
    key_bytes_.append(key);
  }
  keys_.clear();
  size_t offset = 0;
  for (std::string_view key : call.keys) {
    keys_.push_back(std::string_view(key_bytes_).substr(offset, key.size()));
    offset += key.size();
  }
  alone_.clear();
  next_group_ = 0;
  wishes_ = {.marks = call.options.with_mark, .memory_only = call.options.memory_only};
  done_ = std::move(callback);
  return absl::OkStatus();
}

void MultiGetOperation::divide(const KeyPlacement& placement) {
  const auto count = static_cast<uint32_t>(keys_.size());
  std::vector<uint32_t> shards(count);
  for (uint32_t i = 0; i < count; ++i) shards[i] = placement.shard_of(keys_[i]);
  places_.resize(count);
  std::iota(places_.begin(), places_.end(), 0);
  std::ranges::sort(places_, {}, [&](uint32_t place) { return std::pair(shards[place], place); });
  std::vector<std::string_view> grouped(count);
  groups_.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t of_key = shards[places_[i]];
    grouped[i] = keys_[places_[i]];
    if (groups_.empty() || groups_.back().shard != of_key) groups_.push_back({of_key, i, 0});
    ++groups_.back().count;
  }
  keys_ = std::move(grouped);
  result_.entries.assign(count, KeyResult());
}

bool MultiGetOperation::start_part() {
  if (next_group_ < groups_.size()) {
    const uint32_t group = next_group_++;
    ask(group, groups_[group].shard,
        (wishes_.marks ? kFeatureMarks : 0) | (wishes_.memory_only ? kFeatureMemoryOnly : 0));
    return true;
  }
  if (alone_.empty()) return false;
  const uint32_t key = alone_.back();
  alone_.pop_back();
  const auto group = std::upper_bound(groups_.begin(), groups_.end(), key,
                                      [](uint32_t wanted, const Group& at) { return wanted < at.first + at.count; });
  GetOperation& part = runner->pools().gets.take();
  part.ask_for(keys_[key], wishes_.marks, *this, key);
  run_part(part, Method::kGet, group->shard);
  return true;
}

absl::StatusOr<ByteSpan> MultiGetOperation::encode_part(const OperationPart& part, const Route& route) {
  const Group& group = groups_[part.number];
  const std::span<const std::string_view> keys = std::span(keys_).subspan(group.first, group.count);
  return encode_multi_get(route, keys, runner->scratch(multi_get_bytes(keys)), wishes_);
}

absl::Status MultiGetOperation::take_reply(OperationPart& part, rpc::Lease&& lease) {
  absl::StatusOr<MultiGetReply> reply = decode_multi_get_reply(lease.bytes());
  if (!reply.ok()) return reply.status();
  if (!runner->is_answer(part, reply->head)) return absl::OkStatus();
  const Group& group = groups_[part.number];
  if (reply->entries.size() != group.count) {
    return absl::InternalError("it has another number of entries than keys");
  }
  const Token token = part.token_of(reply->head);
  for (uint32_t i = group.first; i < group.first + group.count; ++i) {
    const std::optional<MultiGetEntry> entry = reply->entries.next();
    if (entry->status == KvStatus::kResourceExhausted && !wishes_.memory_only) {
      alone_.push_back(i);
      continue;
    }
    absl::Status status;
    if (entry->status == KvStatus::kNotFound) {
      status = runner->not_found();
    } else if (entry->status != KvStatus::kOk) {
      status = absl::Status(to_status_code(entry->status), status_name(entry->status));
    }
    result_.entries[places_[i]] = {status, entry->version, as_string_view(entry->value), token, entry->mark};
  }
  const std::string_view all = as_string_view(lease.bytes());
  result_.memory.emplace_back(all, std::move(lease));
  part_ended(part);
  return absl::OkStatus();
}

void MultiGetOperation::fail_part(OperationPart& part, Outcome&& outcome) {
  const Group& group = groups_[part.number];
  for (uint32_t i = group.first; i < group.first + group.count; ++i) {
    result_.entries[places_[i]].status = outcome.status;
  }
  PartedOperation::fail_part(part, std::move(outcome));
}

void MultiGetOperation::add_lone_value(GetOperation& part, GetResult&& result) {
  result_.entries[places_[part.key_index()]] = {result.status, result.version, result.value.bytes(), result.token,
                                                result.mark};
  result_.memory.push_back(std::move(result.value));
  if (result.detail != nullptr) note_failure(std::move(result));
  part_ended(part);
}

void MultiGetOperation::finish(Outcome&& outcome) {
  static_cast<Outcome&>(result_) = std::move(outcome);
  hold();  // the result is in here, and end() drops a hold
  runner->end(*this, done_, std::move(result_));
  drop();
}

void MultiGetOperation::reset() {
  PartedOperation::reset();
  if (key_bytes_.capacity() > kOperationBytesKept) std::string().swap(key_bytes_);
  result_.entries.clear();
  result_.memory.clear();
  static_cast<Outcome&>(result_) = Outcome();
}

}  // namespace skua::kv
