#include "ycsb/bindings/memcached_protocol.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

/// Error lines carry a sentence; value lines are shorter.
constexpr size_t kLineMax = 2048;
/// A row of the largest record, with its names and lengths.
constexpr size_t kValueMax = 2 * kRecordBytesMax;
constexpr std::string_view kEnd = "\r\n";

class Decimal {
 public:
  explicit Decimal(uint64_t number)
      : size_(
            static_cast<size_t>(std::to_chars(text_.data(), text_.data() + text_.size(), number).ptr - text_.data())) {}
  [[nodiscard]] std::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, 20> text_;
  size_t size_;
};

}  // namespace

bool is_memcached_key(std::string_view key) {
  return !key.empty() && key.size() <= kMemcachedKeyMax &&
         std::all_of(key.begin(), key.end(), [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
}

void MemcachedCommands::get(std::string_view key, bool with_version) {
  buffer_.append("mg ");
  buffer_.append(key);
  buffer_.append(with_version ? " v c\r\n" : " v\r\n");
}

void MemcachedCommands::begin_set(std::string_view key, size_t size) {
  buffer_.append("ms ");
  buffer_.append(key);
  buffer_.append(" ");
  buffer_.append(Decimal(size).text());
}

void MemcachedCommands::set(std::string_view key, std::string_view value, StoreIf condition) {
  begin_set(key, value.size());
  buffer_.append(condition == StoreIf::kPresent ? " MR\r\n" : kEnd);
  buffer_.append(value);
  buffer_.append(kEnd);
}

void MemcachedCommands::set_version(std::string_view key, std::string_view value, uint64_t version) {
  begin_set(key, value.size());
  buffer_.append(" C");
  buffer_.append(Decimal(version).text());
  buffer_.append(kEnd);
  buffer_.append(value);
  buffer_.append(kEnd);
}

void MemcachedCommands::remove(std::string_view key) {
  buffer_.append("md ");
  buffer_.append(key);
  buffer_.append(kEnd);
}

/// VA size flags
bool MemcachedReplies::parse_value_line(std::string_view line, size_t& size) {
  const char* const begin = line.data();
  const char* const end = begin + line.size();
  const auto [after, error] = std::from_chars(begin, end, size);
  if (error != std::errc() || size > kValueMax) return false;
  for (std::string_view flags(after, static_cast<size_t>(end - after)); flags.size() > 2; flags.remove_prefix(1)) {
    if (!flags.starts_with(" c")) continue;
    return std::from_chars(flags.data() + 2, end, reply_.version).ec == std::errc();
  }
  return true;
}

MemcachedReplies::Progress MemcachedReplies::next() {
  const std::string_view unparsed = buffer_.unparsed();
  if (unparsed.size() < wanted_) return Progress::kNeedMore;
  const size_t line_end = unparsed.substr(0, kLineMax).find(kEnd);
  if (line_end == std::string_view::npos) return unparsed.size() < kLineMax ? Progress::kNeedMore : Progress::kBroken;
  const std::string_view line = unparsed.substr(0, line_end);
  size_t used = line_end + kEnd.size();
  reply_ = {};
  if (line.starts_with("VA ")) {
    size_t size = 0;
    if (!parse_value_line(line.substr(3), size)) return Progress::kBroken;
    wanted_ = used + size + kEnd.size();
    if (unparsed.size() < wanted_) return Progress::kNeedMore;
    reply_.kind = MemcachedReply::Kind::kValue;
    reply_.text = unparsed.substr(used, size);
    if (unparsed.substr(used + size, kEnd.size()) != kEnd) return Progress::kBroken;
    used = wanted_;
  } else {
    using Kind = MemcachedReply::Kind;
    struct Answer {
      std::string_view word;
      Kind kind;
    };
    constexpr std::array<Answer, 5> kAnswers = {{{"HD", Kind::kDone},
                                                 {"EN", Kind::kMiss},
                                                 {"NS", Kind::kNotStored},
                                                 {"EX", Kind::kExists},
                                                 {"NF", Kind::kNotFound}}};
    const auto* const answer = std::find_if(kAnswers.begin(), kAnswers.end(),
                                            [&](const Answer& known) { return line.substr(0, 2) == known.word; });
    if (answer != kAnswers.end() && (line.size() == 2 || line[2] == ' ')) {
      reply_.kind = answer->kind;
    } else if (line == "ERROR" || line.starts_with("CLIENT_ERROR ") || line.starts_with("SERVER_ERROR ")) {
      reply_.kind = Kind::kError;
      reply_.text = line;
    } else {
      return Progress::kBroken;
    }
  }
  buffer_.consume(used);
  wanted_ = 0;
  return Progress::kReply;
}

}  // namespace skua::ycsb
