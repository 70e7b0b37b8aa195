// The end of a shard that is open on a worker.
//
//    begin()      rows of entries that are not committed ---> applier      go_on(): the rest of them
//    let_go()     the database has everything           ---> the shard's end ---> log
//    is_gone()    the log has given back all of the shard
//    leave()      the shard may be deleted; close()'s `closed` runs
//
// If the database lacks something, or the failed log may hold a write that was not acknowledged, the shard cannot be
// closed: only recovery can bring the database what it lacks, and an index that is in doubt in this log must not be
// given out again in another log. Then nobody may open the shard before a restart, so `closed` does not run.
#ifndef SKUA_KVSTORE_SHARD_SHARD_CLOSING_H_
#define SKUA_KVSTORE_SHARD_SHARD_CLOSING_H_

#include <cstdint>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/shard_log.h"
#include "kvstore/types/mutation.h"

namespace skua::kv {

/// A shard that is being closed, or that cannot be closed.
struct ClosingShard {
  ShardId id;
  uint64_t since_ms = 0;   ///< unix time
  absl::Status held_up{};  ///< not OK: why closing takes long; the engine tries again
  absl::Status failure{};  ///< not OK: the shard cannot be closed before the node is restarted
};

/// Thread: the worker's.
class ShardClosing {
 public:
  ShardClosing(ShardContext& shard, ShardLog& log) : shard_(shard), log_(log) {}

  /// Nothing of the shard is unfinished. See WorkerEngine::close_shard().
  void begin(absl::AnyInvocable<void()> closed);
  /// The applier may have room again.
  void go_on();
  /// The applier has let go of the shard, with this status. nullopt: the database has everything.
  [[nodiscard]] std::optional<ClosingShard> let_go(const absl::Status& flushed);
  /// True: the applier has let go of the shard.
  [[nodiscard]] bool is_leaving() const { return leaving_; }
  /// True: nothing uses the shard any more.
  [[nodiscard]] bool is_gone() const { return leaving_ && !ending_ && log_.in_log() == 0; }
  /// The shard is gone: gives back what it holds of the worker. Returns `closed`, which may be null.
  [[nodiscard]] absl::AnyInvocable<void()> leave();
  /// What the node's status shows; nullopt: the shard is not being closed.
  [[nodiscard]] std::optional<ClosingShard> state() const;

 private:
  ShardContext& shard_;
  ShardLog& log_;
  absl::AnyInvocable<void()> closed_;
  uint64_t since_ms_ = 0;  // unix time; 0: it is not being closed
  bool leaving_ = false;
  bool ending_ = false;  // the shard's end is on the way to the log
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_CLOSING_H_
