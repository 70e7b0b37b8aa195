#include "kvstore/client/operation.h"

namespace skua::kv {

void Operation::change_table(std::string_view name) {
  table.assign(name);
  routes_revision = 0;
}

void Operation::reset() {
  uncertain = false;
  shard_known = false;
  target = kNoTarget;
  if (failed_attempts > 0) {
    trail.clear();
    failed_attempts = 0;
  }
  if (!failure.ok()) failure = Outcome();
}

void CallOperation::reset() {
  Operation::reset();
  attempt = 0;
  session = {};
  moved = false;
  spreads = at_backup = to_primary = false;
}

}  // namespace skua::kv
