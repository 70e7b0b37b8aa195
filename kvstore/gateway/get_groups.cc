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

/// The node is too old for groups, or the table was made anew: a GET finds its way.
bool is_worth_another_way(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsAborted(status);
}

}  // namespace

GetGroups::GetGroups(AsyncClient& client, DoneFn on_done, AloneFn ask_alone)
    : client_(client), on_done_(std::move(on_done)), ask_alone_(std::move(ask_alone)) {}

bool GetGroups::add(const std::string& table, const StoreRequest& request, uint32_t place) {
  if (!fits(request) || grouped_count_ >= kGetsInGroupsMax) return false;
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
  ++grouped_count_;
  if (group.places.size() < kGroupGetsMax && group.key_bytes.size() < kGroupKeyBytesMax) return true;
  groups_.close(table, *shard);
  send(group);
  return true;
}

void GetGroups::flush() {
  groups_.close_all([this](Group& group) { send(group); });
}

void GetGroups::send(Group& group) {
  if (group.places.size() == 1) {
    ask_alone(group, 0);
    return free(group);
  }
  const absl::Status accepted = submit(group);
  if (accepted.ok()) return;
  // Too many operations are in flight, or the client is closing.
  MultiGetResult refused;
  refused.status = accepted;
  end(group, refused);
}

absl::Status GetGroups::submit(Group& group) {
  keys_.clear();
  for (size_t i = 0; i < group.places.size(); ++i) keys_.push_back(group.key(i));
  return client_.multi_get(*group.table, keys_, {.with_mark = true, .memory_only = true},
                           [this, &group](MultiGetResult&& got) { end(group, got); });
}

void GetGroups::end(Group& group, const MultiGetResult& result) {
  group.useless_count = 0;
  for (size_t i = 0; i < group.places.size(); ++i) end_key(group, i, result);
  if (group.useless_count > group.places.size() / 2) gets_alone_[group.table] = kGetsAlone;
  free(group);
}

void GetGroups::end_key(Group& group, size_t index, const MultiGetResult& result) {
  // If the MULTI_GET failed, entries may be missing, or nobody has filled them in.
  const bool has_entry =
      index < result.entries.size() && (result.entries[index].version != 0 || !result.entries[index].status.ok());
  const absl::Status& status = has_entry ? result.entries[index].status : result.status;
  const bool is_left_out = has_entry && absl::IsResourceExhausted(status);
  if (is_left_out || is_worth_another_way(status)) {
    ++group.useless_count;
    return ask_alone(group, index);
  }
  Outcome outcome;
  outcome.status = status;
  // A key that is not there is no failure, whatever became of other keys.
  if (!status.ok() && !absl::IsNotFound(status)) outcome.detail = result.detail;
  RecordMark mark;
  std::string_view value;
  if (has_entry) {
    outcome.version = result.entries[index].version;
    mark = result.entries[index].mark;
    value = result.entries[index].value;
  }
  if (value.size() > kGroupedGetValueBytesMax) ++group.useless_count;
  StoreResult borrowed = store_result(Kind::kGet, outcome);
  borrowed.mark = mark;
  borrowed.value = ValueView(value, {});
  borrowed.is_borrowed = true;
  on_done_(group.places[index], std::move(borrowed));
}

void GetGroups::ask_alone(Group& group, size_t index) {
  ask_alone_(*group.table, group.key(index), group.places[index]);
}

void GetGroups::free(Group& group) {
  grouped_count_ -= group.places.size();
  group.key_bytes.clear();
  group.key_ends.clear();
  group.places.clear();
  groups_.free(group);
}

}  // namespace skua::kv::gateway
