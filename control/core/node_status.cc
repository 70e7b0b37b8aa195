#include "control/core/node_status.h"

namespace skua::control {

const char* liveness_name(Liveness liveness) {
  switch (liveness) {
    case Liveness::kUnknown: return "unknown";
    case Liveness::kAlive: return "alive";
    case Liveness::kSuspected: return "suspected";
    case Liveness::kStopped: return "stopped";
  }
  return "unknown";
}

}  // namespace skua::control
