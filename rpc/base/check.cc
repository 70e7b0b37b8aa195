#include "rpc/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace skua {

void check_failed(const char* file, int line, const char* what, const char* detail) {
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, detail);
  std::abort();
}

}  // namespace skua
