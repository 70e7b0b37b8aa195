#include "kvstore/storage/sort_effects.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "kvstore/types/engine_mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

struct Handle {
  uint64_t prefix = 0;  // big endian; zeros behind the end of a short key
  uint32_t place = 0;
  uint32_t rest = 0;  // bytes behind the common beginning
};

size_t common_bytes(std::string_view a, std::string_view b, size_t most) {
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min({most, a.size(), b.size()}));
  return static_cast<size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

uint64_t prefix_of(std::string_view key, size_t skip) {
  std::array<unsigned char, sizeof(uint64_t)> bytes{};
  std::memcpy(bytes.data(), key.data() + skip, std::min(bytes.size(), key.size() - skip));
  uint64_t prefix = 0;
  for (const unsigned char byte : bytes) prefix = prefix << 8 | byte;
  return prefix;
}

/// Handles of equal prefixes, the last effect first. True: they are of one key, as in most such runs.
bool is_one_key(std::span<const Handle> run, std::span<const AppliedEffect> effects) {
  const Handle& first = run.front();
  const auto is_same = [&](const Handle& other) {
    if (other.rest != first.rest) return false;
    return first.rest <= sizeof(Handle::prefix) || effects[other.place].key == effects[first.place].key;
  };
  return std::all_of(run.begin() + 1, run.end(), is_same);
}

bool is_older(const Handle& a, const Handle& b) {
  return mutant(EngineMutant::kKeepOldest) ? a.place > b.place : a.place < b.place;
}

}  // namespace

void sort_last_of_key(std::span<const AppliedEffect> effects, std::vector<AppliedEffect>& sorted) {
  SKUA_CHECK(effects.size() <= UINT32_MAX, "too many effects to be sorted at a time");
  sorted.clear();
  if (effects.empty()) return;
  size_t skip = effects.front().key.size();
  for (const AppliedEffect& effect : effects) skip = common_bytes(effects.front().key, effect.key, skip);
  std::vector<Handle> handles;
  handles.reserve(effects.size());
  for (uint32_t i = 0; i < effects.size(); ++i) {
    handles.push_back({prefix_of(effects[i].key, skip), i, static_cast<uint32_t>(effects[i].key.size() - skip)});
  }
  std::sort(handles.begin(), handles.end(), [](const Handle& a, const Handle& b) {
    return a.prefix != b.prefix ? a.prefix < b.prefix : is_older(b, a);
  });
  for (auto begin = handles.begin(); begin != handles.end();) {
    const auto end = std::find_if(begin, handles.end(), [&](const Handle& h) { return h.prefix != begin->prefix; });
    const std::span<Handle> run(begin, end);
    if (is_one_key(run, effects)) {
      sorted.push_back(effects[begin->place]);
    } else {
      std::sort(begin, end, [&](const Handle& a, const Handle& b) {
        const int order = effects[a.place].key.compare(effects[b.place].key);
        return order != 0 ? order < 0 : is_older(b, a);
      });
      for (const Handle& handle : run) {
        const AppliedEffect& effect = effects[handle.place];
        if (sorted.empty() || sorted.back().key != effect.key) sorted.push_back(effect);
      }
    }
    begin = end;
  }
}

}  // namespace skua::kv
