// A limit of this process that a node would meet only when it is at work, where the kernel answers by ending the process.
#ifndef SKUA_KVSTORE_NODE_PROCESS_LIMITS_H_
#define SKUA_KVSTORE_NODE_PROCESS_LIMITS_H_

#include "absl/status/status.h"

namespace skua::kv {

/// INVALID_ARGUMENT: this process may not write files as large as a node's become (ulimit -f).
[[nodiscard]] absl::Status check_file_size_limit();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_PROCESS_LIMITS_H_
