// The epochs of a shard's log entries, without the entries: one run for consecutive entries of the same epoch.
//
//    index   ... 10 | 11 12 13 14 | 15 16 | 17 ...        base {10, epoch 2}
//    epoch        2 |  3  3  3  3 |  5  5 |  8            runs {11: epoch 3}, {15: epoch 5}, {17: epoch 8}
//
// A primary's entries have the epoch in which it began to lead. If it still leads in a later epoch, its entries keep
// the first one. So a log has one run for each barrier. Two logs that have an entry of the same index and epoch in
// common agree in all entries before it (log matching). So their last common entry follows from their runs alone. All
// entries up to the base are committed, and the runs do not describe them any more.
#ifndef SKUA_KVSTORE_REPLICATION_EPOCH_HISTORY_H_
#define SKUA_KVSTORE_REPLICATION_EPOCH_HISTORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kvstore/types/fields.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Identifies an entry.
struct EntryId {
  uint64_t index = 0;
  uint64_t epoch = 0;

  friend bool operator==(const EntryId&, const EntryId&) = default;
};
/// As all encodings have it.
template <>
inline constexpr auto kFields<EntryId> = std::tuple(&EntryId::index, &EntryId::epoch);

class EpochHistory {
 public:
  /// The most runs that a message carries. Older runs become part of the base (compact()).
  static constexpr size_t kRunsMax = 32;
  /// The most runs that are accepted from a disk. A log keeps kRunsMax runs, and one more for each primary that
  /// committed nothing.
  static constexpr size_t kRunsStoredMax = 1024;
  /// The highest index that a client's write gets, or that comes from outside. No log grows that long, so larger values
  /// from outside are refused: sums of two indices do not overflow. Stored versions have two bits for flags, bit 62 and
  /// above (storage/rocksdb_internal.h). The margin below these bits is for barriers, which new primaries append behind
  /// kIndexMax as well.
  static constexpr uint64_t kIndexMax = uint64_t{1} << 61;

  EpochHistory() = default;
  /// A log that ends with `base`.
  explicit EpochHistory(EntryId base) : base_(base), last_(base.index) {}
  /// From parts that a peer sent or a disk has. `runs` are the first entries of the runs, in the order of their
  /// indices. nullopt: the parts contradict each other.
  [[nodiscard]] static std::optional<EpochHistory> from_parts(EntryId base, std::span<const EntryId> runs,
                                                              uint64_t last);

  [[nodiscard]] EntryId base() const { return base_; }
  [[nodiscard]] std::span<const EntryId> runs() const { return runs_; }
  [[nodiscard]] uint64_t last_index() const { return last_; }
  [[nodiscard]] EntryId last() const { return {last_, runs_.empty() ? base_.epoch : runs_.back().epoch}; }

  /// The entry's epoch. nullopt: `index` is below the base or behind the last entry.
  [[nodiscard]] std::optional<uint64_t> epoch_of(uint64_t index) const;

  /// Adds an entry behind the last one. Its epoch may be lower than the last one's, because a log follows its
  /// primary's.
  void append(uint64_t epoch);
  /// Adds entries of the last entry's epoch, up to `index`. The cost does not depend on their number.
  void extend_to(uint64_t index) { last_ = std::max(last_, index); }
  /// Drops the entries behind `index`, which must not be below the base (checked).
  void truncate(uint64_t index);
  /// Moves the base up to `index`, but not behind the last entry.
  void compact(uint64_t index);
  /// Moves the base up until at most `runs_max` runs are left, but not beyond `limit`. In a replica's own log the
  /// entries up to `limit` must be committed.
  void compact_to(size_t runs_max, uint64_t limit);

  /// The last entry that both logs have. nullopt: it is below one of the bases, so it is not known.
  [[nodiscard]] std::optional<EntryId> last_common(const EpochHistory& other) const;

  friend bool operator==(const EpochHistory&, const EpochHistory&) = default;

 private:
  /// How many runs begin at or before `index`.
  [[nodiscard]] size_t runs_up_to(uint64_t index) const;

  EntryId base_{};
  std::vector<EntryId> runs_;  // sorted by index; above the base
  uint64_t last_ = 0;
};

/// The form on a disk (little endian): u64 base index, u64 base epoch, u64 last index, u64 runs, then
/// { u64 index, u64 epoch } for each run.
[[nodiscard]] std::string encode_epoch_history(const EpochHistory& runs);
[[nodiscard]] std::optional<EpochHistory> decode_epoch_history(ByteSpan bytes);

/// Whether `bytes` can be the encoded runs that a primary put into its barrier `id`: the runs of a log that ends with
/// the barrier. (id.epoch 0: the barrier's sender does not know its epoch any more, so the epoch is not compared.)
[[nodiscard]] bool are_runs_of_barrier(ByteSpan bytes, EntryId id);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_EPOCH_HISTORY_H_
