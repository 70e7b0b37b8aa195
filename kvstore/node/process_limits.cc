#include "kvstore/node/process_limits.h"

#include <sys/resource.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kvstore/node/size_text.h"

namespace skua::kv {

absl::Status check_file_size_limit() {
  // Size of a table file, or of a log file for the largest records. The kernel kills a process that writes beyond the
  // limit.
  constexpr uint64_t kFileBytes = uint64_t{1} << 30;
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kFileBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("files may have ", size_text(limit.rlim_cur),
                                                 " here (ulimit -f), and a node's become larger: raise that limit "
                                                 "(ulimit -f unlimited; systemd: LimitFSIZE=infinity)"));
}

}  // namespace skua::kv
