// What a shard's log is a log of: keys with numbers as values, and a completion record per client (exactly once).
//
// Conditions and sums are evaluated at the primary before an entry is made; applying one asks nothing. A client has one
// operation at a time, so its last one is all that has to be known.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SHARD_STATE_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SHARD_STATE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/kvstore/replication/linearizability.h"

namespace skua::kv::sim {

struct Operation {
  OpKind kind = OpKind::kGet;
  uint32_t key = 0;
  int64_t argument = 0;
  int64_t expected = 0;
};

struct RequestId {
  uint64_t client = 0;  // 0: none
  uint64_t seq = 0;

  friend bool operator==(const RequestId&, const RequestId&) = default;
};

struct LogEntry {
  uint64_t epoch = 0;
  RequestId request;
  bool has_effect = false;
  uint32_t key = 0;
  int64_t value = 0;
  int64_t result = 0;

  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

struct Item {
  int64_t value = 0;
  uint64_t version = 0;  // the index of its entry

  /// Of many, xor-ed: what a state has, however it came about.
  [[nodiscard]] uint64_t hash(uint32_t key) const {
    return version == 0 ? 0 : mix64(mix64(key) ^ mix64(static_cast<uint64_t>(value)) ^ (version << 8U));
  }
};

struct Completion {
  uint64_t seq = 0;
  int64_t result = 0;
  uint64_t index = 0;
};

class ShardState {
 public:
  explicit ShardState(size_t keys = 0) : items_(keys) {}

  void apply(uint64_t index, const LogEntry& entry, bool lose_completion) {
    applied_ = index;
    if (entry.has_effect) {
      contents_ ^= items_[entry.key].hash(entry.key);
      items_[entry.key] = {entry.value, index};
      contents_ ^= items_[entry.key].hash(entry.key);
      hash_ = mix64(hash_ ^ mix64(index) ^ mix64(static_cast<uint64_t>(entry.value)));
    }
    if (entry.request.client == 0 || lose_completion) return;
    completions_[entry.request.client] = {entry.request.seq, entry.result, index};
    hash_ = mix64(hash_ ^ entry.request.client ^ mix64(entry.request.seq));
  }

  [[nodiscard]] uint64_t applied() const { return applied_; }
  [[nodiscard]] const Item& item(uint32_t key) const { return items_[key]; }
  [[nodiscard]] const Completion* completion(uint64_t client) const {
    const auto found = completions_.find(client);
    return found == completions_.end() ? nullptr : &found->second;
  }
  /// Of all that was applied.
  [[nodiscard]] uint64_t hash() const { return hash_; }
  /// Of the items as they are.
  [[nodiscard]] uint64_t contents() const { return contents_; }

 private:
  std::vector<Item> items_;
  std::map<uint64_t, Completion> completions_;
  uint64_t applied_ = 0;
  uint64_t hash_ = 0;
  uint64_t contents_ = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SHARD_STATE_H_
