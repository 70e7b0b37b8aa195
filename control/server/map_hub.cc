#include "control/server/map_hub.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/proto/convert.h"
#include "control/server/controller_limits.h"

namespace skua::control {

void MapHub::publish(const ShardMap& map) {
  auto message = std::make_shared<v1::WatchShardMapReply>();
  *message->mutable_map() = to_proto(map);
  std::vector<std::shared_ptr<MapWatcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    current_ = message;
    suspended_ = absl::OkStatus();
    watchers = watchers_locked();
  }
  for (const auto& watcher : watchers) watcher->offer(message);
}

void MapHub::suspend(const absl::Status& why) {
  std::vector<std::shared_ptr<MapWatcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    current_ = nullptr;
    suspended_ = why;
    watchers = watchers_locked();
  }
  for (const auto& watcher : watchers) watcher->close(why);
}

absl::Status MapHub::refusal() const {
  std::lock_guard lock(mutex_);
  return suspended_.ok() ? absl::UnavailableError("the control plane has no shard map yet") : suspended_;
}

MapMessage MapHub::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

absl::Status MapHub::admit_locked(const std::string& source, WatcherKind kind) const {
  if (closed_) return absl::UnavailableError("the control plane is shutting down");
  if (!suspended_.ok()) return suspended_;
  const bool is_full = watchers_.size() >= kWatchersMax;
  if (is_full || (kind != WatcherKind::kNode && others_ >= others_max_)) {
    return absl::ResourceExhaustedError(absl::StrCat(is_full ? kWatchersMax : others_max_,
                                                     " clients watch the shard map, which is the limit. Try again "
                                                     "later"));
  }
  const auto from_there = by_source_.find(source);
  if (from_there == by_source_.end() || from_there->second < per_source_max_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(per_source_max_, " clients on ", source,
                   " watch the shard map, which is the limit for one host (skua-control --watches-per-host). Use fewer "
                   "processes there, or share a client between threads; try again when some have ended"));
}

absl::StatusOr<uint64_t> MapHub::add(const std::shared_ptr<MapWatcher>& watcher, uint64_t after_revision,
                                     const std::string& source, WatcherKind kind) {
  MapMessage first;
  uint64_t key = 0;
  {
    std::lock_guard lock(mutex_);
    if (auto status = admit_locked(source, kind); !status.ok()) return status;
    key = next_key_++;
    watchers_[key] = {watcher, source, kind};
    if (kind != WatcherKind::kNode) ++others_;
    if (!source.empty()) ++by_source_[source];
    const bool has_it = current_ == nullptr || current_->map().revision() == after_revision;
    first = has_it ? std::make_shared<v1::WatchShardMapReply>() : current_;
  }
  watcher->offer(first);
  return key;
}

void MapHub::remove(uint64_t key) {
  std::lock_guard lock(mutex_);
  const auto watching = watchers_.find(key);
  if (watching == watchers_.end()) return;
  const auto from_there = by_source_.find(watching->second.source);
  if (from_there != by_source_.end() && --from_there->second == 0) by_source_.erase(from_there);
  if (watching->second.kind != WatcherKind::kNode) --others_;
  watchers_.erase(watching);
}

void MapHub::close() {
  std::vector<std::shared_ptr<MapWatcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    watchers = watchers_locked();
  }
  for (const auto& watcher : watchers) watcher->close(absl::UnavailableError("the control plane is shutting down"));
}

size_t MapHub::watcher_count() const {
  std::lock_guard lock(mutex_);
  return watchers_.size();
}

size_t MapHub::anonymous_watcher_count() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(
      watchers_, [](const auto& watching) { return watching.second.kind == WatcherKind::kAnonymous; }));
}

std::vector<std::shared_ptr<MapWatcher>> MapHub::watchers_locked() const {
  std::vector<std::shared_ptr<MapWatcher>> watchers;
  watchers.reserve(watchers_.size());
  for (const auto& [key, watching] : watchers_) watchers.push_back(watching.watcher);
  return watchers;
}

}  // namespace skua::control
