#include "kvstore/ctl/key_range.h"

namespace skua::kv::ctl {

KeyRange range_of_prefix(std::string_view prefix) {
  KeyRange range{.start = std::string(prefix), .end = std::string(prefix)};
  // What follows the prefix is one more in its last byte that can be more. Without such a byte nothing follows.
  while (!range.end.empty() && range.end.back() == '\xff') range.end.pop_back();
  if (!range.end.empty()) range.end.back() = static_cast<char>(static_cast<unsigned char>(range.end.back()) + 1);
  return range;
}

}  // namespace skua::kv::ctl
