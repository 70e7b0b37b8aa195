#include "kvstore/c/origin.h"

#include <pthread.h>

#include <system_error>

namespace skua::c {
namespace internal {

std::atomic<uint32_t> forks{0};
[[gnu::tls_model("initial-exec")]] thread_local constinit uint64_t thread_number = 0;

uint64_t draw_thread_number() noexcept {
  static std::atomic<uint64_t> last{0};
  thread_number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return thread_number;
}

}  // namespace internal

namespace {

/// Throws: then the next call tries again.
bool count_forks() {
  const int error = pthread_atfork(nullptr, nullptr, [] { internal::forks.fetch_add(1, std::memory_order_relaxed); });
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_atfork");
  return true;
}

}  // namespace

void begin_to_count_forks() {
  [[maybe_unused]] static const bool counts = count_forks();
}

}  // namespace skua::c
