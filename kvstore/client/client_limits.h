// All limits of the client library. A request beyond a limit is refused with a status that names the limit. The sizes
// of keys, values and batches belong to the protocol (kvstore/codec/size_limits.h).
#ifndef SKUA_KVSTORE_CLIENT_CLIENT_LIMITS_H_
#define SKUA_KVSTORE_CLIENT_CLIENT_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::kv {

/// The greatest ClientOptions::operations_max.
inline constexpr uint32_t kClientOperationsMax = 65'536;
/// The greatest ClientOptions::session_window.
inline constexpr uint16_t kClientWindowMax = 1024;
/// The longest timeout of an operation.
inline constexpr DurationNs kClientTimeoutMax = 3600 * kSecond;

/// Most parts of one MULTI_GET or SCAN in flight at a time. Further parts start when these come back.
inline constexpr uint32_t kPartsInFlightMax = 64;

/// Most bytes of rows (keys and values) that one SCAN collects. A scan ends early, with has_more, when the next row
/// would exceed this. At least one row is returned.
inline constexpr size_t kScanResultBytesMax = size_t{32} << 20;
/// Bytes of rows that a scan asks one shard for in one page.
inline constexpr uint32_t kScanPageBytes = 1u << 20;

/// A recycled operation keeps a buffer for its next use. A larger buffer than this is freed.
inline constexpr size_t kOperationBytesKept = size_t{64} << 10;

/// Failed attempts that a failure report keeps: this many of the first and of the latest.
inline constexpr size_t kTrailFirstMax = 3;
inline constexpr size_t kTrailLatestMax = 3;
/// Bytes of a key that error messages show.
inline constexpr size_t kShownKeyBytesMax = 64;
/// Bytes of the last attempt's outcome that error messages show. FailureDetail has the whole text.
inline constexpr size_t kShownOutcomeBytesMax = 600;

/// Pause before an operation's next attempt: it doubles from the minimum to the maximum, with jitter. For the first
/// kRetrySoonAttempts attempts the maximum is kRetryPauseSoonMaxNs: these attempts cover the time that a shard usually
/// needs to get another primary, and an operation waits at most one such pause longer than the shard needs. Later
/// attempts have kRetryPauseMaxNs as their maximum.
inline constexpr DurationNs kRetryPauseMinNs = 1 * kMillisecond;
inline constexpr DurationNs kRetryPauseSoonMaxNs = 16 * kMillisecond;
inline constexpr uint32_t kRetrySoonAttempts = 48;
inline constexpr DurationNs kRetryPauseMaxNs = 256 * kMillisecond;
/// Pause before a session is opened again after a failure. It doubles with each failure in a row, from the minimum to
/// the maximum, with jitter. The row of failures ends when a session has answered something.
inline constexpr DurationNs kReopenPauseMinNs = 10 * kMillisecond;
inline constexpr DurationNs kReopenPauseMaxNs = 1 * kSecond;
/// A call that takes longer than this may be to a node that hangs: the client looks for a newer shard map.
inline constexpr DurationNs kSlowCallNs = 250 * kMillisecond;
/// If the newest shard map does not have an operation's table, the operation waits this long for a newer map.
inline constexpr DurationNs kUnknownTableWaitNs = 500 * kMillisecond;
/// Tables with read_anywhere: pause before a replica that could not answer is read again. It doubles with each failure
/// in a row, from the minimum to the maximum, without jitter (read_spread.h).
inline constexpr DurationNs kReplicaPauseMinNs = 10 * kMillisecond;
inline constexpr DurationNs kReplicaPauseMaxNs = 1 * kSecond;
/// Tables with read_anywhere: a read that a replica does not answer for this long goes to another replica. The time
/// doubles with each failed attempt.
inline constexpr DurationNs kReadPatienceNs = 250 * kMillisecond;
/// Timeout of each of the two gRPC calls (describe, open session) that open a session.
inline constexpr DurationNs kBootstrapTimeoutNs = 3 * kSecond;

/// If a shard takes only writes with higher numbers than this, the client does not renumber its write
/// (request_lanes.h): there must be room for further numbers.
inline constexpr uint64_t kRenumberedSeqMax = uint64_t{1} << 62;

/// The longest time that AsyncClient::begin_wait() gives a foreign event loop to sleep.
inline constexpr DurationNs kForeignWaitMaxNs = 3600 * kSecond;
/// The same over a transport without a descriptor: nothing tells the loop of packets, or of other threads' tasks.
inline constexpr DurationNs kBlindWaitMaxNs = 50 * kMicrosecond;

/// Most tasks from other threads that wait for the client's thread.
inline constexpr uint32_t kClientMailboxMax = 4096;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_CLIENT_LIMITS_H_
