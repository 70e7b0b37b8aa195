// Every bound of the client library, in one place. What happens at a bound is a typed refusal that
// names it. Sizes of keys, values and batches are the protocol's (kvstore/codec/size_limits.h).
#ifndef SKUA_KVSTORE_CLIENT_CLIENT_LIMITS_H_
#define SKUA_KVSTORE_CLIENT_CLIENT_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// ClientOptions::operations_max is at most this.
inline constexpr uint32_t kClientOperationsMax = 65'536;
inline constexpr uint16_t kClientWindowMax = 1024;
/// Timeouts of operations.
inline constexpr DurationNs kClientTimeoutMax = 3600 * kSecond;

/// Parts of one MULTI_GET or SCAN that are in flight at once; the rest follow as these come back.
inline constexpr uint32_t kPartsInFlightMax = 64;

/// Rows (keys and values) that one SCAN collects: a scan ends early, with has_more, when the next
/// row would go beyond. At least one row is returned.
inline constexpr size_t kScanResultBytesMax = size_t{32} << 20;
/// And what one shard is asked for at once.
inline constexpr uint32_t kScanPageBytes = 1u << 20;

/// Attempts that a failure report keeps: the first and the latest.
inline constexpr size_t kTrailFirstMax = 3;
inline constexpr size_t kTrailLatestMax = 3;
/// Bytes of a key that error messages show.
inline constexpr size_t kShownKeyBytesMax = 64;
/// And of the text that an attempt ended with; a failure report keeps all of it.
inline constexpr size_t kShownOutcomeBytesMax = 600;

/// Pause before an operation's next attempt: doubles from min to max, with jitter. For the time that a shard mostly needs for
/// another primary, no longer than the first maximum, which is what an operation waits on top of it.
inline constexpr DurationNs kRetryPauseMinNs = 1 * kMillisecond;
inline constexpr DurationNs kRetryPauseSoonMaxNs = 16 * kMillisecond;
inline constexpr uint32_t kRetrySoonAttempts = 48;
inline constexpr DurationNs kRetryPauseMaxNs = 256 * kMillisecond;
/// Pause before a session's next opening after failures in a row, which end when one has answered something; likewise.
inline constexpr DurationNs kReopenPauseMinNs = 10 * kMillisecond;
inline constexpr DurationNs kReopenPauseMaxNs = 1 * kSecond;
/// A call that takes longer may be to a node that hangs: a newer shard map is looked for.
inline constexpr DurationNs kSlowCallNs = 250 * kMillisecond;
/// How long an operation on a table that the newest shard map does not have waits for a newer map.
inline constexpr DurationNs kUnknownTableWaitNs = 500 * kMillisecond;
/// Tables that are read anywhere: pause before a replica that could not answer is asked again; likewise (read_spread.h).
inline constexpr DurationNs kReplicaPauseMinNs = 10 * kMillisecond;
inline constexpr DurationNs kReplicaPauseMaxNs = 1 * kSecond;
/// A read that a replica does not answer for so long goes to another; twice as long for each attempt.
inline constexpr DurationNs kReadPatienceNs = 250 * kMillisecond;
/// For each of the two calls (describe, open session) that open a session.
inline constexpr DurationNs kBootstrapTimeoutNs = 3 * kSecond;

/// A shard that wants higher numbers of a client's writes than this gets none: there must be room above (request_lanes.h).
inline constexpr uint64_t kRenumberedSeqMax = uint64_t{1} << 62;

/// Tasks from other threads that wait for the client's thread.
inline constexpr uint32_t kClientMailboxMax = 4096;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_LIMITS_H_
