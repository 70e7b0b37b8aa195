#include "kvstore/gateway/transaction.h"

#include <algorithm>
#include <utility>

#include "kvstore/gateway/command_run.h"
#include "kvstore/gateway/gateway_context.h"

namespace skua::kv::gateway {

Transaction::Transaction() = default;

Transaction::~Transaction() {
  forget_commands();
}

bool Transaction::watch(uint32_t database, std::string_view key) {
  if (watched_version(database, key).has_value()) return true;
  if (watched_.size() >= kWatchedKeysMax) return false;
  watched_.push_back({.database = database, .key = std::string(key)});
  watched_bytes_ += sizeof(WatchedKey) + key.size();
  return true;
}

/// Most transactions watch a few keys: these are found sooner so than in a table.
std::optional<uint64_t> Transaction::watched_version(uint32_t database, std::string_view key) const {
  const auto found = std::find_if(watched_.begin(), watched_.end(), [&](const WatchedKey& watched) {
    return watched.database == database && watched.key == key;
  });
  return found == watched_.end() ? std::nullopt : std::optional(found->version);
}

bool Transaction::queue(std::unique_ptr<CommandRun> command) {
  const size_t bytes = sizeof(CommandRun) + command->memory_bytes();
  commands_.push_back(std::move(command));
  if (is_aborted_) {
    forget_commands();
    return true;
  }
  queued_bytes_ += bytes;
  if (commands_.size() <= kQueuedCommandsMax && queued_bytes_ <= kQueuedBytesMax) return true;
  abort();
  return false;
}

void Transaction::abort() {
  if (!is_open_) return;
  is_aborted_ = true;
  forget_commands();
}

void Transaction::forget_commands() {
  for (std::unique_ptr<CommandRun>& command : commands_) {
    command->end();
    std::vector<std::unique_ptr<CommandRun>>& spare = command->gateway().spare_runs;
    if (spare.size() < kSpareRunsMax) spare.push_back(std::move(command));
  }
  std::vector<std::unique_ptr<CommandRun>>().swap(commands_);
  queued_bytes_ = 0;
}

}  // namespace skua::kv::gateway
