// register_client: reads or writes one key, one operation after the other, and tells of each one when it began, when it
// ended and what version it had. fault_scenarios_test.py holds several of them against each other.
//
//   register_client --control HOST:PORT --table T --key K --do get|put [--timeout-ms N] [--pause-us N]
//                   [--cert FILE --private-key FILE --ca FILE]
//
// A line on stdout for each operation, times in nanoseconds of the machine's monotonic clock:
//
//   get 1000 2000 OK 17                  put 3000 4000 OK 18
//   get 5000 9000 DEADLINE_EXCEEDED 0    put 5000 9000 MAYBE 0          MAYBE: it failed and may have been applied
//
// Ends when stdin does.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client.h"

namespace skua::kv {
namespace {

struct Arguments {
  std::string control;
  std::string table;
  std::string key;
  bool puts = false;
  std::chrono::milliseconds timeout{20'000};
  std::chrono::microseconds pause{2'000};
  control::CredentialFiles credentials;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--control") {
      out.control = value;
    } else if (name == "--table") {
      out.table = value;
    } else if (name == "--key") {
      out.key = value;
    } else if (name == "--do" && (value == "get" || value == "put")) {
      out.puts = value == "put";
    } else if (name == "--timeout-ms") {
      out.timeout = std::chrono::milliseconds(std::strtoull(value.c_str(), nullptr, 10));
    } else if (name == "--pause-us") {
      out.pause = std::chrono::microseconds(std::strtoull(value.c_str(), nullptr, 10));
    } else if (name == "--cert") {
      out.credentials.certificate = value;
    } else if (name == "--private-key") {
      out.credentials.key = value;
    } else if (name == "--ca") {
      out.credentials.authorities = value;
    } else {
      return false;
    }
  }
  return !out.control.empty() && !out.table.empty() && !out.key.empty() && argc % 2 == 1;
}

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

bool stdin_ended() {
  pollfd in = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&in, 1, 0) > 0;
}

/// One put or get: what both tell.
Outcome once(const Arguments& arguments, Client& client, uint64_t number) {
  if (!arguments.puts) return static_cast<const Outcome&>(client.get(arguments.table, arguments.key));
  return static_cast<const Outcome&>(client.put(arguments.table, arguments.key, absl::StrCat(number)));
}

void run(const Arguments& arguments, Client& client) {
  for (uint64_t number = 0; !stdin_ended(); ++number) {
    const int64_t began = now_ns();
    const Outcome outcome = once(arguments, client, number);
    const int64_t ended = now_ns();
    const std::string code = outcome.ok()                    ? "OK"
                             : outcome.may_have_been_applied ? "MAYBE"
                                                             : absl::StatusCodeToString(outcome.status.code());
    std::printf("%s %" PRId64 " %" PRId64 " %s %" PRIu64 "\n", arguments.puts ? "put" : "get", began, ended,
                code.c_str(), outcome.version);
    std::fflush(stdout);
    if (!outcome.ok()) std::fprintf(stderr, "%s\n", outcome.status.ToString().c_str());
    std::this_thread::sleep_for(arguments.pause);
  }
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  skua::kv::Arguments arguments;
  if (!skua::kv::parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: register_client --control HOST:PORT --table NAME --key KEY --do get|put [--timeout-ms N] "
                 "[--pause-us N] [--cert FILE --private-key FILE --ca FILE]\n");
    return 2;
  }
  auto client = skua::kv::Client::create(
      {.control_address = arguments.control, .credentials = arguments.credentials, .timeout = arguments.timeout});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 2;
  }
  skua::kv::run(arguments, **client);
  return 0;
}
