// The messages between replicas of a shard (messages.h) as bytes: requests and replies of method REPLICATE, and of
// FETCH_CHUNK and FETCH_TAIL for copies of shards. All numbers are little endian.
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
//    6 HeartbeatReply    u64 epoch, i64 sent at (the heartbeat's), levels, u8 granted
//    7 Confirm           u64 epoch, u64 round
//    8 ConfirmReply      u64 epoch, u64 round
//    9 Release           u64 epoch
//   10 SnapshotNeeded    u64 epoch
//   11 StaleEpoch        view
//   12 Restored          u64 epoch, u64 doubt
//
//   id        u64 index, u64 epoch
//   levels    u64 received, u64 written, u64 durable
//   runs      id of the base, u64 last index, u8 runs (up to EpochRuns::kRunsMax), id of each run's first entry
//   view      u64 epoch, u64 change, u64 primary, u32 min_insync, u8 flags (1: read anywhere), u8 members, u8 learners,
//             { u64 node, u64 incarnation } x members, { u64 node, u64 incarnation, u64 join } x learners
//
//   fetch     u32 table, u32 shard, u64 snapshot (0: begin one), u32 file, u64 offset, u32 bytes at most
//   chunk     u64 snapshot, id of its last entry, u32 files, u64 bytes of the file, u64 offset, u32 CRC-32C of data,
//             u8 bytes of the name, name, data
//   tail      u32 table, u32 shard, u64 index of the last entry that the sender has, u32 bytes at most; the reply is an
//             Append of the committed entries behind it, perhaps of none
//
// Each payload follows its entry's head. So large payloads can be sent as body spans, without a copy. Small payloads
// are copied, because that costs less. AppendBuilder decides.
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
#include <iterator>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/replica.h"
#include "kvstore/types/durability.h"
#include "rpc/base/bytes.h"
#include "rpc/base/message.h"

namespace skua::kv {

inline constexpr size_t kEnvelopeBytes = 25;
inline constexpr size_t kAppendHeadBytes = 40;
inline constexpr size_t kAppendEntryHeadBytes = 24;
/// The most members, and the most learners, that a message can name.
inline constexpr size_t kViewMembersMax = 32;
/// The most entries of one Append, and the most bytes of them. A single entry may be larger.
inline constexpr size_t kAppendEntriesMax = 4096;
inline constexpr size_t kAppendBytesMax = size_t{8} << 20;
/// Larger payloads are sent without a copy.
inline constexpr size_t kAppendCopyBytesMax = size_t{8} << 10;
/// The most bytes that one Append copies. Bounded because the polling thread copies them.
inline constexpr size_t kAppendCopiedBytesMax = size_t{128} << 10;
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

/// The entries of a received Append: a checked view of the received bytes. Iterating allocates nothing.
class AppendEntries {
 public:
  class Iterator {
   public:
    explicit Iterator(ByteReader rest) : rest_(rest) { ++*this; }
    const AppendEntry& operator*() const { return entry_; }
    const AppendEntry* operator->() const { return &entry_; }
    Iterator& operator++();
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.at_end_; }

   private:
    ByteReader rest_;
    AppendEntry entry_;
    bool at_end_ = false;
  };

  AppendEntries() = default;
  [[nodiscard]] Iterator begin() const { return Iterator(ByteReader(encoded_)); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
  [[nodiscard]] ByteSpan bytes() const { return encoded_; }

 private:
  friend absl::Status decode_frame(ByteSpan, struct ReplicaFrame&);
  explicit AppendEntries(ByteSpan encoded) : encoded_(encoded) {}

  ByteSpan encoded_;
};

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

/// A pool of the buffers that Appends copy bytes into. Must outlive the messages. Thread: one.
class AppendBuffers {
 public:
  AppendBuffers() = default;
  ~AppendBuffers();
  AppendBuffers(const AppendBuffers&) = delete;
  AppendBuffers& operator=(const AppendBuffers&) = delete;

  /// Number of buffers that messages hold.
  [[nodiscard]] size_t outstanding_count() const { return outstanding_count_; }

 private:
  friend class AppendBuilder;
  struct Buffer {
    std::vector<std::byte> bytes;
    AppendBuffers* owner = nullptr;
  };
  static constexpr size_t kKeptMax = 32;
  Buffer* take();
  static void put_back(void* buffer);

