// Where a client was made: in which process, and on which thread. A client refuses calls from elsewhere.
#ifndef SKUA_KVSTORE_C_ORIGIN_H_
#define SKUA_KVSTORE_C_ORIGIN_H_

#include <cstdint>

namespace skua::c {

/// A number of the calling thread that no other thread of the process ever has. (The system gives the id of a thread that
/// ended to a later thread.) Never 0. After fork(), the thread of the child has the number of the thread that forked.
[[nodiscard]] uint64_t this_thread_number() noexcept;

/// How many forks lie between the process that first called this function and the calling process. Takes no system call.
/// Throws std::system_error if there is no memory for the first call. Thread: any.
[[nodiscard]] uint32_t fork_count();

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_ORIGIN_H_
