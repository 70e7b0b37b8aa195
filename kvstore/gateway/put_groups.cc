#include "kvstore/gateway/put_groups.h"

#include <chrono>
#include <optional>
#include <utility>

#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/store_outcome.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;

/// The client must not refuse it: Batch would take no further operations.
bool fits(const StoreRequest& request) {
  return !request.key.empty() && request.key.size() <= kKeyBytesMax && request.value.size() <= kGroupedValueBytesMax &&
         request.ttl_ms <= kTtlMsMax;
}

/// What a group's outcome means for each of its PUTs.
StoreResult result_of_group(const Outcome& outcome) {
  StoreResult result = store_result(Kind::kBatch, outcome);
  // The keys were in one shard, so the table was made anew with other shards. Nothing was sent.
  if (result.status == StoreResult::Status::kManyShards) result.status = StoreResult::Status::kNotApplied;
  return result;
}

}  // namespace

PutGroups::PutGroups(AsyncClient& client, DoneFn on_done) : client_(client), on_done_(std::move(on_done)) {}

bool PutGroups::add(const std::string& table, const StoreRequest& request, Member member) {
  if (!request.is_blind_put() || request.tells_version || !fits(request)) return false;
  const std::optional<uint32_t> shard = client_.shard_of(table, request.key);
  if (!shard.has_value()) return false;
  Group& group = groups_.open(table, *shard);
  const BatchOpOptions options{.ttl = std::chrono::milliseconds(request.ttl_ms), .mark = request.mark};
  if (group.members.empty()) {
    group.key = request.key;
    group.value = request.value;
    group.options = options;
  } else {
    if (group.members.size() == 1) group.batch.put(group.key, group.value, group.options);
    group.batch.put(request.key, request.value, options);
  }
  group.members.push_back(member);
  group.bytes += request.key.size() + request.value.size();
  if (group.members.size() < kGroupPutsMax && group.bytes < kGroupBytesMax) return true;
  groups_.close(table, *shard);
  send(group);
  return true;
}

void PutGroups::flush() {
  groups_.close_all([this](Group& group) { send(group); });
}

void PutGroups::send(Group& group) {
  const absl::Status accepted = submit(group);
  if (!accepted.ok()) end(group, store_refusal(Kind::kBatch, accepted));
}

absl::Status PutGroups::submit(Group& group) {
  if (group.members.size() == 1) {
    return client_.put(*group.table, group.key, group.value, {.ttl = group.options.ttl, .mark = group.options.mark},
                       [this, &group](WriteResult&& done) { end(group, store_result(Kind::kPut, done)); });
  }
  return client_.batch(*group.table, group.batch, {},
                       [this, &group](BatchResult&& done) { end(group, result_of_group(done)); });
}

void PutGroups::end(Group& group, const StoreResult& result) {
  // The PUTs of a request lie side by side.
  const std::span<const Member> members = group.members;
  for (size_t begin = 0; begin < members.size();) {
    size_t end = begin + 1;
    while (end < members.size() && members[end].place == members[begin].place) ++end;
    on_done_(members.subspan(begin, end - begin), result);
    begin = end;
  }
  group.members.clear();
  group.batch.clear();
  group.bytes = 0;
  groups_.free(group);
}

}  // namespace skua::kv::gateway
