// The views that this node's replicas have adopted. A view is durable in this file before its replica sends a message
// in it.
//
//    <data-dir>/views:   u64 magic "SKUAVIEW"   u32 format 1   u32 shards
//                        { u32 table  u32 shard  u64 fork  u32 bytes  frame } for each shard
//                        u32 CRC-32C of all before
//
// A frame is an encoded StartView message (message_codec.h). An empty view says that the node has made the database of
// a shard without replicas. Shards of dropped tables leave the file when their data are deleted. The file is written as
// a whole under another name and then renamed. The whole file is rewritten each time, because views change rarely, and
// many change at once when a node is lost.
#ifndef SKUA_KVSTORE_NODE_VIEW_FILE_H_
#define SKUA_KVSTORE_NODE_VIEW_FILE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/replication/view.h"
#include "kvstore/storage/durable_files.h"
#include "kvstore/types/mutation.h"

namespace skua::kv {

using ShardViews = std::map<ShardId, View>;

inline constexpr char kViewsFile[] = "views";
/// Of a shard without replicas whose database was made.
inline const View kMadeUnreplicated{};

/// The content of the file. Errors: those of encode_frame().
[[nodiscard]] absl::StatusOr<std::string> encode_views(const ShardViews& views);
/// DATA_LOSS: damaged. FAILED_PRECONDITION: a newer format.
[[nodiscard]] absl::StatusOr<ShardViews> decode_views(std::string_view bytes);

/// Without a file there are no views. Errors name the file and the way out.
[[nodiscard]] absl::StatusOr<ShardViews> read_views(const DurableFiles& files);
/// Once it returns OK the views are durable.
[[nodiscard]] absl::Status write_views(const DurableFiles& files, const ShardViews& views);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_VIEW_FILE_H_
