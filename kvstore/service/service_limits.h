// Limits of the service for clients' requests on one worker.
#ifndef SKUA_KVSTORE_SERVICE_SERVICE_LIMITS_H_
#define SKUA_KVSTORE_SERVICE_SERVICE_LIMITS_H_

#include <cstddef>

#include "kvstore/codec/reply.h"
#include "rpc/base/clock.h"
#include "rpc/base/message.h"

namespace skua::kv {

/// Requests of one worker that may wait for a disk or for other replicas. One more is answered RESOURCE_EXHAUSTED.
inline constexpr size_t kPendingRequestsMax = size_t{1} << 16;

/// Values up to this size are copied behind the reply's header. This is cheaper than a segment of their own.
inline constexpr size_t kInlineValueBytesMax = rpc::Message::kHeadMax - kReplyHeaderBytes;

/// If the values of a MULTI_GET are larger than this together, the reader pool builds the reply. The polling thread
/// would need too long for the copy. A MULTI_GET of what memory has leaves such values out instead.
inline constexpr size_t kMultiGetPollingBytesMax = size_t{64} << 10;

/// A reply up to this size is copied into a buffer that is no larger. Callers do not say that they have received so
/// short a reply, so it is kept for long.
inline constexpr size_t kShortReplyBytesMax = size_t{4} << 10;

/// A reply buffer that is larger than this goes back to the heap after its use.
inline constexpr size_t kReplyBufferBytesKept = size_t{256} << 10;

/// Clients that name a newer shard map make the node ask for that map no more often than once in this time.
inline constexpr DurationNs kMapHintPauseNs = 100 * kMillisecond;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SERVICE_LIMITS_H_
