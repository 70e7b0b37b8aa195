#include "kvstore/replication/replica_output.h"

namespace skua::kv {

void ReplicaOutput::clear() {
  persist_view.reset();
  truncate_after.reset();
  accept_first = 0;
  append_barrier = fetch_view = fetch_snapshot = failed = restored = false;
  messages.clear();
  sends.clear();
  reports.clear();
}

}  // namespace skua::kv
