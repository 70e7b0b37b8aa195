// MULTI and its relatives. What they are and when they act: transaction.h.
#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/transaction.h"
#include "kvstore/gateway/transaction_evaluation.h"

namespace skua::kv::gateway::handlers {
namespace {

bool is_multi_open(const CommandRun& run) {
  return run.session().transaction != nullptr && run.session().transaction->is_open();
}

Transaction& transaction_of_session(CommandRun& run) {
  std::shared_ptr<Transaction>& transaction = run.session().transaction;
  if (transaction == nullptr) transaction = std::make_shared<Transaction>();
  return *transaction;
}

/// A batch is atomic in one shard, and so in one table.
bool watches_another_database(const CommandRun& run, const Transaction& transaction) {
  return std::any_of(transaction.watched().begin(), transaction.watched().end(),
                     [&](const WatchedKey& watched) { return watched.database != run.database(); });
}

/// One read, and nothing else: it is of one moment anyway.
bool is_lone_read(const std::vector<StoreRequest>& batch, const Transaction& transaction) {
  return batch.size() == 1 && batch[0].kind == StoreRequest::Kind::kCheck && transaction.watched().empty();
}

void reply_of_commands(CommandRun& run, const Transaction& transaction) {
  run.reply().array(transaction.commands().size());
  for (const std::unique_ptr<CommandRun>& command : transaction.commands()) {
    run.reply_bytes().append(std::string_view(command->reply_bytes().text()));
  }
}

/// After a batch that was not applied. True: begin again; otherwise the client has been told.
bool may_try_again(CommandRun& run, const StoreRequest& failed, const Transaction& transaction) {
  if (transaction.watched_version(run.database(), failed.key).has_value()) {
    run.reply().null_array();
    return false;
  }
  if (run.may_contest()) return true;
  run.reply().error(errors::kChangesTooOften);
  return false;
}

}  // namespace

CommandTask multi(CommandRun& run) {
  if (is_multi_open(run)) co_return run.reply().error(errors::kNestedMulti);
  transaction_of_session(run).open();
  co_return run.reply().ok();
}

CommandTask discard(CommandRun& run) {
  if (!is_multi_open(run)) co_return run.reply().error(errors::kDiscardWithoutMulti);
  run.session().transaction.reset();
  co_return run.reply().ok();
}

/// A queued UNWATCH does nothing: EXEC has taken the watched keys away already, and the session may have others.
CommandTask unwatch(CommandRun& run) {
  if (!run.is_queued()) run.session().transaction.reset();
  co_return run.reply().ok();
}

CommandTask watch(CommandRun& run) {
  if (is_multi_open(run)) co_return run.reply().error(errors::kWatchInsideMulti);
  Transaction& own = transaction_of_session(run);
  const std::shared_ptr<Transaction> transaction = run.session().transaction;  // EXEC may come while the store answers
  if (run.gateway().held_bytes >= run.gateway().held_bytes_max) {
    own.fail_watch();
    co_return run.reply().error(errors::kNoRoomToQueue);
  }
  const size_t first = own.watched().size();
  // Each word is compared with all keys that are watched, also a word that comes again.
  bool has_room = run.size() - 1 <= kWatchedKeysMax;
  for (size_t i = 1; has_room && i < run.size(); ++i) has_room = own.watch(run.database(), run.arg(i));
  if (!has_room) {
    own.fail_watch();
    co_return run.reply().error(errors::kTooManyWatchedKeys);
  }
  const size_t end = own.watched().size();
  co_await run.turn();
  std::vector<StoreRequest> requests;
  for (size_t at = first; at < end; at += requests.size()) {
    requests.clear();
    for (size_t i = at; i < end && requests.size() < kRequestsPerCommandMax; ++i) {
      requests.push_back({.kind = StoreRequest::Kind::kGet, .key = own.watched()[i].key, .drops_value = true});
    }
    const std::span<const StoreResult> results = co_await run.store_all(requests);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].is_failure()) own.fail_watch();
      if (reply_failure(run, results[i])) co_return;
      own.watched()[at + i].version = results[i].ok() ? results[i].version : 0;
    }
  }
  run.reply().ok();
}

CommandTask exec(CommandRun& run) {
  if (!is_multi_open(run)) co_return run.reply().error(errors::kExecWithoutMulti);
  run.take_transaction();
  Transaction& transaction = *run.transaction();
  if (transaction.is_aborted()) co_return run.reply().error(errors::kExecAborted);
  co_await run.turn();
  if (watches_another_database(run, transaction)) co_return run.reply().error(errors::kCrossSlot);
  for (;;) {
    TransactionEvaluation evaluation(transaction, run.database());
    for (evaluation.advance(run.now_us()); !evaluation.wanted().empty(); evaluation.advance(run.now_us())) {
      const std::span<const StoreResult> results = co_await run.store_all(evaluation.wanted());
      for (const StoreResult& result : results) {
        if (reply_failure(run, result)) co_return;
      }
      evaluation.learn(results);
      if (!run.keep_values(evaluation.kept_bytes())) break;  // the client is told below
    }
    if (!run.keep_values(evaluation.kept_bytes())) co_return run.reply().error(errors::kNoRoomForValues);
    if (!evaluation.error().empty()) co_return run.reply().error(evaluation.error());
    if (evaluation.has_watched_key_changed() || transaction.has_failed_watch()) co_return run.reply().null_array();
    const std::vector<StoreRequest> batch = evaluation.batch();
    if (!batch.empty() && !is_lone_read(batch, transaction)) {
      const StoreResult done = co_await run.store({.kind = StoreRequest::Kind::kBatch, .batch = &batch});
      if (reply_failure(run, done)) co_return;
      if (!done.ok()) {
        if (may_try_again(run, batch[done.failed_operation], transaction)) continue;
        co_return;
      }
    }
    reply_of_commands(run, transaction);
    co_return;
  }
}

}  // namespace skua::kv::gateway::handlers
