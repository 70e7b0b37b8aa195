// Identifies the calling thread by an address, cheaply: for checks of the owner's thread on hot paths.
#ifndef SKUA_RPC_BASE_THREAD_MARK_H_
#define SKUA_RPC_BASE_THREAD_MARK_H_

namespace skua {

/// An address that no other living thread has.
[[nodiscard]] inline const void* this_thread_mark() {
  // Aligned like what follows it in memory. Otherwise mold 1.10 lets the part that is made read-only end in a page that
  // does not exist, in about one program of a hundred; that program does not start.
  alignas(64) static thread_local constinit char mark = 0;
  return &mark;
}

}  // namespace skua

#endif  // SKUA_RPC_BASE_THREAD_MARK_H_
