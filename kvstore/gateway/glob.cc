#include "kvstore/gateway/glob.h"

#include <algorithm>

namespace skua::kv::gateway {
namespace {

/// One element of a pattern that stands for one byte, and how long the element is.
struct Element {
  bool matches;
  size_t size;
};

/// [...]: without a closing bracket the set goes on to the pattern's end, as in Redis.
Element match_set(std::string_view pattern, unsigned char byte) {
  size_t at = 1;
  const bool is_negated = at < pattern.size() && pattern[at] == '^';
  if (is_negated) ++at;
  bool is_in = false;
  for (; at < pattern.size() && pattern[at] != ']'; ++at) {
    const auto one = [&](size_t i) { return static_cast<unsigned char>(pattern[i]); };
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      ++at;
      is_in |= one(at) == byte;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      const auto [low, high] = std::minmax({one(at), one(at + 2)});
      is_in |= low <= byte && byte <= high;
      at += 2;
    } else {
      is_in |= one(at) == byte;
    }
  }
  return {is_in != is_negated, std::min(at + 1, pattern.size())};
}

/// `pattern` is not empty and does not begin with a star.
Element match_element(std::string_view pattern, unsigned char byte) {
  switch (pattern.front()) {
    case '?': return {true, 1};
    case '[': return match_set(pattern, byte);
    case '\\':
      if (pattern.size() >= 2) return {static_cast<unsigned char>(pattern[1]) == byte, 2};
      break;
    default: break;
  }
  return {static_cast<unsigned char>(pattern.front()) == byte, 1};
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  // When something does not fit, the latest star takes one byte more. Earlier stars need not be tried again.
  bool has_star = false;
  std::string_view behind_star;
  std::string_view star_text;
  for (;;) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      has_star = true;
      behind_star = pattern;
      star_text = text;
      continue;
    }
    if (text.empty()) return pattern.empty();
    if (!pattern.empty()) {
      const Element element = match_element(pattern, static_cast<unsigned char>(text.front()));
      if (element.matches) {
        pattern.remove_prefix(element.size);
        text.remove_prefix(1);
        continue;
      }
    }
    if (!has_star) return false;
    star_text.remove_prefix(1);
    text = star_text;
    pattern = behind_star;
  }
}

std::string glob_prefix(std::string_view pattern) {
  return std::string(pattern.substr(0, pattern.find_first_of("*?[\\")));
}

std::string end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace skua::kv::gateway
