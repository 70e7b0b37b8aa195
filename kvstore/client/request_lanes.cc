#include "kvstore/client/request_lanes.h"

#include <algorithm>

namespace skua::kv {

RequestLanes::Lane& RequestLanes::lane_of(uint32_t table_id, uint32_t shard, uint32_t shard_count) {
  if (last_ == nullptr || last_id_ != table_id) {
    Table& table = tables_[table_id];
    if (table.lanes == nullptr) {
      table.lanes = std::make_unique<Lane[]>(shard_count);
      table.lane_count = shard_count;
    }
    last_ = &table;
    last_id_ = table_id;
  }
  // A table's number of shards never changes. Were a map to say otherwise, shards would share lanes, which keeps answers
  // longer than necessary and is right.
  return last_->lanes[shard % last_->lane_count];
}

RequestId RequestLanes::identify(Operation& operation, uint32_t table_id, uint32_t shard, uint32_t shard_count) {
  if (!enabled()) return {};
  Lane& lane = lane_of(table_id, shard, shard_count);
  // A table that was dropped and created anew is another one, and so is the write to it.
  const bool moved = operation.lane_table_id != table_id || operation.lane_shard != shard;
  if (operation.seq == 0 || moved) {
    operation.lane_hook.unlink();
    operation.seq = ++last_seq_;
    operation.lane_table_id = table_id;
    operation.lane_shard = shard;
    lane.push_back(operation);
  }
  return {client_id_, operation.seq, lane.front().seq};
}

void RequestLanes::complete(Operation& operation) {
  operation.lane_hook.unlink();
  operation.seq = 0;
}

void RequestLanes::forget_idle() {
  std::erase_if(tables_, [](const auto& entry) {
    const Table& table = entry.second;
    return std::all_of(table.lanes.get(), table.lanes.get() + table.lane_count,
                       [](const Lane& lane) { return lane.empty(); });
  });
  last_ = nullptr;
}

}  // namespace skua::kv
