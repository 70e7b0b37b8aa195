// Every bound of the TCP transport that is not an option, in one place.
#ifndef SKUA_RPC_TRANSPORT_TCP_TCP_LIMITS_H_
#define SKUA_RPC_TRANSPORT_TCP_TCP_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::rpc::tcp {

/// Retired entries of callers that are kept before the oldest of them is used again.
inline constexpr size_t kCallersKept = 1024;

/// Connections that are accepted in a row, and the pause after so many: 4,000 a second. The thread that accepts has
/// packets of others to carry; further connections wait in the kernel.
inline constexpr int kAcceptsInARow = 16;
inline constexpr DurationNs kAcceptRowPauseNs = 4 * kMillisecond;

/// A hello or its reply, whole.
inline constexpr size_t kHelloBytesMax = 1024;
/// Text of a refusal; a longer text is cut.
inline constexpr size_t kRefusalTextMax = 512;
/// Largest frame prefix of any dialect.
inline constexpr size_t kFrameBytesMax = 16;

/// Pieces waiting in one peer's transmit queue.
inline constexpr uint32_t kTxEntriesMax = 1024;
/// Bytes copied into one peer's transmit queue: headers, small payloads, and frames behind a full socket. From
/// kTxStagingBusyBytes on, has_room() is false for the peer.
inline constexpr uint32_t kTxStagingBytes = 768 * 1024;
inline constexpr uint32_t kTxStagingBusyBytes = 128 * 1024;
/// Pieces handed to the kernel in one system call.
inline constexpr size_t kTxGatherMax = 64;
/// Frames that the engine may be writing at once, to all peers and to one peer. The numbers allow the answers to a
/// burst of received frames to be sent in one write.
inline constexpr uint32_t kFramesTakenMax = 256;
inline constexpr uint32_t kFramesOfPeerMax = 32;
inline constexpr uint32_t kFrameRoomMax = 16 * 1024;
static_assert(kTxStagingBusyBytes + (kFramesOfPeerMax + 1) * (kFrameRoomMax + kFrameBytesMax) <= kTxStagingBytes,
              "frames have room behind a full socket");

/// Per connection: zero-copy writes that the kernel is not done with, and packets that wait for such writes.
inline constexpr uint32_t kZeroCopyWritesMax = 1024;
inline constexpr uint32_t kZeroCopyWaitingMax = 256;

/// Smallest and largest bundle (dialect.h) that is accepted from the wire.
inline constexpr uint32_t kBundleBytesMin = 40;
inline constexpr uint32_t kBundleBytesMax = 64 * 1024;

/// Reads of one connection in one rx_burst. The limit keeps a fast sender from starving the others.
inline constexpr int kReadsPerBurstMax = 8;
/// If a chunk has less room than this, a fresh chunk is taken instead of making a tiny read.
inline constexpr uint32_t kRxRoomMin = 4096;
/// While large payloads arrive: bytes read beyond one payload. They hold the next header and a little more; the limit
/// is small because all of them are copied.
inline constexpr uint32_t kRxPeekBytes = 2048;

/// If several connections stand: bursts in a row that one connection must have to itself before it is read without
/// asking epoll first. Among several busy connections, asking epoll tells which ones are worth a read.
inline constexpr uint32_t kHotStreak = 64;
/// Reads without a packet after which such a connection is left to epoll: if it is the only connection, and among
/// others.
inline constexpr uint32_t kHotIdleAlone = 20'000;
inline constexpr uint32_t kHotIdleAmongOthers = 256;
/// Bursts between two calls of epoll while there is something to read anyway.
inline constexpr uint32_t kEpollEveryBursts = 16;
inline constexpr size_t kEpollEventsMax = 64;

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_TCP_LIMITS_H_
