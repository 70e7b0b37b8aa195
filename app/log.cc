// The only place that sees spdlog: it stamps time and level, filters, throttles, and writes the line.
#include "app/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "app/config.h"
#include "app/value_text.h"
#include "rpc/base/clock.h"
#include "rpc/base/printable.h"

namespace skua::app {

namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v";
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(std::function<void(std::string_view)> function) : function_(std::move(function)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    function_(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

  const std::function<void(std::string_view)> function_;
};

// One write(2) for each line, so that lines of several processes in one file stay whole.
void write_to_stderr(std::string_view line) {
  while (!line.empty()) {
    const ssize_t wrote = write(STDERR_FILENO, line.data(), line.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return;
    line.remove_prefix(static_cast<size_t>(wrote));
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          absl::StrAppend(&out, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

// A value that needs no quotes to stay one word.
bool is_plain(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == '\\' || c == 0x7f) {
      return false;
    }
  }
  return true;
}

/// Of a message or a value. Some come from peers, who may send megabytes.
constexpr size_t kTextBytesMax = 4096;

/// As it may be printed: not too long, and UTF-8, which JSON must be; other bytes become \xNN.
std::string_view fit(std::string_view text, std::string& room) {
  const std::string_view begin = text.substr(0, kTextBytesMax);
  if (begin.size() == text.size() && is_utf8(text)) return text;
  room = printable(begin);
  if (begin.size() < text.size()) absl::StrAppend(&room, "... (", text.size(), " bytes)");
  return room;
}

void append_value(std::string& out, const LogField::Value& value, bool json) {
  if (const auto* whole = std::get_if<std::string_view>(&value)) {
    std::string room;
    const std::string_view text = fit(*whole, room);
    if (!json && is_plain(text)) {
      absl::StrAppend(&out, absl::string_view(text.data(), text.size()));
    } else {
      append_json_string(out, text);
    }
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    absl::StrAppend(&out, *integer);
  } else if (const auto* natural = std::get_if<uint64_t>(&value)) {
    absl::StrAppend(&out, *natural);
  } else if (const auto* real = std::get_if<double>(&value)) {
    // JSON has no nan or inf.
    const std::string number = format_double(*real);
    if (json && number.find_first_of("in") != std::string::npos) {
      append_json_string(out, number);
    } else {
      out += number;
    }
  } else {
    out += std::get<bool>(value) ? "true" : "false";
  }
}

// A message is a sentence, not a record: control characters would break the line it stands on.
void append_message(std::string& out, std::string_view message) {
  // Terminals obey these, and U+0080 to U+009F (two bytes in UTF-8) as well.
  for (size_t i = 0; i < message.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    const auto next = static_cast<unsigned char>(i + 1 < message.size() ? message[i + 1] : 0);
    const bool is_c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    out += byte < 0x20 || byte == 0x7f || is_c1 ? ' ' : message[i];
    i += is_c1 ? 1 : 0;
  }
}

std::string text_body(const std::string& component, std::string_view message, LogFields fields) {
  std::string body = component + ": ";
  append_message(body, message);
  for (const LogField& field : fields) {
    absl::StrAppend(&body, " ", absl::string_view(field.key.data(), field.key.size()), "=");
    append_value(body, field.value, false);
  }
  return body;
}

std::string json_body(const std::string& component, std::string_view message, LogFields fields) {
  std::string body = "\"component\":";
  append_json_string(body, component);
  body += ",\"message\":";
  append_json_string(body, message);
  for (const LogField& field : fields) {
    body += ',';
    append_json_string(body, field.key);
    body += ':';
    append_value(body, field.value, true);
  }
  return body;
}

}  // namespace

class Logger::Sink {
 public:
  Sink(const LogOptions& options, std::function<void(std::string_view)> function)
      : logger_("skua", std::make_shared<FunctionSink>(std::move(function))), throttle_(options.throttle) {
    logger_.set_level(spdlog_level(options.level));
    logger_.set_formatter(std::make_unique<spdlog::pattern_formatter>(
        options.format == LogFormat::kJson ? kJsonPattern : kTextPattern, spdlog::pattern_time_type::utc, "\n"));
  }

  void write(LogLevel level, const std::string& body) { logger_.log(spdlog_level(level), spdlog::string_view_t(body)); }
  std::optional<uint64_t> admit(std::string_view message) {
    const std::lock_guard lock(mutex_);
    return throttle_.admit(message, clock_.now_ns());
  }

 private:
  spdlog::logger logger_;
  const SteadyClock clock_;
  std::mutex mutex_;
  LogThrottle throttle_;
};

void add_log_options(Command& command, LogOptions* options) {
  command
      .add_choice<LogLevel>("log-level", &options->level,
                            {{"debug", LogLevel::kDebug},
                             {"info", LogLevel::kInfo},
                             {"warning", LogLevel::kWarning},
                             {"error", LogLevel::kError}},
                            "Log what is at least this important.")
      .value_name("LEVEL");
  command.add_choice<LogFormat>("log-format", &options->format,
                                {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
                                "How log lines on stderr look.");
}

Logger::Logger(LogOptions options) : Logger(options, write_to_stderr) {}

Logger::Logger(LogOptions options, std::function<void(std::string_view line)> sink)
    : level_(options.level), format_(options.format), sink_(std::make_shared<Sink>(options, std::move(sink))) {}

Logger::~Logger() = default;
Logger::Logger(const Logger&) = default;
Logger& Logger::operator=(const Logger&) = default;

Logger Logger::with_component(std::string component) const {
  Logger logger = *this;
  logger.component_ = std::move(component);
  return logger;
}

void Logger::log(LogLevel level, std::string_view message, LogFields fields) const {
  if (!enabled(level)) return;
  const std::optional<uint64_t> left_out = sink_->admit(message);
  if (!left_out.has_value()) return;
  const auto body_of = format_ == LogFormat::kJson ? json_body : text_body;
  if (*left_out > 0) {
    sink_->write(level, body_of(component_, "lines like the next one were left out", {{"lines", *left_out}}));
  }
  std::string room;
  sink_->write(level, body_of(component_, fit(message, room), fields));
}

}  // namespace skua::app
