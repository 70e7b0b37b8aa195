#include "kvstore/client/request_lanes.h"

#include <algorithm>

#include "kvstore/client/client_limits.h"

namespace skua::kv {

RequestLanes::Lane& RequestLanes::lane_of(uint32_t table_id, uint32_t shard, uint32_t shard_count) {
  if (last_ == nullptr || last_id_ != table_id) {
    Lanes& lanes = tables_[table_id];
    if (lanes.empty()) lanes = Lanes(shard_count);
    last_ = &lanes;
    last_id_ = table_id;
  }
  // A table's number of shards never changes. If a map said otherwise, shards would share lanes. That is correct; it
  // only makes shards keep answers longer than necessary.
  return (*last_)[shard % static_cast<uint32_t>(last_->size())];
}

RequestId RequestLanes::identify(NumberedOperation& operation, uint32_t table_id, uint32_t shard,
                                 uint32_t shard_count) {
  if (!enabled()) return {};
  Lane& lane = lane_of(table_id, shard, shard_count);
  // A table that was dropped and created again has another id. The operation is then a new write to that table.
  const bool moved = operation.lane_table_id != table_id || operation.lane_shard != shard;
  if (operation.seq == 0 || moved) {
    operation.lane_hook.unlink();
    operation.seq = ++lane.last_seq;
    operation.lane_table_id = table_id;
    operation.lane_shard = shard;
    lane.operations.push_back(operation);
  }
  return {client_id_, operation.seq, lane.operations.front().seq};
}

bool RequestLanes::renumber(NumberedOperation& operation, uint64_t first_taken) {
  if (operation.seq == 0 || first_taken <= operation.seq || first_taken > kRenumberedSeqMax) return false;
  const auto table = tables_.find(operation.lane_table_id);
  if (table == tables_.end()) return false;
  complete(operation);
  Lane& lane = table->second[operation.lane_shard % table->second.size()];
  lane.last_seq = std::max(lane.last_seq, first_taken - 1);
  return true;
}

void RequestLanes::complete(NumberedOperation& operation) {
  operation.lane_hook.unlink();
  operation.seq = 0;
}

}  // namespace skua::kv
