// Checks process limits at start. Otherwise the kernel would kill the running node when it reaches the limit.
#ifndef SKUA_KVSTORE_NODE_PROCESS_LIMITS_H_
#define SKUA_KVSTORE_NODE_PROCESS_LIMITS_H_

#include "absl/status/status.h"

namespace skua::kv {

/// INVALID_ARGUMENT: the limit on file sizes (ulimit -f) is below the size that files of a node reach.
[[nodiscard]] absl::Status check_file_size_limit();

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_PROCESS_LIMITS_H_
