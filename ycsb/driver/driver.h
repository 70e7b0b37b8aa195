// The driver program, without its main(): reads the command line, runs the phase, prints the
// report.
#ifndef SKUA_YCSB_DRIVER_DRIVER_H_
#define SKUA_YCSB_DRIVER_DRIVER_H_

#include <ostream>
#include <span>
#include <string>

#include "ycsb/bindings/binding.h"
#include "ycsb/driver/command_line.h"

namespace skua::ycsb {

inline constexpr int kExitFine = 0;
inline constexpr int kExitFailed = 1;         // the store could not be reached or was lost, or most operations failed
inline constexpr int kExitUsage = 2;          // the command line or a property is wrong
inline constexpr int kExitInterrupted = 130;  // SIGINT or SIGTERM; the report is printed all the same

/// `arguments` without the program's name. Returns the exit code; whether `out` took everything is for the caller to
/// ask. While it runs, SIGINT and SIGTERM are blocked in the calling thread and end the run in good order. Thread: one
/// at a time.
int drive(std::span<const std::string> arguments, std::span<const BindingEntry> bindings,
          const Surroundings& surroundings, std::ostream& out, std::ostream& err);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_DRIVER_DRIVER_H_
