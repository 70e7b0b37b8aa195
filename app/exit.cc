#include "app/exit.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace skua::app {

namespace {

[[noreturn]] void end(std::string_view program, std::string_view message, int code) {
  std::string line = std::string(program) + ": " + std::string(message);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  line += '\n';
  std::fflush(stdout);
  std::fputs(line.c_str(), stderr);
  std::exit(code);  // NOLINT(concurrency-mt-unsafe): for mains, before threads
}

}  // namespace

void fail_usage(std::string_view program, std::string_view message) {
  end(program, message, kExitUsage);
}

void fail(std::string_view program, std::string_view message) {
  end(program, message, kExitFailure);
}

}  // namespace skua::app
