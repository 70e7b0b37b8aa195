// Bounds of the service of a worker's requests.
#ifndef SKUA_KVSTORE_SERVICE_SERVICE_LIMITS_H_
#define SKUA_KVSTORE_SERVICE_SERVICE_LIMITS_H_

#include <cstddef>

#include "kvstore/codec/reply.h"
#include "rpc/base/clock.h"
#include "rpc/base/message.h"

namespace skua::kv {

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

/// Clients that name a newer shard map make the node ask for it no more often than this.
inline constexpr DurationNs kMapHintPauseNs = 100 * kMillisecond;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_SERVICE_LIMITS_H_
