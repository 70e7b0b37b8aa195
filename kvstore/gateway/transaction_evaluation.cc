#include "kvstore/gateway/transaction_evaluation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"

namespace skua::kv::gateway {
namespace {

/// Many small commands for a large value (APPEND, HGET) must not keep the thread for seconds.
constexpr size_t kTouchedBytesMax = size_t{512} << 20;

/// The command writes, whatever is there: its keys need not be read.
bool only_overwrites(const CommandRun& command) {
  const CommandHandler handler = command.spec().handler;
  return handler == handlers::mset || handler == handlers::setex || (handler == handlers::set && command.size() == 3);
}

}  // namespace

TransactionEvaluation::TransactionEvaluation(Transaction& transaction, uint32_t database)
    : transaction_(transaction), database_(database) {
  for (const std::unique_ptr<CommandRun>& command : transaction.commands()) {
    if (command->state() != CommandRun::State::kWaiting) command->restart();
  }
  plan_reads();
}

void TransactionEvaluation::plan_reads() {
  absl::flat_hash_set<std::string_view> written;  // by a command that overwrites, before anybody reads
  absl::flat_hash_set<std::string_view> read;
  for (const std::unique_ptr<CommandRun>& command : transaction_.commands()) {
    for_each_key(command->spec(), command->words(), [&](std::string_view key) {
      if (written.contains(key)) return;
      if (only_overwrites(*command)) {
        if (!read.contains(key)) written.insert(key);
      } else if (read.insert(key).second) {
        planned_.push_back(key);
      }
    });
  }
  size_t keys = written.size() + read.size();
  for (const WatchedKey& watched : transaction_.watched()) {
    if (!written.contains(watched.key) && !read.contains(watched.key)) ++keys;
  }
  if (keys > kBatchOpsMax) error_ = errors::kTooManyKeysInExec;
}

void TransactionEvaluation::advance(int64_t now_us) {
  wanted_.clear();
  if (!error_.empty() || has_watched_key_changed_ || want_planned()) return;
  for (; command_at_ < transaction_.commands().size(); ++command_at_) {
    if (!run_command(now_us)) return;
    reply_bytes_ += transaction_.commands()[command_at_]->reply_bytes().size();
    store_.end_command();
    if (reply_bytes_ > kManyValuesBytesMax || store_.value_bytes() > kManyValuesBytesMax ||
        store_.touched_bytes() > kTouchedBytesMax) {
      error_ = errors::kExecTooLarge;
      return;
    }
  }
}

/// False: a key is wanted first.
bool TransactionEvaluation::run_command(int64_t now_us) {
  CommandRun& command = *transaction_.commands()[command_at_];
  if (command.state() == CommandRun::State::kWaiting) {
    asked_.clear();
    command.start(now_us, asked_);
  }
  while (command.state() == CommandRun::State::kRunning) {
    if (want_keys_of_asked()) return false;
    const std::vector<IssuedRequest> asked = std::exchange(asked_, {});
    for (const IssuedRequest& issued : asked) {
      command.complete(issued.ticket.index, store_.run(issued.request), now_us, asked_);
    }
  }
  return true;
}

void TransactionEvaluation::want(std::string_view key) {
  wanted_.push_back({.kind = StoreRequest::Kind::kGet, .key = key, .with_ttl = true, .with_mark = true});
}

/// True: keys are wanted.
bool TransactionEvaluation::want_planned() {
  for (; planned_at_ < planned_.size() && wanted_.size() < kRequestsPerCommandMax; ++planned_at_) {
    want(planned_[planned_at_]);
  }
  return !wanted_.empty();
}

bool TransactionEvaluation::want_keys_of_asked() {
  for (const IssuedRequest& issued : asked_) {
    if (store_.needs(issued.request)) want(issued.request.key);
  }
  return !wanted_.empty();
}

void TransactionEvaluation::learn(std::span<const StoreResult> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string_view key = wanted_[i].key;
    store_.learn(key, results[i]);
    const uint64_t version = results[i].ok() ? results[i].version : 0;
    has_watched_key_changed_ |= transaction_.watched_version(database_, key).value_or(version) != version;
  }
  if (store_.value_bytes() > kManyValuesBytesMax) error_ = errors::kExecTooLarge;
}

}  // namespace skua::kv::gateway
