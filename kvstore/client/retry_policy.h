// What to do after an attempt: answer, try again, or give up. Pure.
//
// The rule that everything here serves: a read may be repeated whatever happened, and so may a write that is identified
// (its shard knows a repetition, request_lanes.h); another write is repeated only when it is certain that it did not run.
// So
//
//   the server answered      WRONG_SHARD, RESOURCE_EXHAUSTED,     this attempt was not applied: try again
//                            TOO_MANY_INCOMPLETE
//                            UNAVAILABLE, ABORTED, CANCELLED      try again; a write without identity: unknown
//                            STALE_RETRY                          unknown. But if no earlier attempt may have run, this write was
//                                                                 not applied: try again, with another number (ClientCore::judge)
//                            anything else                        that is the answer
//   no answer came           request certainly did not run        try again
//                            request may have run                 try again; a write without identity: unknown
//   nobody could be asked    (no map, no owner, no session)       try again
//
// What is said of applied or not is about one attempt; the operation remembers earlier ones (Operation::uncertain).
//
// "Try again" ends at the operation's deadline: a pause that would reach beyond it is not begun.
#ifndef SKUA_KVSTORE_CLIENT_RETRY_POLICY_H_
#define SKUA_KVSTORE_CLIENT_RETRY_POLICY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kvstore/types/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::kv {

enum class Verdict : uint8_t {
  kAnswer,  // the store has spoken: OK, NOT_FOUND, ...
  kRetry,
  kGiveUp,
};

/// What repeating an operation may do.
enum class Repeat : uint8_t {
  kRead,          // nothing
  kIdentified,    // nothing: a write that the shard recognises
  kUnidentified,  // harm: a write that would take effect again
};

struct Judgement {
  Verdict verdict = Verdict::kGiveUp;
  /// The shard map that the attempt was routed by may be out of date.
  bool refresh_map = false;
  /// The session that carried the attempt may be useless.
  bool session_suspect = false;
  /// The attempt may have changed the store.
  bool may_have_been_applied = false;

  friend bool operator==(const Judgement&, const Judgement&) = default;
};

/// How a call without a reply of the key-value service ended.
struct CallFailure {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  bool from_peer = false;
  bool may_have_executed = false;
};

/// The server's reply said `status`.
[[nodiscard]] Judgement judge_reply(Repeat repeat, KvStatus status);

/// No reply came. `code` is not OK.
[[nodiscard]] Judgement judge_failure(Repeat repeat, const CallFailure& failure);

/// The pause before attempt `attempt` (1: the first retry): uniform in the upper half of
/// [0, min * 2^(attempt-1)], at most `max_ns`; at least one nanosecond.
[[nodiscard]] DurationNs retry_pause(uint32_t attempt, DurationNs min_ns, DurationNs max_ns, Rng& rng);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_RETRY_POLICY_H_
