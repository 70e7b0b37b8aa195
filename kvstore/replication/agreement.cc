#include "kvstore/replication/agreement.h"

#include "kvstore/types/mutants.h"

namespace skua::kv {

LogLevels Agreement::acknowledged(const LogLevels& levels) const {
  LogLevels agreed = levels.up_to(verified_);
  if (mutant(Mutant::kAckBeforeDurable)) agreed.durable = agreed.written = agreed.received;
  return agreed;
}

}  // namespace skua::kv
