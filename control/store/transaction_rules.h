// What every implementation of MetadataStore refuses, in the same words.
#ifndef SKUA_CONTROL_STORE_TRANSACTION_RULES_H_
#define SKUA_CONTROL_STORE_TRANSACTION_RULES_H_

#include "absl/status/status.h"
#include "control/store/metadata_store.h"

namespace skua::control {

/// INVALID_ARGUMENT, naming the bound or the key, if the transaction must not be run.
[[nodiscard]] absl::Status check_transaction(const Transaction& transaction);

/// The error of a watch that starts at `wanted` when the history begins at `oldest`; 0 if that is not known.
[[nodiscard]] absl::Status compacted_error(uint64_t wanted, uint64_t oldest = 0);

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_TRANSACTION_RULES_H_
