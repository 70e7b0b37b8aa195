#include "rpc/base/short_slices.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace skua {
namespace {

/// The first version of the kernel's sched_attr. The C library does not have it.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  // the slice, for SCHED_OTHER
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

}  // namespace

void ask_for_short_slices() {
  static_cast<void>(::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0));
  if (::sched_getscheduler(0) != SCHED_OTHER) return;
  SchedulingAttributes attributes;
  attributes.nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  attributes.runtime_ns = 100'000;
  static_cast<void>(::syscall(SYS_sched_setattr, 0, &attributes, 0));
}

}  // namespace skua
