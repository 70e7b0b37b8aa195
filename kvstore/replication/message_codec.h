// The messages between replicas of a shard (messages.h) as bytes: requests and replies of method REPLICATE. All numbers
// are little endian. copy_codec.h has the messages that copy a shard.
//
//   frame     envelope | body                       a request is one frame; its reply is one frame, or empty
//
//   envelope   0 u32 table    4 u32 shard    8 u64 sender's node    16 u64 sender's storage incarnation    24 u8 kind
//
//   kind                 body
//    1 StartView         view
//    2 TailReport        u64 epoch, runs, levels, u64 commit index; if it is not 0, u64 doubt
//    3 Append            u64 epoch, id of the entry before, u64 commit index, u32 entries, u8 flags (1: acknowledge
//                        received entries), u8 0, u16 0, then for each entry
//                          { u64 epoch, i64 time, u32 payload bytes, u8 durability (durability_code()), u8 0,
//                            u16 flags, payload }
//    4 AppendReply       u64 epoch, levels
//    5 Heartbeat         u64 epoch, i64 sent at, u64 commit index
//    6 HeartbeatReply    u64 epoch, i64 sent at (the heartbeat's), levels, u8 promises
//    7 Confirm           u64 epoch, u64 round
//    8 ConfirmReply      u64 epoch, u64 round
//    9 Release           u64 epoch
//   10 SnapshotNeeded    u64 epoch
//   11 StaleEpoch        view
//   12 Restored          u64 epoch, u64 doubt
//
//   id        u64 index, u64 epoch
//   levels    u64 received, u64 written, u64 durable
//   runs      id of the base, u64 last index, u8 runs (up to EpochHistory::kRunsMax), id of each run's first entry
//   view      u64 epoch, u64 change, u64 primary, u32 min_insync, u8 flags (1: read anywhere), u8 members, u8 learners,
//             { u64 node, u64 incarnation } x members, { u64 node, u64 incarnation, u64 join } x learners
//
// Each payload follows its entry's head. So large payloads can be sent as body spans, without a copy
// (append_builder.h).
//
// A change that an older build would misunderstand must raise kReplicationVersion (control/core/protocol_version.h).
// Nodes tell the control plane which version they speak.
//
// Errors: bytes that are not well-formed or exceed a bound are INVALID_ARGUMENT. The replica, not the decoder, checks
// whether numbers fit together (for example a commit index beyond the log). Decoded values refer to the decoder's
// input.
#ifndef SKUA_KVSTORE_REPLICATION_MESSAGE_CODEC_H_
#define SKUA_KVSTORE_REPLICATION_MESSAGE_CODEC_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/replica.h"
#include "kvstore/types/durability.h"
#include "kvstore/types/encoded_items.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr size_t kEnvelopeBytes = 25;
inline constexpr size_t kAppendHeadBytes = 40;
inline constexpr size_t kAppendEntryHeadBytes = 24;
/// The most members, and the most learners, that a message can name.
inline constexpr size_t kViewMembersMax = 32;
/// The most entries of one Append, and the most bytes of them. A single entry may be larger.
inline constexpr size_t kAppendEntriesMax = 4096;
inline constexpr size_t kAppendBytesMax = size_t{8} << 20;
/// The largest frame, except Appends.
inline constexpr size_t kFrameBytesMax = kEnvelopeBytes + 31 + kViewMembersMax * (16 + 24);
using FrameBuffer = std::array<std::byte, kFrameBytesMax>;

/// A message's shard and sender.
struct ReplicaEnvelope {
  uint32_t table = 0;
  uint32_t shard = 0;
  NodeId from = 0;
  uint64_t incarnation = 0;  ///< the sender's storage incarnation (ReplicaId)

  friend bool operator==(const ReplicaEnvelope&, const ReplicaEnvelope&) = default;
};

/// One entry of an Append.
struct AppendEntry {
  uint64_t epoch = 0;  ///< the epoch in which the entry was made
  int64_t time = 0;    ///< the writer's time, as in the log record
  Durability durability = Durability::kSync;
  uint16_t flags = 0;  ///< as in the log record
  ByteSpan payload{};
};

/// Reads an entry; false if the bytes are not a well-formed entry.
bool read_entry(ByteReader& reader, AppendEntry& entry);

/// The entries of a received Append: a checked view of the received bytes.
using AppendEntries = EncodedItems<AppendEntry, read_entry>;

struct ReplicaFrame {
  ReplicaEnvelope envelope;
  ReplicaMessage message;
  AppendEntries entries;  ///< an Append's, one for each of its epochs; they refer to the decoded bytes
};

/// Encodes any message except an Append (checked) into `buffer`; the result refers to it. RESOURCE_EXHAUSTED: the view
/// has too many nodes, or the log too many runs, for a message.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_frame(const ReplicaEnvelope& envelope, const ReplicaMessage& message,
                                                    FrameBuffer& buffer);
/// Decodes a frame. Reuses memory that `frame` has, where possible. After an error the contents of `frame` are
/// undefined.
[[nodiscard]] absl::Status decode_frame(ByteSpan bytes, ReplicaFrame& frame);
[[nodiscard]] bool is_append(const ReplicaMessage& message);
/// Whether `bytes` begin like an Append. They need not be a valid frame.
[[nodiscard]] bool looks_like_append(ByteSpan bytes);

/// Writes an Append up to its entries, with a count of 0. `header.epochs` is ignored.
void write_append_head(const ReplicaEnvelope& envelope, const Append& header, ByteWriter& writer);
/// Sets the count in what write_append_head() wrote.
void set_append_count(MutableByteSpan written, uint32_t count);
/// Writes what stands before an entry's payload: kAppendEntryHeadBytes.
void write_entry_head(const AppendEntry& entry, ByteWriter& writer);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_MESSAGE_CODEC_H_
