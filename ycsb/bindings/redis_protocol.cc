#include "ycsb/bindings/redis_protocol.h"

#include <array>
#include <charconv>

#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

void append_header(SendBuffer& out, char type, size_t number) {
  std::array<char, 24> text;
  text[0] = type;
  char* end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out.append({text.data(), static_cast<size_t>(end - text.data())});
}

/// Headers are shorter; an error carries a sentence.
constexpr size_t kLineMax = size_t{64} << 10;
constexpr int64_t kStringMax = 2 * int64_t{kRecordBytesMax};
constexpr int64_t kElementsMax = int64_t{1} << 30;
constexpr std::string_view kEnd = "\r\n";

}  // namespace

void RedisCommands::begin(size_t argument_count) {
  append_header(buffer_, '*', argument_count);
}

void RedisCommands::argument(std::string_view text) {
  append_header(buffer_, '$', text.size());
  buffer_.append(text);
  buffer_.append("\r\n");
}

void RedisCommands::argument(int64_t number) {
  std::array<char, 24> text;
  const char* end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  argument({text.data(), static_cast<size_t>(end - text.data())});
}

void RedisReplies::take_string(std::string_view text, RedisReply::Kind kind, bool keep_elements) {
  if (top_) {
    reply_.kind = kind;
    reply_.text.assign(text);
  } else if (keep_elements) {
    reply_.text.append(text);
    reply_.ends.push_back(reply_.text.size());
  }
}

void RedisReplies::take_nil(bool keep_elements) {
  if (top_) {
    reply_.kind = RedisReply::Kind::kNil;
    return;
  }
  ++reply_.nil_count;
  if (keep_elements) reply_.ends.push_back(reply_.text.size());
}

RedisReplies::Progress RedisReplies::parse_string(size_t header_size, int64_t size, bool keep_elements) {
  if (size < -1 || size > kStringMax) return Progress::kBroken;
  if (size == -1) {
    take_nil(keep_elements);
    buffer_.consume(header_size);
    return Progress::kReply;
  }
  const auto length = static_cast<size_t>(size);
  const std::string_view unparsed = buffer_.unparsed();
  wanted_ = header_size + length + kEnd.size();
  if (unparsed.size() < wanted_) return Progress::kNeedMore;
  if (unparsed.substr(header_size + length, kEnd.size()) != kEnd) return Progress::kBroken;
  take_string(unparsed.substr(header_size, length), RedisReply::Kind::kString, keep_elements);
  buffer_.consume(wanted_);
  return Progress::kReply;
}

/// A reply, or an element of one (for arrays their header).
RedisReplies::Progress RedisReplies::parse_one(bool keep_elements) {
  const std::string_view unparsed = buffer_.unparsed();
  if (unparsed.empty() || unparsed.size() < wanted_) return Progress::kNeedMore;
  wanted_ = 0;
  const char type = unparsed.front();
  if (std::string_view("$*:+-").find(type) == std::string_view::npos) return Progress::kBroken;
  const size_t line_end = unparsed.substr(0, kLineMax).find('\r');
  if (line_end == std::string_view::npos || line_end + 1 == unparsed.size())
    return unparsed.size() < kLineMax ? Progress::kNeedMore : Progress::kBroken;
  if (unparsed[line_end + 1] != '\n') return Progress::kBroken;
  const size_t header_size = line_end + kEnd.size();
  const std::string_view line = unparsed.substr(1, line_end - 1);
  if (type == '+' || type == '-') {
    take_string(line, type == '+' ? RedisReply::Kind::kStatus : RedisReply::Kind::kError, keep_elements);
    buffer_.consume(header_size);
    return Progress::kReply;
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end != line.data() + line.size()) return Progress::kBroken;
  if (type == '$') return parse_string(header_size, number, keep_elements);
  if (type == '*' && (number < -1 || number > kElementsMax)) return Progress::kBroken;
  buffer_.consume(header_size);
  if (type == '*' && number == -1) {
    take_nil(keep_elements);
  } else if (type == '*') {
    pieces_left_ += static_cast<uint64_t>(number);
    if (top_) {
      reply_.kind = RedisReply::Kind::kArray;
      reply_.element_count = static_cast<size_t>(number);
    }
  } else if (top_) {
    reply_.kind = RedisReply::Kind::kInteger;
    reply_.integer = number;
  }
  return Progress::kReply;
}

/// Takes whole strings off the buffer that nobody wants to see: most of what a read's reply is made of. Stops at
/// whatever is anything else, for parse_one to look at.
void RedisReplies::skip_strings() {
  constexpr size_t kDigitsMax = 10;
  const std::string_view unparsed = buffer_.unparsed();
  const size_t size = unparsed.size();
  size_t begin = 0;
  for (; pieces_left_ != 0 && begin < size && unparsed[begin] == '$'; --pieces_left_) {
    const size_t digits = begin + 1;
    size_t at = digits;
    size_t length = 0;
    for (; at < size && at - digits < kDigitsMax && unparsed[at] >= '0' && unparsed[at] <= '9'; ++at)
      length = length * 10 + static_cast<size_t>(unparsed[at] - '0');
    const size_t end = at + kEnd.size() + length;
    if (at == digits || end + kEnd.size() > size) break;
    if (unparsed[at] != '\r' || unparsed[at + 1] != '\n' || unparsed[end] != '\r' || unparsed[end + 1] != '\n') break;
    begin = end + kEnd.size();
  }
  buffer_.consume(begin);
}

RedisReplies::Progress RedisReplies::next(bool keep_elements) {
  if (pieces_left_ == 0) {
    reply_.kind = RedisReply::Kind::kNone;
    reply_.integer = 0;
    reply_.element_count = reply_.nil_count = 0;
    reply_.text.clear();
    reply_.ends.clear();
    pieces_left_ = 1;
    top_ = true;
  }
  while (pieces_left_ != 0) {
    const Progress progress = parse_one(keep_elements);
    if (progress != Progress::kReply) return progress;
    --pieces_left_;
    top_ = false;
    wanted_ = 0;
    if (!keep_elements) skip_strings();
  }
  return Progress::kReply;
}

}  // namespace skua::ycsb
