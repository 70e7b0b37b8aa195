// How a Skua program ends: three exit codes, and one line that says why.
#ifndef SKUA_APP_EXIT_H_
#define SKUA_APP_EXIT_H_

#include <string>
#include <string_view>

namespace skua::app {

inline constexpr int kExitOk = 0;
/// The program was understood but could not do its work (a server is away, a disk is full).
inline constexpr int kExitFailure = 1;
/// Usage or configuration: unknown option, bad value, port in use, data directory locked or
/// foreign. Starting again without changing something cannot help.
inline constexpr int kExitUsage = 2;

/// Prints `program: message` as exactly one line (line breaks become blanks, other characters that a terminal would
/// obey become \xNN; what is long is cut) on stderr and exits with kExitUsage. For mains, before threads are started.
/// `message` says what is wrong and the way out.
[[noreturn]] void fail_usage(std::string_view program, std::string_view message);

/// The same with kExitFailure.
[[noreturn]] void fail(std::string_view program, std::string_view message);

/// `program: message` and a line break, as fail() prints it.
[[nodiscard]] std::string error_line(std::string_view program, std::string_view message);

/// The last thing a main does that has written to standard output, by stdio or by std::cout: flushes both. kExitOk if
/// all that was ever written there arrived; else kExitFailure, after one line on stderr: `program: cannot write to
/// standard output: No space left on device`. A reader that went away (EPIPE) needs no line.
///
///   return code == 0 ? app::finish_output(kProgram) : code;
[[nodiscard]] int finish_output(std::string_view program);

}  // namespace skua::app

#endif  // SKUA_APP_EXIT_H_
