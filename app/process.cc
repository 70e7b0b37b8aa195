#include "app/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <latch>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "rpc/base/status.h"

namespace skua::app {

namespace {

/// The wrong way round, so that a use of the stream fails as it would have failed, with EBADF.
void fill_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is given out, and those below are in use.
    (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Enough to wait on a latch: stacks of the usual size would meet limits that the threads themselves do not.
constexpr size_t kProbeStackBytes = size_t{64} << 10;

void* wait_for_all(void* done) {
  static_cast<std::latch*>(done)->wait();
  return nullptr;
}

}  // namespace

void check_process(std::string_view program, uint64_t files) {
  fill_standard_streams();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur >= files) return;
  fail_usage(program, absl::StrCat("only ", limit.rlim_cur, " files may be open here, and it needs ", files,
                                   " at least: raise the limit with ulimit -n 65536 (systemd: LimitNOFILE=65536)"));
}

uint64_t open_files_max() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT32_MAX;
}

absl::Status check_threads(std::string_view who, size_t count, std::string_view or_else) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kProbeStackBytes);
  std::latch done(1);
  std::vector<pthread_t> made;
  made.reserve(count);
  pthread_t thread{};
  while (made.size() < count && ::pthread_create(&thread, &attributes, wait_for_all, &done) == 0) {
    made.push_back(thread);
  }
  done.count_down();
  for (const pthread_t one : made) ::pthread_join(one, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (made.size() == count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("this process can have ", made.size(), " more threads, and ",
                                                 absl_view(who), " needs ", count,
                                                 ": raise the limit (ulimit -u for all processes of the user; systemd: "
                                                 "TasksMax=; containers: their limit of pids)",
                                                 absl_view(or_else)));
}

}  // namespace skua::app
