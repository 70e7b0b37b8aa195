// Operations of several parts (MULTI_GET, SCAN). A parent starts parts while there is work left and fewer than
// kPartsInFlightMax are in flight. Each part runs like an operation of its own. The parent ends when its last part has
// ended.
#include <utility>

#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"

namespace skua::kv {

Operation& ClientCore::begin_part(Operation& parent, Kind kind, Method method, uint32_t shard) {
  Operation& part = pool_.take();
  part.kind = kind;
  part.method = method;
  part.table.assign(parent.table);
  part.routes_revision = 0;
  part.key.clear();
  part.started_ns = parent.started_ns;
  part.deadline_ns = parent.deadline_ns;
  part.parent = &parent;
  part.shard = shard;
  part.shard_known = true;
  ++parent.parts_running;
  return part;
}

void ClientCore::run_parent(Operation& parent) {
  // A part may end inside the loop below and call this again. The loop then sees the new count of parts.
  if (std::exchange(parent.starting_parts, true)) return;
  bool more = true;
  while (more && parent.parts_running < kPartsInFlightMax) {
    more = parent.kind == Kind::kScan ? start_scan_page(parent) : start_multi_get_part(parent);
  }
  parent.starting_parts = false;
  if (parent.parts_running > 0) return;
  finish(parent, std::move(parent.failure));
}

void ClientCore::part_ended(Operation& part) {
  Operation& parent = *part.parent;
  OperationPool::drop(part);
  --parent.parts_running;
  run_parent(parent);
}

void ClientCore::part_failed(Operation& part, Outcome&& outcome) {
  Operation& parent = *part.parent;
  if (parent.kind == Kind::kMultiGet) fail_keys(part, outcome.status);
  if (parent.failure.ok()) parent.failure = std::move(outcome);
  part_ended(part);
}

}  // namespace skua::kv
