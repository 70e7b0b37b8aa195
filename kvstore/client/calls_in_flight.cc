#include "kvstore/client/calls_in_flight.h"

#include <algorithm>

#include "kvstore/client/client_limits.h"

namespace skua::kv {
namespace {

/// The call is in flight to a node that is no longer the shard's primary.
bool has_moved(const CallOperation& operation, RouteTable& routes) {
  if (operation.at_backup) return false;  // a backup was asked, and kReadPatienceNs limits the wait
  const TableRoutes* table = routes.find_table(operation.table);
  // If the table was dropped, or dropped and created again, no other node can answer better.
  if (table == nullptr || table->id != operation.table_id || operation.shard >= table->shards.size()) return false;
  const TargetId primary = table->shards[operation.shard].target;
  return primary != kNoTarget && primary != operation.target;
}

}  // namespace

void CallsInFlight::take_moved(RouteTable& routes, bool writes_have_ids, List& moved) {
  calls_.move_if(
      [&](const CallOperation& operation) {
        return (writes_have_ids || !operation.is_write()) && has_moved(operation, routes);
      },
      moved);
}

TimeNs CallsInFlight::next_look_ns() {
  if (calls_.empty()) return kTimeNever;
  return std::max(calls_.front().attempt_ns, last_look_ns_) + kSlowCallNs;
}

}  // namespace skua::kv
