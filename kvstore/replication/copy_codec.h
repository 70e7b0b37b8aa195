// The messages by which a node copies a shard from another one, as bytes: requests and replies of FETCH_CHUNK (pieces
// of a snapshot's files) and FETCH_TAIL (entries behind the snapshot). All numbers are little endian.
//
//   fetch     u32 table, u32 shard, u64 snapshot (0: begin one), u32 file, u64 offset, u32 bytes at most
//   chunk     u64 snapshot, id of its last entry, u32 files, u64 bytes of the file, u64 offset, u32 CRC-32C of data,
//             u8 bytes of the name, name, data
//   tail      u32 table, u32 shard, u64 index of the last entry that the sender has, u32 bytes at most; the reply is an
//             Append (message_codec.h) of the committed entries behind it, perhaps of none
//
//   id        u64 index, u64 epoch
//
// Versions and errors: as for the messages of message_codec.h. Decoded values refer to the decoder's input.
#ifndef SKUA_KVSTORE_REPLICATION_COPY_CODEC_H_
#define SKUA_KVSTORE_REPLICATION_COPY_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/replication/epoch_history.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

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

#endif  // SKUA_KVSTORE_REPLICATION_COPY_CODEC_H_