  std::vector<Buffer*> free_;
  size_t outstanding_count_ = 0;
};

/// Builds Appends, one after the other: begin(), add() while there is room, finish(). `buffers` must outlive it.
/// Thread: that of the buffers.
class AppendBuilder {
 public:
  explicit AppendBuilder(AppendBuffers& buffers) : buffers_(buffers) {}
  ~AppendBuilder();
  AppendBuilder(const AppendBuilder&) = delete;
  AppendBuilder& operator=(const AppendBuilder&) = delete;

  /// Begins an Append in `message`, which must be empty. `header.epochs` is ignored: the added entries have their
  /// epochs.
  void begin(const ReplicaEnvelope& envelope, const Append& header, rpc::MessagePtr message);
  /// Adds an entry. False: this Append is full; finish it and begin another one. The first entry is always accepted.
  /// True: either the payload was copied and release(context) has been called, or the payload must stay unchanged until
  /// release(context) is called. `release` may be null.
  [[nodiscard]] bool add(const AppendEntry& entry, rpc::BodyReleaseFn release = nullptr, void* context = nullptr);
  [[nodiscard]] rpc::MessagePtr finish();

  [[nodiscard]] size_t count() const { return count_; }

 private:
  /// A piece of the message behind the head: a range of the buffer, or a payload in the caller's memory.
  struct Piece {
    bool copied = false;
    size_t begin = 0;
    size_t size = 0;
    ByteSpan bytes{};
    rpc::BodyReleaseFn release = nullptr;
    void* context = nullptr;
  };
  void copy(ByteSpan bytes, bool into_head);

  AppendBuffers& buffers_;
  rpc::MessagePtr message_;
  AppendBuffers::Buffer* buffer_ = nullptr;
  std::array<Piece, rpc::Message::kBodiesMax> pieces_;
  size_t piece_count_ = 0;
  size_t count_ = 0;
  size_t bytes_ = 0;
  size_t copied_bytes_ = 0;
};

// --- Snapshots

inline constexpr size_t kChunkBytesMax = size_t{1} << 20;
inline constexpr size_t kChunkNameBytesMax = 255;
inline constexpr uint32_t kChunkFilesMax = uint32_t{1} << 20;
inline constexpr size_t kFetchChunkBytes = 32;
inline constexpr size_t kFetchTailBytes = 20;
/// The most bytes before a chunk's data.
inline constexpr size_t kChunkHeadBytesMax = 49 + kChunkNameBytesMax;

/// Asks for a part of a snapshot.
struct FetchChunk {
  uint32_t table = 0;
  uint32_t shard = 0;
  uint64_t snapshot = 0;  ///< 0: a new snapshot, or one that exists already
  uint32_t file = 0;      ///< 0 .. files - 1
  uint64_t offset = 0;
  uint32_t bytes_max = 0;  ///< 1 .. kChunkBytesMax

  friend bool operator==(const FetchChunk&, const FetchChunk&) = default;
};

struct Chunk {
  uint64_t snapshot = 0;
  EntryId end{};  ///< the snapshot's last entry
  uint32_t files = 0;
  uint64_t file_bytes = 0;
  uint64_t offset = 0;
  uint32_t crc32c = 0;    ///< of the data; decode_chunk() does not verify it
  std::string_view name;  ///< a plain file name
  ByteSpan data{};        ///< empty only at the end of the file
};

/// Asks for the committed entries behind entry `after`.
struct FetchTail {
  uint32_t table = 0;
  uint32_t shard = 0;
  uint64_t after = 0;
  uint32_t bytes_max = 0;  ///< 1 .. kChunkBytesMax; the first entry is sent even if it is larger

  friend bool operator==(const FetchTail&, const FetchTail&) = default;
};

/// Whether `name` names a file of a directory and cannot lead out of it.
[[nodiscard]] bool is_plain_file_name(std::string_view name);

// Encoders write into `buffer`, and their result refers to it. INVALID_ARGUMENT: a value exceeds its bounds, or the
// bytes are not well-formed.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_fetch_chunk(const FetchChunk& fetch, MutableByteSpan buffer);
[[nodiscard]] absl::StatusOr<FetchChunk> decode_fetch_chunk(ByteSpan bytes);
[[nodiscard]] ByteSpan encode_fetch_tail(const FetchTail& fetch, MutableByteSpan buffer);
[[nodiscard]] absl::StatusOr<FetchTail> decode_fetch_tail(ByteSpan bytes);
/// Encodes only the bytes before the chunk's data.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_chunk_head(const Chunk& chunk, MutableByteSpan buffer);
[[nodiscard]] absl::StatusOr<Chunk> decode_chunk(ByteSpan bytes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_MESSAGE_CODEC_H_
