// Batches of the C library.
#ifndef SKUA_KVSTORE_C_BATCH_H_
#define SKUA_KVSTORE_C_BATCH_H_

#include "absl/status/status.h"
#include "include/skua/skua.h"
#include "kvstore/client/batch.h"

struct skua_batch {
  skua::kv::Batch batch;
  /// The first operation whose parameters made no sense. Further operations are ignored, as kv::Batch does for its own
  /// limits.
  absl::Status refused;

  [[nodiscard]] const absl::Status& status() const { return refused.ok() ? batch.status() : refused; }
};

#endif  // SKUA_KVSTORE_C_BATCH_H_
