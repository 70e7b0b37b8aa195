// What all parts of the replication simulation share: virtual time, chance, the trace, and the first broken promise.
//
// Events are ordered by (time, a random tie, number): equal times are taken in an order that the seed picks. Everything
// that matters is noted; the hash of the notes is equal for equal seeds. Probes count branches that are rarely taken.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SIM_KERNEL_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SIM_KERNEL_H_

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::kv::sim {

/// Deliberate faults of the parts around the replica (its own are in kvstore/types/mutants.h).
enum class WorldMutant : uint8_t {
  kNone,
  kLoseDedup,         // a completion record is not applied with its entry at backups
  kServeStaleMap,     // a new primary serves its map before what is committed has been applied
  kIgnoreCasFailure,  // a manager takes a change that was refused for decided
  // Of the cluster's simulation only.
  kBlindCommit,   // the metadata store takes a change that was decided on an old state, or by a former leader
  kForgetDoubt,   // a node believes after a power cut that it lacks nothing, whatever it had not synced
  kForgetView,    // a node that starts again does not know which views it took part in
  kCopyOffByOne,  // a copy of a shard is taken for one entry more than it has
};

/// Every one must be hit in a run over many seeds.
enum class Probe : uint8_t {
  kKill,
  kPowerCut,
  kDiskReplaced,
  kNewIncarnation,
  kPause,
  kPartition,
  kOneWayPartition,
  kClog,
  kDiskStall,
  kDiskHang,
  kLogRefused,
  kManagerCrash,
  kStoreDown,
  kCasUnknown,
  kCasConflict,
  kFailover,
  kTransfer,
  kCoup,
  kSeeSaw,
  kMemberRemoved,
  kSlowMemberRemoved,
  kLearnerAdded,
  kJoinStarted,
  kJoinAborted,
  kJoined,
  kEpochRenewed,
  kSnapshotInstalled,
  kSnapshotKeptLog,
  kSnapshotTooOld,
  kTruncated,
  kTornTail,
  kLeaseRead,
  kConfirmedRead,
  kBackupRead,
  kDirtyBackupRead,
  kReadOverTaken,
  kDedupHit,
  kDedupAttached,
  kStaleRequest,
  kCasFailedOp,
  kAbandoned,
  kFalseSuspicion,
  // Of the cluster's simulation only.
  kLeaderChanged,
  kLeaderDeposed,
  kControlPause,
  kSyncFailed,
  kPowerCutInWrite,
  kBitRot,
  kShardRefused,
  kShardLearntAgain,
  kForked,
  kForkGivenUp,
  kDoubt,
  kRestored,
  kLongestLog,
  kDrained,
  kMoved,
  kClockStep,
  kReadFromDisk,
  kStartFailed,
  kLeft,
  kCount,
};
inline constexpr Probe kFirstClusterProbe = Probe::kLeaderChanged;
[[nodiscard]] const char* probe_name(Probe probe);

using Probes = std::array<uint64_t, static_cast<size_t>(Probe::kCount)>;

class EventQueue {
 public:
  explicit EventQueue(uint64_t seed) : rng_(seed) {}

  [[nodiscard]] TimeNs now() const { return now_; }
  [[nodiscard]] uint64_t taken() const { return taken_; }

  void at(TimeNs when, absl::AnyInvocable<void()> run) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(runs_.size()));
      runs_.emplace_back();
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    runs_[slot] = std::move(run);
    heap_.push_back({std::max(when, now_), rng_.next(), ++number_, slot});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  /// Takes the next event if it is due by `end`; otherwise it is `end` now.
  bool run_next(TimeNs end) {
    if (heap_.empty() || heap_.front().when > end) {
      now_ = end;
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    now_ = event.when;
    ++taken_;
    auto run = std::exchange(runs_[event.slot], nullptr);
    free_.push_back(event.slot);
    run();
    return true;
  }

 private:
  /// What runs is elsewhere, so that the heap moves little.
  struct Event {
    TimeNs when = 0;
    uint64_t tie = 0;
    uint64_t number = 0;
    uint32_t slot = 0;  // of runs_
  };
  static bool later(const Event& a, const Event& b) {
    if (a.when != b.when) return a.when > b.when;
    return a.tie != b.tie ? a.tie > b.tie : a.number > b.number;
  }

  Rng rng_;
  TimeNs now_ = 0;
  uint64_t number_ = 0;
  uint64_t taken_ = 0;
  std::vector<Event> heap_;
  std::vector<absl::AnyInvocable<void()>> runs_;
  std::vector<uint32_t> free_;  // slots of runs_ that are empty
};

struct SimKernel {
  SimKernel(uint64_t seed, bool verbose_) : queue(mix64(seed ^ 1)), rng(mix64(seed ^ 2)), verbose(verbose_) {}

  EventQueue queue;
  Rng rng;
  bool verbose;
  WorldMutant mutant = WorldMutant::kNone;
  uint64_t trace = 0;
  std::optional<std::string> broken;
  Probes probes{};

  [[nodiscard]] TimeNs now() const { return queue.now(); }
  [[nodiscard]] DurationNs between(DurationNs low, DurationNs high) {
    return static_cast<DurationNs>(rng.between(static_cast<uint64_t>(low), static_cast<uint64_t>(high)));
  }
  void hit(Probe probe) { ++probes[static_cast<size_t>(probe)]; }
  void note(const char* what, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
    uint64_t hash = trace ^ static_cast<uint64_t>(now());
    for (const char* at = what; *at != 0; ++at) hash = hash * 31 + static_cast<unsigned char>(*at);
    trace = mix64(mix64(mix64(hash ^ a) ^ (b << 1U)) ^ (c << 20U) ^ (d << 40U));
    if (verbose) {
      std::fprintf(stderr, "%12.6f %-18s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                   static_cast<double>(now()) / 1e9, what, a, b, c, d);
    }
  }
  void break_promise(std::string what) {
    if (broken) return;
    broken = std::move(what);
    note("BROKEN");
  }
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SIM_KERNEL_H_
