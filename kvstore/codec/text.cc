#include "kvstore/codec/text.h"

#include "absl/strings/str_cat.h"

namespace skua::kv {

std::string with_commas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string counted(uint64_t number, std::string_view noun) {
  return with_commas(number).append(" ").append(noun).append(number == 1 ? "" : "s");
}

absl::Status beyond_limit(const char* whose, std::string_view noun, size_t size, size_t limit, size_t least) {
  const std::string range = size < least ? absl::StrCat(with_commas(least), " to ") : std::string("at most ");
  return absl::InvalidArgumentError(
      absl::StrCat(whose, " has ", counted(size, noun), "; ", range, with_commas(limit), " are allowed"));
}

}  // namespace skua::kv
