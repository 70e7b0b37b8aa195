// TransactionEvaluation: one attempt of EXEC to carry out the queued commands, without the cluster. Pure.
//
//   for (evaluation.advance(now_us); !evaluation.wanted().empty(); evaluation.advance(now_us)) {
//     evaluation.learn(results of evaluation.wanted());
//   }
//   evaluation.batch() goes to the cluster; the commands of the transaction have their replies
//
// The keys that the commands probably read are wanted first, all together; whatever a command reads besides is wanted
// when the command asks for it.
#ifndef SKUA_KVSTORE_GATEWAY_TRANSACTION_EVALUATION_H_
#define SKUA_KVSTORE_GATEWAY_TRANSACTION_EVALUATION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvstore/gateway/command_run.h"
#include "kvstore/gateway/store_request.h"
#include "kvstore/gateway/transaction.h"
#include "kvstore/gateway/transaction_store.h"

namespace skua::kv::gateway {

/// Thread: one.
class TransactionEvaluation {
 public:
  /// Begins anew with the first command. `transaction`, which is not aborted, must outlive the object.
  TransactionEvaluation(Transaction& transaction, uint32_t database);

  /// Carries out commands until all are done, or a key is wanted, or something is wrong.
  void advance(int64_t now_us);
  /// What must be read: at most kRequestsPerCommandMax. Valid until advance().
  [[nodiscard]] std::span<const StoreRequest> wanted() const { return wanted_; }
  /// The results of wanted(), in its order: OK or NOT_FOUND.
  void learn(std::span<const StoreResult> results);

  /// A watched key has another version. Nothing may be written.
  [[nodiscard]] bool has_watched_key_changed() const { return has_watched_key_changed_; }
  /// The error that EXEC replies with, because a bound does not hold; empty: none.
  [[nodiscard]] std::string_view error() const { return error_; }
  /// Of the values and replies that are kept.
  [[nodiscard]] size_t kept_bytes() const { return store_.value_bytes() + reply_bytes_; }
  /// All commands are done: what the cluster has to do.
  [[nodiscard]] std::vector<StoreRequest> batch() const { return store_.batch(transaction_, database_); }

 private:
  void plan_reads();
  [[nodiscard]] bool want_planned();
  [[nodiscard]] bool want_keys_of_asked();
  void want(std::string_view key);
  [[nodiscard]] bool run_command(int64_t now_us);

  Transaction& transaction_;
  const uint32_t database_;
  TransactionStore store_;
  std::vector<std::string_view> planned_;  // keys
  size_t planned_at_ = 0;
  std::vector<StoreRequest> wanted_;
  size_t command_at_ = 0;
  std::vector<IssuedRequest> asked_;  // by the command, and not answered
  size_t reply_bytes_ = 0;
  bool has_watched_key_changed_ = false;
  std::string_view error_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_TRANSACTION_EVALUATION_H_
