#include "kvstore/gateway/memcached_parser.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "kvstore/gateway/memcached_errors.h"
#include "kvstore/gateway/memcached_line.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

constexpr std::string_view kBlockEnd = "\r\n";
/// Blanks in front of a long line.
constexpr size_t kLeadingBlanksMax = 100;

/// The line may be longer than others. `beginning`: its first bytes, more than kMemcachedLineBytesMax.
bool may_be_long(std::string_view beginning) {
  const size_t blanks = std::min(beginning.find_first_not_of(' '), beginning.size());
  const std::string_view words = beginning.substr(blanks);
  return blanks <= kLeadingBlanksMax && (words.starts_with("get ") || words.starts_with("gets ") ||
                                         words.starts_with("gat ") || words.starts_with("gats "));
}

bool is_too_long(std::string_view line, bool is_restricted) {
  if (line.size() <= kMemcachedLineBytesMax) return false;
  return is_restricted || line.size() > kMemcachedKeysLineBytesMax ||
         !may_be_long(line.substr(0, kMemcachedLineBytesMax));
}

/// What a bad encoding of a key is called differs from command to command.
std::string_view bad_key_error(std::string_view command) {
  if (command == "md" || command == "ma") return memcached_errors::kInvalidOrDuplicateFlag;
  return command == "me" ? memcached_errors::kBadFormat : memcached_errors::kBadKeyCode;
}

}  // namespace

MemcachedParser::Found MemcachedParser::parse(std::string_view& input, bool is_restricted) {
  is_restricted_ = is_restricted;
  if (std::exchange(is_found_, false)) arguments_.clear();
  Found found = Found::kNothing;
  while (found == Found::kNothing && (!input.empty() || expects_ == Expects::kNothing)) {
    switch (expects_) {
      case Expects::kLine: found = take_line(input); break;
      case Expects::kBlock: take_block(input); break;
      case Expects::kBlockEnd: found = take_block_end(input); break;
      case Expects::kSkipped: skip(input); break;
      case Expects::kNothing: return Found::kBroken;
    }
  }
  is_found_ = found == Found::kCommand;
  return found;
}

MemcachedParser::Found MemcachedParser::take_line(std::string_view& input) {
  const size_t end = input.find('\n');
  if (end == std::string_view::npos || !line_.empty()) {
    // Bytes beyond the limit are not kept.
    const size_t room = kMemcachedKeysLineBytesMax + 1 - std::min(line_.size(), kMemcachedKeysLineBytesMax);
    const size_t taken = std::min(std::min(end, input.size()), room);
    line_.append(input.substr(0, taken));
    input.remove_prefix(taken);
    if (is_too_long(line_, is_restricted_)) return fail(memcached_errors::kLongLine);
    if (input.empty()) return Found::kNothing;
    input.remove_prefix(1);
    return take_words(std::exchange(line_, {}));
  }
  const std::string_view line = input.substr(0, end);
  input.remove_prefix(end + 1);
  return is_too_long(line, is_restricted_) ? fail(memcached_errors::kLongLine) : take_words(line);
}

MemcachedParser::Found MemcachedParser::take_words(std::string_view line) {
  if (line.size() > 1 && line.back() == '\r') line.remove_suffix(1);
  const std::vector<std::string_view> words = split_memcached_line(line);
  if (words.empty() || words[0].size() < 2) return refuse(memcached_errors::kUnknown);
  BlockLine block;
  if (announces_block(words[0])) {
    block = read_block_line(words);
    is_silent_ = block.is_silent;
    if (!block.block_bytes.has_value()) return refuse(block.error);
  }
  std::string key;
  const bool is_encoded = has_encoded_key(words);
  const bool is_bad_code = is_encoded && (!absl::Base64Unescape(absl_view(words[1]), &key) || key.empty());
  if (is_bad_code && block.error.empty()) block.error = bad_key_error(words[0]);
  if (is_restricted_ && block.block_bytes.value_or(0) > kMemcachedLineBytesMax) {
    return fail(memcached_errors::kNotAuthenticated);
  }
  if (block.block_bytes.has_value()) bytes_left_ = *block.block_bytes;
  if (!block.error.empty()) {
    if (block.block_bytes.has_value()) {
      expects_ = Expects::kSkipped;
      bytes_left_ += kBlockEnd.size();
    }
    return refuse(block.error);
  }
  for (size_t i = 0; i < words.size(); ++i) {
    arguments_.append(i == 1 && is_encoded ? std::string_view(key) : words[i]);
    arguments_.end_argument();
  }
  if (!block.block_bytes.has_value()) return Found::kCommand;
  expects_ = Expects::kBlock;
  return Found::kNothing;
}

void MemcachedParser::take_block(std::string_view& input) {
  const size_t taken = std::min(bytes_left_, input.size());
  arguments_.append(input.substr(0, taken));
  input.remove_prefix(taken);
  bytes_left_ -= taken;
  if (bytes_left_ > 0) return;
  bytes_left_ = kBlockEnd.size();
  expects_ = Expects::kBlockEnd;
}

MemcachedParser::Found MemcachedParser::take_block_end(std::string_view& input) {
  is_end_bad_ = is_end_bad_ || input.front() != kBlockEnd[kBlockEnd.size() - bytes_left_];
  input.remove_prefix(1);
  if (--bytes_left_ > 0) return Found::kNothing;
  expects_ = Expects::kLine;
  arguments_.end_argument();
  if (!std::exchange(is_end_bad_, false)) {
    is_silent_ = false;
    return Found::kCommand;
  }
  arguments_.clear();
  return refuse(memcached_errors::kBadBlock);
}

void MemcachedParser::skip(std::string_view& input) {
  const size_t taken = std::min(bytes_left_, input.size());
  input.remove_prefix(taken);
  bytes_left_ -= taken;
  if (bytes_left_ == 0) expects_ = Expects::kLine;
}

MemcachedParser::Found MemcachedParser::refuse(std::string_view error) {
  error_ = std::exchange(is_silent_, false) ? std::string_view() : error;
  return Found::kRefused;
}

MemcachedParser::Found MemcachedParser::fail(std::string_view error) {
  error_ = error;
  expects_ = Expects::kNothing;
  std::string().swap(line_);
  return Found::kBroken;
}

}  // namespace skua::kv::gateway
