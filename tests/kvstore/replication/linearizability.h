// Is there an order of these operations on one key in which each takes effect between its call and its answer?
//
// The history is read from its first event to its last. Kept is the set of all (value, operations that took effect but
// are not answered yet) in which the key can be; an answer leaves only those in which its operation has taken
// effect with that result (just-in-time linearization). An operation without an answer may take effect at any time
// after its call, or never. The cost grows with how many overlap, not with the length of the history.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_LINEARIZABILITY_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_LINEARIZABILITY_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace skua::kv::sim {

enum class OpKind : uint8_t { kBarrier, kPut, kGet, kAdd, kCas };

/// One key's value is a number; one that was never written is 0.
struct HistoryOp {
  static constexpr uint64_t kNever = UINT64_MAX;

  OpKind kind = OpKind::kGet;
  int64_t argument = 0;  ///< put: the value; add: how much; cas: the new value
  int64_t expected = 0;  ///< cas
  uint64_t called = 0;
  uint64_t answered = kNever;
  int64_t result = 0;  ///< get: the value; add: the sum; cas: 1 if it took place
};

enum class Linearizable : uint8_t {
  kYes,
  kNo,
  kTooComplex,  ///< more possibilities than the checker keeps
};

/// `history` in any order; the numbers of calls and answers are all different. `culprit`: the operation whose answer
/// fits nothing.
[[nodiscard]] Linearizable check_linearizable(const std::vector<HistoryOp>& history, size_t* culprit = nullptr);

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_LINEARIZABILITY_H_
