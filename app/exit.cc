#include "app/exit.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <system_error>

#include "rpc/base/printable.h"

namespace skua::app {

namespace {

/// Of a line: what a user or a peer gave may be megabytes.
constexpr size_t kLineBytesMax = 4096;

[[noreturn]] void end(std::string_view program, std::string_view message, int code) {
  std::fflush(stdout);
  std::fputs(error_line(program, message).c_str(), stderr);
  std::exit(code);  // NOLINT(concurrency-mt-unsafe): for mains, before threads
}

/// Why standard output takes nothing; 0 if it does by now. Costs a line break where it does.
int error_of_standard_output() {
  errno = 0;
  return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : 0;
}

}  // namespace

std::string error_line(std::string_view program, std::string_view message) {
  std::string text(message);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  return std::string(program) + ": " + printable(text, kLineBytesMax) + "\n";
}

void fail_usage(std::string_view program, std::string_view message) {
  end(program, message, kExitUsage);
}

void fail(std::string_view program, std::string_view message) {
  end(program, message, kExitFailure);
}

int finish_output(std::string_view program) {
  // Both are tried: a program may have written by either. What failed before left its mark in the stream, but no
  // reason.
  const bool lost_before = std::ferror(stdout) != 0 || !std::cout;
  errno = 0;
  std::cout.flush();
  const bool cout_lost = !std::cout;
  const int cout_error = errno;
  errno = 0;
  const bool stdout_lost = std::fflush(stdout) != 0;
  int error = stdout_lost ? errno : cout_lost ? cout_error : 0;
  if (!lost_before && !cout_lost && !stdout_lost) return kExitOk;
  if (error == 0) error = error_of_standard_output();
  if (error == EPIPE) return kExitFailure;
  const std::string reason = error == 0 ? "some of it was lost" : std::generic_category().message(error);
  std::fputs(error_line(program, "cannot write to standard output: " + reason).c_str(), stderr);
  return kExitFailure;
}

}  // namespace skua::app
