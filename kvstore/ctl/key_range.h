// Ranges of keys in byte order. Pure.
#ifndef SKUA_KVSTORE_CTL_KEY_RANGE_H_
#define SKUA_KVSTORE_CTL_KEY_RANGE_H_

#include <string>
#include <string_view>

namespace skua::kv::ctl {

/// The keys from `start` on that are before `end`. An empty end: all keys from `start` on.
struct KeyRange {
  std::string start;
  std::string end;

  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

/// The keys that begin with `prefix`: [prefix, the smallest string above all of them). An empty prefix: all keys.
[[nodiscard]] KeyRange range_of_prefix(std::string_view prefix);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_KEY_RANGE_H_
