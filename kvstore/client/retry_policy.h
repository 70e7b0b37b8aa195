// What to do when an attempt has ended: answer, try again, or give up. Pure.
//
// The rule behind the table: a read may always be repeated. A write with a request id may always be repeated, too,
// because its shard recognises the repetition (request_lanes.h). A write without id is repeated only if it certainly
// was not executed.
//
//   the server answered      WRONG_SHARD, RESOURCE_EXHAUSTED,     this attempt was not applied: try again
//                            TOO_MANY_INCOMPLETE
//                            UNAVAILABLE, ABORTED, CANCELLED      try again; a write without id: unknown
//                            STALE_RETRY                          unknown. But if no earlier attempt may have run, this
//                                                                 write was not applied: try again, with another number
//                                                                 (OperationRunner::is_answer)
//                            OK, NOT_FOUND, a condition, ...      that is the answer
//                            anything else                        give up: not applied or, if the status leaves that
//                                                                 open, unknown
//   no answer came           request certainly did not run        try again
//                            request may have run                 try again; a write without id: unknown
//                            a code that repeating cannot mend    give up
//   nobody could be asked    (no map, no owner, no session)       try again
//
// "Applied" and "unknown" speak of one attempt. Operation::uncertain says whether an earlier attempt may have been
// executed.
//
// "Try again" ends at the operation's deadline: if the pause would last beyond the deadline, the operation fails at
// once.
#ifndef SKUA_KVSTORE_CLIENT_RETRY_POLICY_H_
#define SKUA_KVSTORE_CLIENT_RETRY_POLICY_H_

#include <cstdint>

#include "kvstore/types/status.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"

namespace skua::kv {

enum class Verdict : uint8_t {
  kAnswer,  // the store's answer: OK, NOT_FOUND, ...
  kRetry,
  kGiveUp,
};

/// Whether an operation may be repeated.
enum class Repeat : uint8_t {
  kRead,          // yes: a read
  kIdentified,    // yes: a write with a request id, which the shard recognises
  kUnidentified,  // no: a write without id, which would take effect again
};

struct Judgement {
  Verdict verdict = Verdict::kGiveUp;
  /// The shard map may be out of date: get a newer one.
  bool refresh_map = false;
  /// The session that carried the attempt may be dead: make no further calls on it.
  bool session_suspect = false;
  /// This attempt may have changed the store.
  bool may_have_been_applied = false;

  friend bool operator==(const Judgement&, const Judgement&) = default;
};

/// What to do after a reply with `status`.
[[nodiscard]] Judgement judge_reply(Repeat repeat, KvStatus status);

/// What to do if no reply of the key-value service came: `failure.status` is not OK.
[[nodiscard]] Judgement judge_failure(Repeat repeat, const rpc::CallResult& failure);

/// The pause before retry number `attempt` (1: the first retry). Random, uniform in [whole/2, whole], where whole =
/// min(min_ns * 2^(attempt-1), max_ns); at least one nanosecond.
[[nodiscard]] DurationNs retry_pause(uint32_t attempt, DurationNs min_ns, DurationNs max_ns, Rng& rng);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_RETRY_POLICY_H_
