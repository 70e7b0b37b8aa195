#include "kvstore/log/durable_write.h"

namespace skua::kv {

absl::StatusOr<std::unique_ptr<DurableRing>> make_durable_ring() {
  return absl::FailedPreconditionError(
      "io_uring was asked for and this program was built without it (liburing-dev); choose another way to write the "
      "log (--log-io auto)");
}

}  // namespace skua::kv
