// MetadataStore on an embedded RocksDB: one control process, one directory (embedded_layout.h says
// what is in it).
//
// Writes go through one mutex and are synced before transact() returns. The newest revisions'
// history is kept for watches and forgotten by itself once there are twice as many as
// `history_revisions`.
#ifndef SKUA_CONTROL_STORE_EMBEDDED_STORE_H_
#define SKUA_CONTROL_STORE_EMBEDDED_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/store/metadata_store.h"

namespace skua::control {

struct EmbeddedStoreOptions {
  /// Created if missing. Nobody else's files may be in it.
  std::string directory;
  uint64_t history_revisions = 10'000;
};

/// Opens or creates the store. FAILED_PRECONDITION (in use by another process, written by a newer
/// version), PERMISSION_DENIED, DATA_LOSS, RESOURCE_EXHAUSTED, UNAVAILABLE: all name the directory
/// and the way out.
[[nodiscard]] absl::StatusOr<std::unique_ptr<MetadataStore>> open_embedded_store(const EmbeddedStoreOptions& options);

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_EMBEDDED_STORE_H_
