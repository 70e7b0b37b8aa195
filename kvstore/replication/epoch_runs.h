// Which epoch made which entry of a shard's log, without the entries.
//
//    index   ... 10 | 11 12 13 14 | 15 16 | 17 ...        base {10, epoch 2}; runs {11: epoch 3}, {15: epoch 5}, {17: epoch 8}
//    epoch        2 |  3  3  3  3 |  5  5 |  8
//
// A primary's entries have the epoch in which its reign began, also in later ones of the same reign; so a log has one run for
// each barrier. Two logs that agree in (index,
// epoch) agree in everything before (log matching), so their last common entry follows from their runs alone.
// Everything up to the base is committed and has no entries any more.
#ifndef SKUA_KVSTORE_REPLICATION_EPOCH_RUNS_H_
#define SKUA_KVSTORE_REPLICATION_EPOCH_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/base/bytes.h"

namespace skua::kv {

/// An entry's identity.
struct EntryId {
  uint64_t index = 0;
  uint64_t epoch = 0;

  friend bool operator==(const EntryId&, const EntryId&) = default;
};

class EpochRuns {
 public:
  /// More than a message carries: older runs count as base (compact()).
  static constexpr size_t kRunsMax = 32;
  /// More than a disk has: a primary keeps kRunsMax, and one for each reign that committed nothing.
  static constexpr size_t kRunsStoredMax = 1024;
  /// No log gets so far. What claims to be beyond is no log; sums of indices below it do not overflow.
  static constexpr uint64_t kIndexMax = uint64_t{1} << 62;

  EpochRuns() = default;
  /// A log that has nothing but what is in `base`.
  explicit EpochRuns(EntryId base) : base_(base), last_(base.index) {}
  /// From a peer or a disk: `runs` are first entries with rising index and the epochs from there on. nullopt: they are none.
  [[nodiscard]] static std::optional<EpochRuns> from_parts(EntryId base, std::span<const EntryId> runs, uint64_t last);

  [[nodiscard]] EntryId base() const { return base_; }
  [[nodiscard]] std::span<const EntryId> runs() const { return runs_; }
  [[nodiscard]] uint64_t last_index() const { return last_; }
  [[nodiscard]] EntryId last() const { return {last_, runs_.empty() ? base_.epoch : runs_.back().epoch}; }

  /// nullopt: below the base, or not there.
  [[nodiscard]] std::optional<uint64_t> epoch_of(uint64_t index) const;

  /// The entry behind the last one. Its epoch may be lower than the last one's: a log follows its primary's.
  void append(uint64_t epoch);
  /// Entries of the last one's epoch, up to `index`. Costs the same however many they are.
  void extend_to(uint64_t index) { last_ = std::max(last_, index); }
  /// Drops what is behind `index`, which is at or above the base.
  void truncate(uint64_t index);
  /// Moves the base up to `index`, or to the last entry.
  void compact(uint64_t index);
  /// Moves the base as far as needed for at most `runs_max` runs; not beyond `limit`, whose entries must be committed.
  void compact_to(size_t runs_max, uint64_t limit);

  /// The last entry that both logs have; nullopt: what is left of them does not tell.
  [[nodiscard]] std::optional<EntryId> last_common(const EpochRuns& other) const;

  friend bool operator==(const EpochRuns&, const EpochRuns&) = default;

 private:
  EntryId base_{};
  std::vector<EntryId> runs_;  // by index; above the base
  uint64_t last_ = 0;
};

/// For a disk (little endian): u64 base index, u64 base epoch, u64 last index, u64 runs, { u64 index, u64 epoch } each.
[[nodiscard]] std::string encode_epoch_runs(const EpochRuns& runs);
[[nodiscard]] std::optional<EpochRuns> decode_epoch_runs(ByteSpan bytes);

/// Whether a primary may have put these runs, encoded, into the barrier `id`: they are those of a log that ends with
/// it. (Epoch 0: whoever sent the barrier does not know its epoch any more.)
[[nodiscard]] bool are_runs_of_barrier(ByteSpan bytes, EntryId id);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_EPOCH_RUNS_H_
