// One event, one line.
//
//   2026-03-01T12:00:00.123Z info  worker: shard opened shard=3 bytes=4096 took_ms=12.5
//   {"time":"2026-03-01T12:00:00.123Z","level":"info","component":"worker","message":"shard
//   opened",
//    "shard":3,"bytes":4096,"took_ms":12.5}                                  (one line as well)
//
// Lines that come too often are left out and counted (log_throttle.h); long ones are cut.
//
// A Logger is made once in main and handed down, by value: copies are cheap, share the sink, and
// may carry their own component. There is no global logger. Libraries that must not see app/ take a
// callback, which main binds to a Logger.
#ifndef SKUA_APP_LOG_H_
#define SKUA_APP_LOG_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "app/log_throttle.h"

namespace skua::app {

class Command;

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

/// What `--log-level` and `--log-format` set.
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  LogThrottle::Limits throttle{};
};

/// Declares `--log-level` and `--log-format` on `command`, bound to `options`, which must outlive
/// the parsing.
void add_log_options(Command& command, LogOptions* options);

/// A key and its value. Views: only for the duration of the logging call.
struct LogField {
  using Value = std::variant<std::string_view, int64_t, uint64_t, double, bool>;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  template <std::signed_integral T>
  LogField(std::string_view k, T v) : key(k), value(static_cast<int64_t>(v)) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogField(std::string_view k, T v) : key(k), value(static_cast<uint64_t>(v)) {}

  std::string_view key;
  Value value;
};

using LogFields = std::initializer_list<LogField>;

/// Thread: any, concurrently; lines never interleave. A call below the level costs one comparison
/// (arguments are evaluated, so ask enabled() before computing them). Each line is one write.
class Logger {
 public:
  /// Lines go to stderr.
  explicit Logger(LogOptions options);
  /// Lines, each with its line break, go to `sink`, one call at a time.
  Logger(LogOptions options, std::function<void(std::string_view line)> sink);
  ~Logger();
  Logger(const Logger&);
  Logger& operator=(const Logger&);

  /// The same sink, speaking for `component` ("worker", "grpc").
  [[nodiscard]] Logger with_component(std::string component) const;

  [[nodiscard]] bool enabled(LogLevel level) const { return level >= level_; }
  void log(LogLevel level, std::string_view message, LogFields fields = {}) const;

  void debug(std::string_view message, LogFields fields = {}) const { log(LogLevel::kDebug, message, fields); }
  void info(std::string_view message, LogFields fields = {}) const { log(LogLevel::kInfo, message, fields); }
  void warning(std::string_view message, LogFields fields = {}) const { log(LogLevel::kWarning, message, fields); }
  void error(std::string_view message, LogFields fields = {}) const { log(LogLevel::kError, message, fields); }

 private:
  class Sink;

  LogLevel level_;
  LogFormat format_;
  std::string component_ = "main";
  std::shared_ptr<Sink> sink_;
};

}  // namespace skua::app

#endif  // SKUA_APP_LOG_H_
