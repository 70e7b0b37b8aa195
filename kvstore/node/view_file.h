// The views that this node's replicas have adopted, durable before any of them speaks in one.
//
//    <data-dir>/views:   u64 magic "SKUAVIEW"   u32 format 1   u32 shards   { u32 table  u32 shard  u64 fork  u32 bytes  frame } each   u32 CRC-32C
//
// A frame is a StartView of the data path (message_codec.h). The file is written as a whole, aside, and renamed: views change
// rarely, and many at once when a node is lost.
#ifndef SKUA_KVSTORE_NODE_VIEW_FILE_H_
#define SKUA_KVSTORE_NODE_VIEW_FILE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/replication/view.h"
#include "kvstore/types/mutation.h"

namespace skua::kv {

using ShardViews = std::map<ShardId, View>;

[[nodiscard]] absl::StatusOr<std::string> encode_views(const ShardViews& views);
/// DATA_LOSS, or FAILED_PRECONDITION for a newer format.
[[nodiscard]] absl::StatusOr<ShardViews> decode_views(std::string_view bytes);

/// No file: no views. Errors name the file and the way out.
[[nodiscard]] absl::StatusOr<ShardViews> read_views(const std::string& data_dir);
/// Durable when it returns.
[[nodiscard]] absl::Status write_views(const std::string& data_dir, const ShardViews& views);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_VIEW_FILE_H_
