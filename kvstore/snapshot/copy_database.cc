#include "kvstore/snapshot/copy_database.h"

#include <array>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kvstore/replication/message_codec.h"
#include "kvstore/storage/replica_rows.h"
#include "rpc/base/crc32c.h"

namespace skua::kv {
namespace {

/// Bytes before each piece in the tail's file: its size and its CRC-32C.
constexpr size_t kPieceHeadBytes = 8;

absl::Status add_piece(ShardCopy& database, ByteSpan piece, ReplicaFrame& frame) {
  if (absl::Status decoded = decode_frame(piece, frame); !decoded.ok()) return decoded;
  uint64_t index = std::get<Append>(frame.message).prev.index;
  for (const AppendEntry& entry : frame.entries) {
    absl::Status added = check_barrier({++index, entry.epoch}, entry.payload);
    if (added.ok()) added = database.add(index, entry.time, entry.payload);
    if (!added.ok()) return added;
  }
  return database.apply();
}

}  // namespace

std::string tail_file_piece(ByteSpan piece) {
  std::string out(kPieceHeadBytes, '\0');
  store_le(reinterpret_cast<std::byte*>(out.data()), static_cast<uint32_t>(piece.size()));
  store_le(reinterpret_cast<std::byte*>(out.data()) + sizeof(uint32_t), crc32c(piece));
  out.append(as_string_view(piece));
  return out;
}

absl::Status apply_tail_file(ShardCopy& database, FileTree& tree, const std::string& path, uint64_t begin,
                             uint64_t end) {
  ReplicaFrame frame;
  std::string piece;
  while (begin < end) {
    std::array<char, kPieceHeadBytes> head{};
    if (end - begin < head.size()) return absl::DataLossError(absl::StrCat(path, " ends within a piece"));
    if (absl::Status read = tree.read(path, begin, head); !read.ok()) return read;
    const auto* const at = reinterpret_cast<const std::byte*>(head.data());
    const auto bytes = load_le<uint32_t>(at);
    begin += head.size();
    if (bytes > end - begin) return absl::DataLossError(absl::StrCat(path, " is not what was written before ", begin));
    piece.resize(bytes);
    if (absl::Status read = tree.read(path, begin, piece); !read.ok()) return read;
    if (crc32c(as_byte_span(piece)) != load_le<uint32_t>(at + sizeof(bytes))) {
      return absl::DataLossError(absl::StrCat(path, " is not what was written at ", begin));
    }
    if (absl::Status added = add_piece(database, as_byte_span(piece), frame); !added.ok()) return added;
    begin += bytes;
  }
  return absl::OkStatus();
}

absl::Status check_announced(const ShardCopy& database, EntryId end) {
  if (database.index() != end.index) {
    return absl::DataLossError(
        absl::StrCat("the snapshot has index ", database.index(), ", and was said to have ", end.index));
  }
  if (database.runs().empty()) return absl::OkStatus();
  const auto runs = decode_epoch_history(as_byte_span(database.runs()));
  if (runs && runs->last_index() <= end.index) return absl::OkStatus();
  return absl::DataLossError("the snapshot's record of which primaries wrote it is not of the data that it has");
}

}  // namespace skua::kv
