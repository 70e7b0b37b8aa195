// SKUA_CHECK: programmer errors end the process with a message, in every build.
//
// Use it only for invariants of our own code, and for misuse of an interface by the linking program. Bytes from a peer,
// a disk or a user must not reach a check: they are parsed, and refused with a Status or a drop counter.
#ifndef SKUA_RPC_BASE_CHECK_H_
#define SKUA_RPC_BASE_CHECK_H_

namespace skua {

/// Prints `file:line: what: detail` to stderr and aborts. Thread: any.
[[noreturn]] void check_failed(const char* file, int line, const char* what, const char* detail);

}  // namespace skua

/// Aborts with `detail` (a C string that says what the caller did wrong) unless `condition` holds.
#define SKUA_CHECK(condition, detail)                                                  \
  do {                                                                                 \
    if (!(condition)) [[unlikely]] {                                                   \
      ::skua::check_failed(__FILE__, __LINE__, "check failed: " #condition, (detail)); \
    }                                                                                  \
  } while (false)

#endif  // SKUA_RPC_BASE_CHECK_H_
