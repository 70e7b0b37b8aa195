#include "kvstore/gateway/resp_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/inline_words.h"
#include "kvstore/gateway/redis_numbers.h"

namespace skua::kv::gateway {
namespace {

/// Reads the counts and lengths of a command in its usual form.
class UsualReader {
 public:
  explicit UsualReader(std::string_view bytes) : left_(bytes) {}

  /// "<mark>N" and a line's end of two bytes, where N has one to kDigitsMax digits, and no zero in front. Nothing:
  /// something else is there, or not all of it.
  [[nodiscard]] std::optional<size_t> number(char mark) {
    if (left_.size() < 4 || left_[0] != mark || !is_digit(left_[1])) return std::nullopt;
    auto value = static_cast<size_t>(left_[1] - '0');
    size_t at = 2;
    const size_t end = std::min(left_.size() - 1, kDigitsMax + 1);  // the byte behind CR is there, too
    for (; at < end && is_digit(left_[at]); ++at) value = value * 10 + static_cast<size_t>(left_[at] - '0');
    const bool has_zero_in_front = left_[1] == '0' && at > 2;
    if (at + 1 >= left_.size() || left_[at] != '\r' || has_zero_in_front) return std::nullopt;
    left_.remove_prefix(at + 2);
    return value;
  }
  [[nodiscard]] std::string_view left() const { return left_; }
  void skip(size_t bytes) { left_.remove_prefix(bytes); }

 private:
  static constexpr size_t kDigitsMax = 7;
  static_assert(9'999'999 < kRespArgumentBytesMax);
  static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

