// How a Skua program ends: three exit codes, and one line that says why.
#ifndef SKUA_APP_EXIT_H_
#define SKUA_APP_EXIT_H_

#include <string_view>

namespace skua::app {

inline constexpr int kExitOk = 0;
/// The program was understood but could not do its work (a server is away, a disk is full).
inline constexpr int kExitFailure = 1;
/// Usage or configuration: unknown option, bad value, port in use, data directory locked or
/// foreign. Starting again without changing something cannot help.
inline constexpr int kExitUsage = 2;

/// Prints `program: message` as exactly one line (line breaks become blanks) on stderr and exits
/// with kExitUsage. For mains, before threads are started. `message` says what is wrong and the way
/// out.
[[noreturn]] void fail_usage(std::string_view program, std::string_view message);

/// The same with kExitFailure.
[[noreturn]] void fail(std::string_view program, std::string_view message);

}  // namespace skua::app

#endif  // SKUA_APP_EXIT_H_
