#include "kvstore/shard/worker_resources.h"

#include "absl/strings/str_cat.h"

namespace skua::kv {

void WorkerResources::note_refused(const absl::Status& outcome) {
  if (const absl::Status health = log->health(); !health.ok()) {
    log_failure = absl::Status(
        health.code(),
        absl::StrCat("the worker's log failed, and its shards refuse writes until the node is started again: ",
                     health.message()));
  } else if (absl::IsResourceExhausted(outcome)) {
    applier->free_log();
  }
}

}  // namespace skua::kv
