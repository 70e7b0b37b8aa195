// Where a client was made: in which process, and on which thread. A client refuses calls from elsewhere.
#ifndef SKUA_KVSTORE_C_ORIGIN_H_
#define SKUA_KVSTORE_C_ORIGIN_H_

#include <atomic>
#include <cstdint>

namespace skua::c {
namespace internal {

extern std::atomic<uint32_t> forks;
// Static thread-local memory: one instruction finds the number, also in a shared library. glibc reserves a little of
// this memory for libraries that are loaded later, for example as a module of Python. The number takes 8 bytes of it.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit uint64_t thread_number;  // 0: none yet
[[nodiscard]] uint64_t draw_thread_number() noexcept;

}  // namespace internal

/// A number of the calling thread that no other thread of the process ever has. (The system gives the id of a thread
/// that ended to a later thread.) Never 0. After fork(), the thread of the child has the number of the thread that
/// forked.
[[nodiscard]] inline uint64_t this_thread_number() noexcept {
  return internal::thread_number != 0 ? internal::thread_number : internal::draw_thread_number();
}

/// True if `number` is the calling thread's. `number` belongs to some thread, so it is not 0.
[[nodiscard]] inline bool is_this_thread(uint64_t number) noexcept {
  return internal::thread_number == number;
}

/// From now on fork_count() counts. Throws std::system_error if there is no memory for that. Thread: any.
void begin_to_count_forks();

/// How many forks lie between the process that first called begin_to_count_forks() and the calling process. Takes no
/// system call. Thread: any.
[[nodiscard]] inline uint32_t fork_count() noexcept {
  return internal::forks.load(std::memory_order_relaxed);
}

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_ORIGIN_H_
