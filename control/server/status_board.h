// The cluster's status for whoever asks, made at most every kStatusAge or once per change.
//
//     ask() ── fresh copy ──────────────────────────────> answer, on the caller's thread
//          └── stale ──> waits ──> make (one at a time) ──> answers all that wait
//
// A status looks at every shard. However many ask, it is made once; a change of the map or of a node's life makes the
// copy stale, so that whoever changed something and then asks finds it.
#ifndef SKUA_CONTROL_SERVER_STATUS_BOARD_H_
#define SKUA_CONTROL_SERVER_STATUS_BOARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/proto/control.pb.h"
#include "rpc/base/clock.h"

namespace skua::control {

using StatusMessage = std::shared_ptr<const v1::GetStatusReply>;

/// Thread: any.
class StatusBoard {
 public:
  /// Exactly once; must not block.
  using AnswerFn = std::function<void(const absl::StatusOr<StatusMessage>&)>;
  /// Asks for a status, which comes by post(). An error means that it will not.
  using MakeFn = std::function<absl::Status()>;

  explicit StatusBoard(MakeFn make) : make_(std::move(make)) {}

  /// The status as of now: not older than kStatusAge, nor than `generation`, which counts changes. RESOURCE_EXHAUSTED
  /// when kStatusWaitersMax wait.
  void ask(TimeNs now, uint64_t generation, AnswerFn answer);

  /// What was asked for, or why there is none.
  void post(absl::StatusOr<StatusMessage> status, TimeNs now, uint64_t generation);

 private:
  const MakeFn make_;
  std::mutex mutex_;
  // Protected by mutex_.
  StatusMessage copy_;
  TimeNs made_ns_ = 0;
  uint64_t generation_ = 0;
  bool making_ = false;
  std::vector<AnswerFn> waiting_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_STATUS_BOARD_H_
