#include "control/proto/grpc_log.h"

#include <grpc/support/log.h>
#include <stdlib.h>

namespace skua::control {

void silence_grpc_log() {
  constexpr int kKeepWhatIsSet = 0;
  setenv("GRPC_VERBOSITY", "NONE", kKeepWhatIsSet);  // NOLINT(concurrency-mt-unsafe): before threads exist
}

void silence_grpc_log_of_process() {
  if (getenv("GRPC_VERBOSITY") != nullptr) return;  // NOLINT(concurrency-mt-unsafe): nobody of ours changes it
  // Above the highest level that there is: nothing passes.
  gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));
}

}  // namespace skua::control
