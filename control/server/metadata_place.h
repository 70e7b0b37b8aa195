// Where skua-control keeps the cluster's metadata: in its data directory, or in an etcd.
#ifndef SKUA_CONTROL_SERVER_METADATA_PLACE_H_
#define SKUA_CONTROL_SERVER_METADATA_PLACE_H_

#include <memory>

#include "absl/status/status.h"
#include "control/server/control_options.h"
#include "control/store/election.h"
#include "control/store/metadata_store.h"

namespace skua::control {

struct Metadata {
  std::unique_ptr<MetadataStore> store;
  std::unique_ptr<Election> election;  ///< null: there is no other control process
};

/// INVALID_ARGUMENT: --metadata and what belongs to it do not fit together, or files cannot be read. Asks nobody.
[[nodiscard]] absl::Status check_metadata_options(const ControlOptions& options);

/// An error ends the process; of an etcd it says what stands at its addresses instead.
[[nodiscard]] Metadata open_metadata(const ControlOptions& options);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_METADATA_PLACE_H_
