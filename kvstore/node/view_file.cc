#include "kvstore/node/view_file.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/node/node_state.h"
#include "kvstore/replication/message_codec.h"
#include "rpc/base/bytes.h"
#include "rpc/base/crc32c.h"

namespace skua::kv {
namespace {

constexpr uint64_t kMagic = 0x5745'4956'4155'4B53;  // "SKUAVIEW"
constexpr uint32_t kFormat = 1;

template <typename T>
void append(T value, std::string& out) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  out.append(as_string_view(bytes));
}

absl::Status damaged() {
  return absl::DataLossError(
      "it is damaged: restore it from a backup, or give the node an empty data directory and let it copy "
      "its shards from the others");
}

}  // namespace

absl::StatusOr<std::string> encode_views(const ShardViews& views) {
  std::string out;
  append(kMagic, out);
  append(kFormat, out);
  append(static_cast<uint32_t>(views.size()), out);
  FrameBuffer buffer;
  for (const auto& [id, view] : views) {
    const auto frame = encode_frame({id.table_id, id.shard, 0, 0}, StartView{view}, buffer);
    if (!frame.ok()) return frame.status();
    append(id.table_id, out);
    append(id.shard, out);
    append(view.fork, out);
    append(static_cast<uint32_t>(frame->size()), out);
    out.append(as_string_view(*frame));
  }
  append(crc32c(as_byte_span(out)), out);
  return out;
}

absl::StatusOr<ShardViews> decode_views(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  if (reader.read<uint64_t>() != kMagic) return damaged();
  if (const auto format = reader.read<uint32_t>(); reader.ok() && format > kFormat) {
    return absl::FailedPreconditionError(absl::StrCat("it has format ", format, ", this build reads format ", kFormat,
                                                      ": run the newer version of skuad"));
  }
  if (bytes.size() < sizeof(uint32_t)) return damaged();
  const ByteSpan checked = as_byte_span(bytes.substr(0, bytes.size() - sizeof(uint32_t)));
  if (load_le<uint32_t>(as_byte_span(bytes).data() + checked.size()) != crc32c(checked)) return damaged();
  const auto count = reader.read<uint32_t>();
  ShardViews views;
  ReplicaFrame frame;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    ShardId id;
    id.table_id = reader.read<uint32_t>();
    id.shard = reader.read<uint32_t>();
    const auto fork = reader.read<uint64_t>();
    const auto frame_bytes = reader.read<uint32_t>();
    const ByteSpan encoded = reader.read_bytes(frame_bytes);
    if (!reader.ok() || !decode_frame(encoded, frame).ok()) return damaged();
    const auto* start = std::get_if<StartView>(&frame.message);
    if (start == nullptr) return damaged();
    views[id] = start->view;
    views[id].fork = fork;
  }
  if (!reader.ok() || reader.remaining() != sizeof(uint32_t)) return damaged();
  return views;
}

absl::StatusOr<ShardViews> read_views(const DurableFiles& files) {
  return read_decoded(files, kViewsFile, decode_views);
}

absl::Status write_views(const DurableFiles& files, const ShardViews& views) {
  const auto bytes = encode_views(views);
  if (!bytes.ok()) return bytes.status();
  return files.replace(kViewsFile, *bytes);
}

}  // namespace skua::kv