  std::string_view left_;
};

}  // namespace

RespParser::Found RespParser::parse(std::string_view& input, bool is_restricted) {
  is_restricted_ = is_restricted;
  if (std::exchange(is_found_, false)) arguments_.clear();
  if (expects_ == Expects::kStart && !is_restricted && take_usual(input)) {
    is_found_ = true;
    return Found::kCommand;
  }
  Found found = Found::kNothing;
  while (found == Found::kNothing && (!input.empty() || expects_ == Expects::kNothing)) {
    switch (expects_) {
      case Expects::kStart:
        // The star stays out of the line, as the line's limit does not count it.
        expects_ = input.front() == '*' ? Expects::kCount : Expects::kInline;
        if (expects_ == Expects::kCount) input.remove_prefix(1);
        break;
      case Expects::kInline: found = take_inline(input); break;
      case Expects::kCount: found = take_count(input); break;
      case Expects::kLength: found = take_length(input); break;
      case Expects::kBytes: take_bytes(input); break;
      case Expects::kLineEnd: found = take_line_end(input); break;
      case Expects::kNothing: return Found::kError;
    }
  }
  is_found_ = found == Found::kCommand;
  return found;
}

/// Takes a command that is whole and in the form that clients send: nearly all are. False: nothing was taken; the
/// careful way, state by state, tells what is there.
bool RespParser::take_usual(std::string_view& input) {
  UsualReader reader(input);
  const std::optional<size_t> count = reader.number('*');
  if (!count.has_value() || *count == 0 || *count > size_t{kRespArgumentsMax}) return false;
  size_t end = 0;
  for (size_t i = 0; i < *count; ++i) {
    const std::optional<size_t> length = reader.number('$');
    const size_t begin = input.size() - reader.left().size();
    if (!length.has_value() || *length + 2 > reader.left().size() || begin + *length > kRespCommandBytesMax) {
      arguments_.clear();
      return false;
    }
    end = begin + *length;
    arguments_.name_argument(begin, end);
    reader.skip(*length + 2);
  }
  arguments_.take(input.substr(0, end));
  input = reader.left();
  return true;
}

/// A line up to `end`, without it; `more` bytes behind `end` are taken as well. Nothing: the line is not all here, or
/// it is too long. The view is valid until the next call.
std::optional<std::string_view> RespParser::take_line(std::string_view& input, char end, size_t more) {
  if (std::exchange(is_line_whole_, false)) line_.clear();
  size_t at = input.find(end);
  if (line_.empty() && at <= kRespLineBytesMax && at + more < input.size()) {
    const std::string_view line = input.substr(0, at);
    input.remove_prefix(at + 1 + more);
    return line;
  }
  // The cut may be behind `end`: then line_ has it.
  if (const size_t seen = line_.find(end); seen != std::string::npos) {
    at = seen;
  } else if (at != std::string_view::npos) {
    at += line_.size();
  }
  constexpr size_t kWholeMax = kRespLineBytesMax + 2;
  const size_t whole = at > kRespLineBytesMax ? kWholeMax : at + 1 + more;
  const size_t taken = std::min(whole - line_.size(), input.size());
  line_.append(input.substr(0, taken));
  input.remove_prefix(taken);
  if (at > kRespLineBytesMax || line_.size() < whole) return std::nullopt;
  is_line_whole_ = true;
  return std::string_view(line_).substr(0, at);
}

/// After take_line() gave nothing. `error`: for a line that is too long.
RespParser::Found RespParser::without_line(char end, std::string_view error) {
  const bool is_too_long = line_.size() > kRespLineBytesMax && line_.find(end) > kRespLineBytesMax;
  return is_too_long ? fail(std::string(error)) : Found::kNothing;
}

RespParser::Found RespParser::take_inline(std::string_view& input) {
  std::optional<std::string_view> line = take_line(input, '\n', 0);
  if (!line.has_value()) return without_line('\n', "Protocol error: too big inline request");
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  if (!split_inline_words(*line, arguments_)) return fail("Protocol error: unbalanced quotes in request");
  expects_ = Expects::kStart;
  return arguments_.empty() ? Found::kNothing : Found::kCommand;
}

RespParser::Found RespParser::take_count(std::string_view& input) {
  const std::optional<std::string_view> line = take_line(input, '\r', 1);
  if (!line.has_value()) return without_line('\r', "Protocol error: too big mbulk count string");
  const std::optional<int64_t> count = parse_integer(*line);
  if (!count.has_value() || *count > kRespArgumentsMax) return fail("Protocol error: invalid multibulk length");
  if (is_restricted_ && *count > kRespRestrictedArgumentsMax) {
    return fail("Protocol error: unauthenticated multibulk length");
  }
  arguments_left_ = *count;
  expects_ = *count > 0 ? Expects::kLength : Expects::kStart;
  return Found::kNothing;
}

RespParser::Found RespParser::take_length(std::string_view& input) {
  const std::optional<std::string_view> line = take_line(input, '\r', 1);
  if (!line.has_value()) return without_line('\r', "Protocol error: too big bulk count string");
  const char kind = line->empty() ? '\r' : line->front();
  if (kind != '$') return fail(absl::StrCat("Protocol error: expected '$', got '", std::string(1, kind), "'"));
  const std::optional<int64_t> length = parse_integer(line->substr(1));
  if (!length.has_value() || *length < 0 || *length > kRespArgumentBytesMax) {
    return fail("Protocol error: invalid bulk length");
  }
  if (is_restricted_ && *length > kRespRestrictedArgumentBytesMax) {
    return fail("Protocol error: unauthenticated bulk length");
  }
  bytes_left_ = static_cast<size_t>(*length);
  if (arguments_.byte_count() + bytes_left_ > kRespCommandBytesMax) {
    return fail(absl::StrCat("Protocol error: a command of more than ", kRespCommandBytesMax, " bytes"));
  }
  expects_ = Expects::kBytes;
  return Found::kNothing;
}

void RespParser::take_bytes(std::string_view& input) {
  const size_t taken = std::min(bytes_left_, input.size());
  arguments_.append(input.substr(0, taken));
  input.remove_prefix(taken);
  bytes_left_ -= taken;
  if (bytes_left_ > 0) return;
  bytes_left_ = 2;
  expects_ = Expects::kLineEnd;
}

/// Any two bytes: Redis does not look at them either.
RespParser::Found RespParser::take_line_end(std::string_view& input) {
  const size_t taken = std::min(bytes_left_, input.size());
  input.remove_prefix(taken);
  bytes_left_ -= taken;
  if (bytes_left_ > 0) return Found::kNothing;
  arguments_.end_argument();
  const bool is_last = --arguments_left_ == 0;
  expects_ = is_last ? Expects::kStart : Expects::kLength;
  return is_last ? Found::kCommand : Found::kNothing;
}

RespParser::Found RespParser::fail(std::string text) {
  error_ = std::move(text);
  expects_ = Expects::kNothing;
  arguments_.clear();
  std::string().swap(line_);
  return Found::kError;
}

}  // namespace skua::kv::gateway
