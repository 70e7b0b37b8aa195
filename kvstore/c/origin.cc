#include "kvstore/c/origin.h"

#include <pthread.h>

#include <atomic>
#include <system_error>

namespace skua::c {
namespace {

std::atomic<uint64_t> last_thread_number{0};
std::atomic<uint32_t> forks{0};

/// Throws: then the next call tries again.
bool count_forks() {
  const int error = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_atfork");
  return true;
}

}  // namespace

uint64_t this_thread_number() noexcept {
  // In memory of threads that every thread has: found by one instruction, also from a shared library. glibc keeps some such
  // memory free for libraries that come later, as a module of Python does; these are 8 bytes of it.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit uint64_t number = 0;
  if (number == 0) number = last_thread_number.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

uint32_t fork_count() {
  [[maybe_unused]] static const bool counts = count_forks();
  return forks.load(std::memory_order_relaxed);
}

}  // namespace skua::c
