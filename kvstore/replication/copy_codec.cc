#include "kvstore/replication/copy_codec.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "kvstore/types/fields.h"
#include "rpc/base/check.h"

namespace skua::kv {

template <>
constexpr auto kFields<FetchChunk> = std::tuple(&FetchChunk::table, &FetchChunk::shard, &FetchChunk::snapshot,
                                                &FetchChunk::file, &FetchChunk::offset, &FetchChunk::bytes_max);
template <>
constexpr auto kFields<FetchTail> = std::tuple(&FetchTail::table, &FetchTail::shard, &FetchTail::after,
                                               &FetchTail::bytes_max);
/// Those before the name and the data.
template <>
constexpr auto kFields<Chunk> = std::tuple(&Chunk::snapshot, &Chunk::end, &Chunk::files, &Chunk::file_bytes,
                                           &Chunk::offset, &Chunk::crc32c);

namespace {

absl::Status malformed_copy(const char* what, size_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message for a copy, of ", bytes, " bytes: ", what));
}

bool is_sound(const FetchChunk& fetch) {
  return fetch.file < kChunkFilesMax && fetch.bytes_max >= 1 && fetch.bytes_max <= kChunkBytesMax &&
         (fetch.snapshot != 0 || (fetch.file == 0 && fetch.offset == 0));
}

bool is_sound(const Chunk& chunk) {
  const bool in_file = chunk.offset <= chunk.file_bytes && chunk.data.size() <= chunk.file_bytes - chunk.offset;
  return chunk.snapshot != 0 && chunk.files >= 1 && chunk.files <= kChunkFilesMax && in_file &&
         chunk.data.size() <= kChunkBytesMax && (!chunk.data.empty() || chunk.offset == chunk.file_bytes) &&
         is_plain_file_name(chunk.name) && chunk.end.index <= EpochHistory::kIndexMax;
}

}  // namespace

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kChunkNameBytesMax && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

absl::StatusOr<ByteSpan> encode_fetch_chunk(const FetchChunk& fetch, MutableByteSpan buffer) {
  if (!is_sound(fetch)) return absl::InvalidArgumentError("no such part of a snapshot can be asked for");
  ByteWriter writer(buffer);
  write_fields(writer, fetch);
  SKUA_CHECK(writer.ok(), "size the buffer with kFetchChunkBytes");
  return writer.written();
}

absl::StatusOr<FetchChunk> decode_fetch_chunk(ByteSpan bytes) {
  ByteReader reader(bytes);
  FetchChunk fetch;
  read_fields(reader, fetch);
  if (!reader.complete()) return malformed_copy("a request for a chunk has 32 bytes", bytes.size());
  if (!is_sound(fetch)) return malformed_copy("no such part of a snapshot can be asked for", bytes.size());
  return fetch;
}

ByteSpan encode_fetch_tail(const FetchTail& fetch, MutableByteSpan buffer) {
  ByteWriter writer(buffer);
  write_fields(writer, fetch);
  SKUA_CHECK(writer.ok(), "size the buffer with kFetchTailBytes");
  return writer.written();
}

absl::StatusOr<FetchTail> decode_fetch_tail(ByteSpan bytes) {
  ByteReader reader(bytes);
  FetchTail fetch;
  read_fields(reader, fetch);
  if (!reader.complete()) return malformed_copy("a request for a tail has 20 bytes", bytes.size());
  if (fetch.bytes_max < 1 || fetch.bytes_max > kChunkBytesMax) {
    return malformed_copy("so much cannot be asked for at once", bytes.size());
  }
  return fetch;
}

absl::StatusOr<ByteSpan> encode_chunk_head(const Chunk& chunk, MutableByteSpan buffer) {
  if (!is_sound(chunk)) return absl::InvalidArgumentError("a snapshot's file has no such part");
  ByteWriter writer(buffer);
  write_fields(writer, chunk);
  writer.write_prefixed<uint8_t>(as_byte_span(chunk.name));
  SKUA_CHECK(writer.ok(), "size the buffer with kChunkHeadBytesMax");
  return writer.written();
}

absl::StatusOr<Chunk> decode_chunk(ByteSpan bytes) {
  ByteReader reader(bytes);
  Chunk chunk;
  read_fields(reader, chunk);
  chunk.name = as_string_view(reader.read_prefixed<uint8_t>());
  if (!reader.ok()) return malformed_copy("a chunk of a snapshot is cut off", bytes.size());
  chunk.data = reader.read_rest();
  if (!is_sound(chunk)) return malformed_copy("a snapshot's file has no such part", bytes.size());
  return chunk;
}

}  // namespace skua::kv
