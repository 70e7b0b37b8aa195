#include "kvstore/gateway/get_groups.h"

#include <optional>
#include <utility>

#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/store_outcome.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;

bool fits(const StoreRequest& request) {
  return request.kind == Kind::kGet && request.borrows_value && !request.key.empty() &&
         request.key.size() <= kKeyBytesMax;
}

/// What the outcome of the whole group says of a key whose own status is `status`.
Outcome outcome_of(const Outcome& group, const absl::Status& status, uint64_t version) {
  Outcome outcome;
  outcome.status = status;
  outcome.version = version;
  if (!status.ok() && !absl::IsNotFound(status)) outcome.detail = group.detail;
  return outcome;
}

StoreResult borrowed(const Outcome& outcome, std::string_view value, RecordMark mark) {
  StoreResult result = store_result(Kind::kGet, outcome);
  result.mark = mark;
  result.value = ValueView(value, {});
  result.is_borrowed = true;
  return result;
}

}  // namespace

GetGroups::GetGroups(AsyncClient& client, DoneFn on_done) : client_(client), on_done_(std::move(on_done)) {}

bool GetGroups::add(const std::string& table, const StoreRequest& request, uint32_t place) {
  if (!fits(request)) return false;
  if (const auto alone = gets_alone_.find(&table); alone != gets_alone_.end()) {
    if (--alone->second == 0) gets_alone_.erase(alone);
    return false;
  }
  const std::optional<uint32_t> shard = client_.shard_of(table, request.key);
  if (!shard.has_value()) return false;
  Group& group = groups_.open(table, *shard);
  group.key_bytes.append(request.key);
  group.key_ends.push_back(group.key_bytes.size());
  group.places.push_back(place);
  if (group.places.size() < kGroupGetsMax && group.key_bytes.size() < kGroupKeyBytesMax) return true;
  groups_.close(table, *shard);
  send(group);
  return true;
}

void GetGroups::flush() {
  groups_.close_all([this](Group& group) { send(group); });
}

void GetGroups::send(Group& group) {
  const absl::Status accepted = submit(group);
  if (accepted.ok()) return;
  // Too many operations are in flight, or the client is closing.
  GetResult refused;
  refused.status = accepted;
  end(group, refused);
}

absl::Status GetGroups::submit(Group& group) {
  const ReadOptions options{.with_mark = true};
  if (group.places.size() == 1) {
    return client_.get(*group.table, group.key_bytes, options, [this, &group](GetResult&& got) { end(group, got); });
  }
  keys_.clear();
  size_t begin = 0;
  for (const size_t end : group.key_ends) {
    keys_.push_back(std::string_view(group.key_bytes).substr(begin, end - begin));
    begin = end;
  }
  return client_.multi_get(*group.table, keys_, options, [this, &group](MultiGetResult&& got) { end(group, got); });
}

/// The group's only GET has this result, or all of its GETs have this failure.
void GetGroups::end(Group& group, const GetResult& result) {
  if (result.value.size() > kGroupedGetBytesMax) gets_alone_[group.table] = kGetsAlone;
  for (const uint32_t place : group.places) on_done_(place, borrowed(result, result.value.bytes(), result.mark));
  free(group);
}

void GetGroups::end(Group& group, const MultiGetResult& result) {
  size_t bytes = 0;
  for (size_t i = 0; i < group.places.size(); ++i) {
    if (i >= result.entries.size()) {  // it failed before it began
      on_done_(group.places[i], borrowed(result, {}, {}));
      continue;
    }
    const KeyResult& key = result.entries[i];
    bytes += key.value.size();
    on_done_(group.places[i], borrowed(outcome_of(result, key.status, key.version), key.value, key.mark));
  }
  if (bytes / group.places.size() > kGroupedGetBytesMax) gets_alone_[group.table] = kGetsAlone;
  free(group);
}

void GetGroups::free(Group& group) {
  group.key_bytes.clear();
  group.key_ends.clear();
  group.places.clear();
  groups_.free(group);
}

}  // namespace skua::kv::gateway
