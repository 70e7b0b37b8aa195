#include "kvstore/shard/worker_resources.h"

#include "absl/strings/str_cat.h"

namespace skua::kv {

void WorkerResources::note_log_failed(const absl::Status& why) {
  if (!log_failure.ok()) return;
  log_failure = absl::Status(
      why.code(),
      absl::StrCat("the worker's log failed, and its shards refuse writes until the node is started again: ",
                   why.message()));
}

void WorkerResources::note_refused(const absl::Status& outcome) {
  if (log_failure.ok() && absl::IsResourceExhausted(outcome)) applier->free_log();
}

}  // namespace skua::kv
