#include "kvstore/node/shard_manager.h"

#include <chrono>
#include <utility>

#include "kvstore/storage/shard_files.h"
#include "rpc/base/check.h"

namespace skua::kv {

ShardManager::ShardManager(Options options, RocksdbEngine& engine, std::vector<WorkerCommands*> workers)
    : options_(std::move(options)), lifecycle_(options_.lifecycle, engine, std::move(workers), *this) {}

void ShardManager::start() {
  SKUA_CHECK(!thread_.joinable(), "ShardManager::start() may be called once");
  thread_ = std::thread([this] { run(); });
}

void ShardManager::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ShardManager::run() {
  bool settled = true;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto has_news = [this] { return stopping_ || !news_.empty(); };
    if (settled) {
      changed_.wait(lock, has_news);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(options_.reopen_pause_ns), has_news);
    }
    if (stopping_) return;
    ShardNews news = std::exchange(news_, {});
    lock.unlock();
    settled = lifecycle_.step(std::move(news));
    lock.lock();
  }
}

// --- News

void ShardManager::tell(absl::FunctionRef<void(ShardNews&)> what) {
  const std::lock_guard lock(mutex_);
  what(news_);
  changed_.notify_one();
}

void ShardManager::set_map(std::shared_ptr<const control::ShardMap> map) {
  tell([&](ShardNews& news) {
    if (map->revision <= map_revision_) return;
    map_revision_ = map->revision;
    news.map = std::move(map);
  });
}

// --- Databases that are open

absl::Status ShardManager::with_db(ShardId id, absl::FunctionRef<absl::Status(ShardDb&, uint32_t)> use) {
  std::unique_lock lock(mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return absl::NotFoundError("the shard is not open on this node");
  OpenDatabase& open = found->second;
  ++open.users;
  lock.unlock();
  absl::Status status = use(*open.db, open.worker);
  lock.lock();
  --open.users;
  note_released(id);
  return status;
}

void ShardManager::database_opened(ShardId id, ShardDb& db, uint32_t worker) {
  const std::lock_guard lock(mutex_);
  open_[id] = {&db, worker};
}

void ShardManager::released_by_worker(ShardId id) {
  const std::lock_guard lock(mutex_);
  open_[id].released = true;
  note_released(id);
}

/// The caller holds mutex_.
void ShardManager::note_released(ShardId id) {
  const auto found = open_.find(id);
  if (found == open_.end() || !found->second.released || found->second.users > 0) return;
  open_.erase(found);
  news_.released.push_back(id);
  changed_.notify_one();
}

// --- The lifecycle's other questions

ShardViews ShardManager::take_adopted() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_.adopted, {});
}

absl::Status ShardManager::discard_copy(const std::string& path) {
  return files::remove_tree(path);
}

void ShardManager::unserved_changed(const std::map<ShardId, UnservedShard>& unserved) {
  const std::lock_guard lock(mutex_);
  unserved_ = unserved;
}

std::map<ShardId, UnservedShard> ShardManager::unserved() {
  const std::lock_guard lock(mutex_);
  return unserved_;
}

}  // namespace skua::kv
