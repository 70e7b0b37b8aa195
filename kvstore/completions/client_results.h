// The results that a table of completions keeps of one client (completions.h), by their numbers.
//
//    results    | empty places | 42 | 44 | 45 |
//                              begin
//
// Results go from the front, when the client was told them, or when others need the room. Their places stay empty until
// there are many of them. The memory follows the number of results, upwards and downwards.
#ifndef SKUA_KVSTORE_COMPLETIONS_CLIENT_RESULTS_H_
#define SKUA_KVSTORE_COMPLETIONS_CLIENT_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvstore/codec/size_limits.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

struct CompletionResult {
  uint64_t seq = 0;
  uint64_t version = 0;
  int64_t value = 0;
  std::string batch_results{};  ///< effect.h; empty: not a batch
  // For a mutation without effect: `status` is the answer, or the answer to the refused operation of a batch.
  bool has_effect = true;
  KvStatus status = KvStatus::kOk;
  std::optional<uint16_t> refused_operation{};  ///< the one for which a batch was not applied; nullopt: none

  /// What the result counts.
  [[nodiscard]] size_t bytes() const { return kCompletionResultBytes + batch_results.size(); }
};
static_assert(kBatchOpsMax <= UINT16_MAX && 4 * sizeof(CompletionResult) <= kCompletionResultBytes, "see shrink()");

struct CompletionCounts {
  size_t results = 0;
  size_t bytes = 0;          ///< what results with effect count
  size_t refused_bytes = 0;  ///< what the others count
};

/// Thread: one at a time.
class ClientResults {
 public:
  /// `all` counts the results of this client and of others. It outlives the object.
  explicit ClientResults(CompletionCounts& all) : all_(all) {}
  ClientResults(const ClientResults&) = delete;
  ClientResults& operator=(const ClientResults&) = delete;
  ~ClientResults() { count_out(kept()); }

  [[nodiscard]] size_t size() const { return results_.size() - begin_; }
  [[nodiscard]] const CompletionCounts& counts() const { return counts_; }
  /// Results that there is room for in memory, now.
  [[nodiscard]] size_t places() const { return results_.capacity(); }

  /// Null: none is kept. Valid until the next call that changes the results.
  [[nodiscard]] const CompletionResult* find(uint64_t seq) const;
  /// The number of the first result. There must be one.
  [[nodiscard]] uint64_t first_seq() const { return results_[begin_].seq; }
  /// The highest number of the results that have an effect, or of those that have none. There must be one.
  [[nodiscard]] uint64_t last_seq(bool has_effect) const;

  /// A result with effect replaces one without of the same number. One that is kept already stays.
  void keep(CompletionResult result);
  /// Drops all results with lower numbers.
  void drop_below(uint64_t seq);
  /// Drops the results without effect.
  void drop_refused();

  /// Appends to a row: u32 number of results, u32 0, the results that have an effect.
  void encode(std::string& row) const;
  /// Reads what encode() wrote into an object without results. False: it is damaged, or a number is below `seq_min` or
  /// above `seq_max`.
  [[nodiscard]] bool load(ByteReader& row, uint64_t seq_min, uint64_t seq_max);

 private:
  [[nodiscard]] std::span<const CompletionResult> kept() const { return std::span(results_).subspan(begin_); }
  void count_in(const CompletionResult& result);
  void count_out(std::span<const CompletionResult> results);
  void shrink();

  CompletionCounts& all_;
  CompletionCounts counts_;
  std::vector<CompletionResult> results_;  // ordered by seq; those before `begin_` are empty places
  size_t begin_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_COMPLETIONS_CLIENT_RESULTS_H_
