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

}  // namespace

void sort_last_of_key(std::span<const AppliedEffect> effects, std::vector<AppliedEffect>& sorted) {
  SKUA_CHECK(effects.size() <= UINT32_MAX, "too many effects to be sorted at a time");
  sorted.clear();
  if (effects.empty()) return;
  size_t skip = effects.front().key.size();
  for (const AppliedEffect& effect : effects) skip = common_bytes(effects.front().key, effect.key, skip);
  std::vector<Handle> handles;
  handles.reserve(effects.size());
  for (uint32_t i = 0; i < effects.size(); ++i) handles.push_back({prefix_of(effects[i].key, skip), i});
  // Of equal keys the last one comes first.
  std::sort(handles.begin(), handles.end(), [&](const Handle& a, const Handle& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const int order = effects[a.place].key.compare(effects[b.place].key);
    if (order != 0) return order < 0;
    return mutant(EngineMutant::kKeepOldest) ? a.place < b.place : a.place > b.place;
  });
  for (size_t i = 0; i < handles.size(); ++i) {
    const AppliedEffect& effect = effects[handles[i].place];
    // Reading a key may miss the cache, so keys are compared only if their prefixes are equal.
    const bool is_new = i == 0 || handles[i].prefix != handles[i - 1].prefix || sorted.back().key != effect.key;
    if (is_new) sorted.push_back(effect);
  }
}

}  // namespace skua::kv
