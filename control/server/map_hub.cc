#include "control/server/map_hub.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/proto/convert.h"
#include "control/server/limits.h"

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

absl::StatusOr<uint64_t> MapHub::add(const std::shared_ptr<MapWatcher>& watcher, uint64_t after_revision) {
  MapMessage first;
  uint64_t key = 0;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return absl::UnavailableError("the control plane is shutting down");
    if (!suspended_.ok()) return suspended_;
    if (watchers_.size() >= kWatchersMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kWatchersMax, " clients watch the shard map, which is the limit. Try again later"));
    }
    key = next_key_++;
    watchers_[key] = watcher;
    const bool has_it = current_ == nullptr || current_->map().revision() == after_revision;
    first = has_it ? std::make_shared<v1::WatchShardMapReply>() : current_;
  }
  watcher->offer(first);
  return key;
}

void MapHub::remove(uint64_t key) {
  std::lock_guard lock(mutex_);
  watchers_.erase(key);
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

std::vector<std::shared_ptr<MapWatcher>> MapHub::watchers_locked() const {
  std::vector<std::shared_ptr<MapWatcher>> watchers;
  watchers.reserve(watchers_.size());
  for (const auto& [key, watcher] : watchers_) watchers.push_back(watcher);
  return watchers;
}

}  // namespace skua::control
