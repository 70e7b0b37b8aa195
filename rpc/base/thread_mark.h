// Which thread is this, at the price of one address: for "is this my owner's thread?" on hot paths.
#ifndef SKUA_RPC_BASE_THREAD_MARK_H_
#define SKUA_RPC_BASE_THREAD_MARK_H_

namespace skua {

/// An address that no other living thread has.
[[nodiscard]] inline const void* this_thread_mark() {
  static thread_local constinit char mark = 0;
  return &mark;
}

}  // namespace skua

#endif  // SKUA_RPC_BASE_THREAD_MARK_H_
