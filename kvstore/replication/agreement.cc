#include "kvstore/replication/agreement.h"

#include "kvstore/replication/replication_mutants.h"

namespace skua::kv {

LogLevels Agreement::acknowledged(const LogLevels& levels) const {
  LogLevels agreed = levels.up_to(verified_);
  if (mutant(ReplicaMutant::kAckBeforeDurable)) agreed.durable = agreed.written = agreed.received;
  return agreed;
}

}  // namespace skua::kv
