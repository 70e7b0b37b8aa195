#include "control/proto/grpc_log.h"

#include <stdlib.h>

namespace skua::control {

void silence_grpc_log() {
  constexpr int kKeepWhatIsSet = 0;
  setenv("GRPC_VERBOSITY", "NONE", kKeepWhatIsSet);  // NOLINT(concurrency-mt-unsafe): before threads exist
}

}  // namespace skua::control
