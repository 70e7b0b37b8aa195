#include "rpc/transport/dpdk/driver_calls.h"

#include <linux/membarrier.h>
#include <rte_interrupts.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace skua::rpc::dpdk {
namespace {

/// The marks of all watched threads. One per process, as the EAL is.
struct Watched {
  std::mutex mutex;
  std::vector<const std::atomic<uint64_t>*> marks;
};

Watched& watched() {
  static Watched all;
  return all;
}

/// Keeps the thread's mark on the list for as long as the thread lives.
struct Place {
  Place() {
    const std::scoped_lock lock(watched().mutex);
    watched().marks.push_back(&internal::driver_mark);
  }
  ~Place() {
    const std::scoped_lock lock(watched().mutex);
    std::erase(watched().marks, &internal::driver_mark);
  }
};

void barrier_on_all_threads() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) return;
  // The kernel does not have it. The global barrier is slower: it waits until every processor has passed through the
  // scheduler.
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

}  // namespace

void watch_driver_calls() {
  static const long registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  static_cast<void>(registered);
  static thread_local const Place place;
}

void wait_for_driver_calls() {
  barrier_on_all_threads();
  const std::scoped_lock lock(watched().mutex);
  for (const std::atomic<uint64_t>* mark : watched().marks) {
    const uint64_t seen = mark->load(std::memory_order_acquire);
    if (seen % 2 == 0) continue;
    while (mark->load(std::memory_order_acquire) == seen) sched_yield();
  }
}

}  // namespace skua::rpc::dpdk

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// The program's munmap(), found before the C library's (the linker exports it to the drivers). Only the EAL's own
/// thread waits here. Sanitizers have their own munmap().
extern "C" int munmap(void* address, size_t bytes) noexcept {
  if (rte_thread_is_intr() != 0) skua::rpc::dpdk::wait_for_driver_calls();
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}
#endif
