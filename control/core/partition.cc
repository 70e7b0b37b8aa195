#include "control/core/partition.h"

// The one place that includes xxHash; compiled in, so that no program needs the shared library.
#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(XXH_VERSION_NUMBER >= 800, "XXH3's output is stable only from xxHash 0.8.0 on");

namespace skua::control {

uint64_t key_hash(ByteSpan key) {
  return XXH3_64bits(key.data(), key.size());
}

}  // namespace skua::control
