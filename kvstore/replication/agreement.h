// Agreement: which entries of a replica's log are known to be the primary's, in this epoch.
//
//    own log         1 ............ commit ........ verified ............ last
//                    agrees with every primary's    an Append has         may differ: is not acknowledged,
//                                                   proven that it agrees and is not committed here
//
// When an epoch begins, only committed entries are known to agree. Each Append that continues the log shows that the
// logs agree up to the Append's end. Until the first one the agreement is not proven: the primary may not know where
// this log ends, so the replica repeats its report. A primary agrees with itself.
//
// The commit index of a follower follows from it: the primary's commit index, but only within verified entries that the
// own log has written. So applied entries are still in the log after a restart of the process.
//
// A value type. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_AGREEMENT_H_
#define SKUA_KVSTORE_REPLICATION_AGREEMENT_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kvstore/replication/log_levels.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/clock.h"

namespace skua::kv {

class Agreement {
 public:
  explicit Agreement(uint64_t commit_index) { begin(commit_index); }

  /// An epoch begins.
  void begin(uint64_t commit_index) {
    verified_ = known_commit_ = commit_index;
    is_proven_ = false;
    gap_told_until_ns_ = 0;
  }
  /// The log agrees up to `index`.
  void reach(uint64_t index) { verified_ = std::max(verified_, index); }
  /// An Append has proven that the log agrees up to `index`.
  void prove(uint64_t index) {
    reach(index);
    is_proven_ = true;
  }
  /// The primary believes that the logs do not agree. Returns whether an Append had proven that they do.
  [[nodiscard]] bool withdraw() { return std::exchange(is_proven_, false); }
  /// The log has lost its entries behind `index`.
  void cut(uint64_t index) { verified_ = std::min(verified_, index); }
  /// A snapshot that ends with `base` was installed, after which the log ends with `last_index`.
  void install_snapshot(uint64_t base, uint64_t last_index) {
    verified_ = std::max(std::min(verified_, last_index), base);
    known_commit_ = std::max(known_commit_, base);
  }
  /// The primary says that it has committed the entries up to `index`.
  void hear_of_commit(uint64_t index) { known_commit_ = std::max(known_commit_, index); }

  [[nodiscard]] bool is_proven() const { return is_proven_; }
  [[nodiscard]] uint64_t verified() const { return verified_; }
  /// The primary's commit index, as far as it is known in this epoch.
  [[nodiscard]] uint64_t known_commit() const { return known_commit_; }
  /// What a follower whose log has written the entries up to `written` may commit.
  [[nodiscard]] uint64_t commit_index(uint64_t written) const { return std::min({known_commit_, verified_, written}); }
  /// The levels that may be acknowledged, of a log with these levels.
  [[nodiscard]] LogLevels acknowledged(const LogLevels& levels) const {
    LogLevels agreed = levels.up_to(verified_);
    if (mutant(Mutant::kAckBeforeDurable)) agreed.durable = agreed.written = agreed.received;
    return agreed;
  }

  /// Whether to report a gap before received entries: once per `again_ns`. Every Append behind a gap has the gap before
  /// it, and each report makes the primary send its whole window again.
  [[nodiscard]] bool may_tell_gap(TimeNs now, DurationNs again_ns) {
    if (now < gap_told_until_ns_) return false;
    gap_told_until_ns_ = now + again_ns;
    return true;
  }

 private:
  uint64_t verified_ = 0;
  uint64_t known_commit_ = 0;
  bool is_proven_ = false;
  TimeNs gap_told_until_ns_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_AGREEMENT_H_
