// Which thread is this, at the price of one address: for "is this my owner's thread?" on hot paths.
#ifndef SKUA_RPC_BASE_THREAD_MARK_H_
#define SKUA_RPC_BASE_THREAD_MARK_H_

namespace skua {

/// An address that no other living thread has.
[[nodiscard]] inline const void* this_thread_mark() {
  // Aligned as what follows it in memory: mold 1.10 else ends the part that is made read-only in a page that is not
  // there, in one program of some hundred, which then does not start.
  alignas(64) static thread_local constinit char mark = 0;
  return &mark;
}

}  // namespace skua

#endif  // SKUA_RPC_BASE_THREAD_MARK_H_
