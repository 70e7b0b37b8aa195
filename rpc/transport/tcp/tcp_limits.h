// Every bound of the TCP transport that is not an option, in one place.
#ifndef SKUA_RPC_TRANSPORT_TCP_TCP_LIMITS_H_
#define SKUA_RPC_TRANSPORT_TCP_TCP_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::rpc::tcp {

/// Entries of callers that left, before the oldest of them is used again.
inline constexpr size_t kCallersKept = 1024;

/// A hello or its reply, whole.
inline constexpr size_t kHelloBytesMax = 1024;
/// The text of a refusal; longer ones are cut.
inline constexpr size_t kRefusalTextMax = 512;
/// Frame bytes before the packet header, over all dialects.
inline constexpr size_t kFrameBytesMax = 16;

/// Pieces waiting in one peer's transmit queue.
inline constexpr uint32_t kTxEntriesMax = 1024;
/// Bytes copied into one peer's transmit queue (headers, small payloads, and frames behind a full socket); from so many
/// on a peer has no room for more.
inline constexpr uint32_t kTxStagingBytes = 768 * 1024;
inline constexpr uint32_t kTxStagingBusyBytes = 128 * 1024;
/// Pieces handed to the kernel in one system call.
inline constexpr size_t kTxGatherMax = 64;
/// Frames that the engine may write at once, to all peers and to one: a burst of received ones is answered in one
/// write.
inline constexpr uint32_t kFramesTakenMax = 256;
inline constexpr uint32_t kFramesOfPeerMax = 32;
inline constexpr uint32_t kFrameRoomMax = 16 * 1024;
static_assert(kTxStagingBusyBytes + (kFramesOfPeerMax + 1) * (kFrameRoomMax + kFrameBytesMax) <= kTxStagingBytes,
              "frames have room behind a full socket");

/// Writes by zero copy of one connection that the kernel is not done with, and packets that wait for that.
inline constexpr uint32_t kZeroCopyWritesMax = 1024;
inline constexpr uint32_t kZeroCopyWaitingMax = 256;

/// Bundles (dialect.h) that are taken from the wire have at least and at most so many bytes.
inline constexpr uint32_t kBundleBytesMin = 40;
inline constexpr uint32_t kBundleBytesMax = 64 * 1024;

/// Reads of one connection in one rx_burst, so that a fast sender does not starve the others.
inline constexpr int kReadsPerBurstMax = 8;
/// A chunk with less room than this is left for a fresh one rather than filled by a tiny read.
inline constexpr uint32_t kRxRoomMin = 4096;
/// While large payloads arrive, what is read beyond one payload: the next header and a little more,
/// because all of it is copied.
inline constexpr uint32_t kRxPeekBytes = 2048;

/// Bursts in a row that one connection must have to itself before it is read without asking epoll first, while others
/// stand. Among several busy ones a look at epoll says which are worth a read.
inline constexpr uint32_t kHotStreak = 64;
/// Fruitless reads after which such a connection is left to epoll, while it is the only one, and while others stand.
inline constexpr uint32_t kHotIdleAlone = 20'000;
inline constexpr uint32_t kHotIdleAmongOthers = 256;
/// Bursts between two looks at epoll while there is something to read anyway.
inline constexpr uint32_t kEpollEveryBursts = 16;
inline constexpr size_t kEpollEventsMax = 64;

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_TCP_LIMITS_H_
