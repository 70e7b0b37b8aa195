// Every bound of the storage node that is not the codec's, the engine's or the RPC engine's own.
#ifndef SKUA_KVSTORE_SERVER_LIMITS_H_
#define SKUA_KVSTORE_SERVER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "kvstore/codec/reply.h"
#include "rpc/base/clock.h"
#include "rpc/base/message.h"

namespace skua::kv {

/// Sessions of one worker that one endpoint of a client or node may open. (A client has one with each worker, and one more while it
/// opens that anew.)
inline constexpr uint32_t kSessionsPerPeerMax = 64;

/// Requests of one worker that wait for a disk or for a wire; one more is RESOURCE_EXHAUSTED.
inline constexpr size_t kPendingRequestsMax = size_t{1} << 16;

/// Values up to this size are copied behind the reply's header: cheaper than a segment of their
/// own.
inline constexpr size_t kInlineValueBytesMax = rpc::Message::kHeadMax - kReplyHeaderBytes;

/// A MULTI_GET whose values are larger than this together is put together by the reader pool: the
/// polling thread would copy for too long.
inline constexpr size_t kMultiGetPollingBytesMax = size_t{64} << 10;

/// A MULTI_GET's or SCAN's reply up to this size is copied into a buffer that is no larger: callers do not say that they have so
/// short a reply, so it is kept for long.
inline constexpr size_t kShortReplyBytesMax = size_t{4} << 10;

/// Reply buffers that grew above this go back to the heap after use.
inline constexpr size_t kReplyBufferBytesKept = size_t{256} << 10;

/// How long an OpenSession waits for a worker, and admin requests for its figures.
inline constexpr DurationNs kWorkerAnswerTimeoutNs = 2 * kSecond;

/// At shutdown replies that are under way get this long to leave.
inline constexpr DurationNs kFlushTimeoutNs = 500 * kMillisecond;
/// And this long without any traffic is taken to mean that they have left.
inline constexpr DurationNs kFlushQuietNs = 20 * kMillisecond;

/// A shard whose database cannot be opened is tried again after this long.
inline constexpr DurationNs kReopenPauseNs = 5 * kSecond;

/// Clients that name a newer shard map make the node ask for it no more often than this.
inline constexpr DurationNs kMapHintPauseNs = 100 * kMillisecond;

/// A question to another node's bootstrap service, and how many may wait for the thread that asks.
inline constexpr DurationNs kPeerBootstrapTimeoutNs = 3 * kSecond;
inline constexpr size_t kPeerBootstrapJobsMax = 4096;

/// How long a node is asked whether a session is its own. What came by the session meanwhile is held: so many requests of one
/// session, and bytes of all.
inline constexpr DurationNs kPeerProofTimeoutNs = 5 * kSecond;
inline constexpr size_t kHeldPerSessionMax = 64;
inline constexpr size_t kHeldBytesMax = size_t{8} << 20;

/// A piece of a snapshot, and how many shards a node has copied at a time.
inline constexpr DurationNs kFetchChunkTimeoutNs = 10 * kSecond;
inline constexpr int kCopiesMax = 2;

/// Workers of a node, as the control plane has it: a session or a view that names a later one is not believed.
inline constexpr uint32_t kPeerWorkersMax = 256;
/// A link to another node that nobody has wanted for this long is closed and forgotten.
inline constexpr DurationNs kPeerLinkKeptNs = 60 * kSecond;

/// Pauses between attempts to open a session with another node.
inline constexpr DurationNs kPeerPauseMinNs = 10 * kMillisecond;
inline constexpr DurationNs kPeerPauseMaxNs = 1 * kSecond;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVER_LIMITS_H_
