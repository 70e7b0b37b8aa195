#include "kvstore/storage/sort_effects.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string_view>

#include "kvstore/types/mutants.h"
#include "rpc/base/bytes.h"
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
  std::array<char, sizeof(uint64_t)> bytes{};
  std::memcpy(bytes.data(), key.data() + skip, std::min(bytes.size(), key.size() - skip));
  return load_be64(bytes.data());
}

/// By prefix. Handles of equal prefixes keep their order. LSD radix sort (Knuth, The Art of Computer Programming
/// 5.2.5): one pass for each byte in which prefixes differ. Keys that are numbers with a common beginning need few
/// passes.
void sort_by_prefix(std::vector<Handle>& handles) {
  constexpr size_t kFew = 256;  // for fewer, counting costs more than it saves
  if (handles.size() < kFew) {
    std::ranges::stable_sort(handles, {}, &Handle::prefix);
    return;
  }
  constexpr size_t kDigits = sizeof(Handle::prefix);
  const auto digit_of = [](const Handle& handle, size_t digit) { return handle.prefix >> (8 * digit) & 0xff; };
  std::array<std::array<uint32_t, 256>, kDigits> counts{};
  for (const Handle& handle : handles) {
    for (size_t digit = 0; digit < kDigits; ++digit) ++counts[digit][digit_of(handle, digit)];
  }
  std::vector<Handle> sorted(handles.size());
  for (size_t digit = 0; digit < kDigits; ++digit) {
    std::array<uint32_t, 256>& places = counts[digit];
    if (places[digit_of(handles.front(), digit)] == handles.size()) continue;
    std::exclusive_scan(places.begin(), places.end(), places.begin(), uint32_t{0});
    for (const Handle& handle : handles) sorted[places[digit_of(handle, digit)]++] = handle;
    handles.swap(sorted);
  }
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

/// The keys lie all over the memory of the log's groups.
constexpr size_t kPrefetchedKeys = 16;
void prefetch_key(std::span<const AppliedEffect> effects, size_t place) {
  if (place < effects.size()) __builtin_prefetch(effects[place].key.data());
}

bool is_older(const Handle& a, const Handle& b) {
  return mutant(Mutant::kKeepOldest) ? a.place > b.place : a.place < b.place;
}

}  // namespace

void sort_last_of_key(std::span<const AppliedEffect> effects, std::vector<AppliedEffect>& sorted) {
  SKUA_CHECK(effects.size() <= UINT32_MAX, "too many effects to be sorted at a time");
  sorted.clear();
  if (effects.empty()) return;
  size_t skip = effects.front().key.size();
  for (size_t i = 0; i < effects.size(); ++i) {
    prefetch_key(effects, i + kPrefetchedKeys);
    skip = common_bytes(effects.front().key, effects[i].key, skip);
  }
  // The last effect of a key comes first.
  const auto last = static_cast<uint32_t>(effects.size() - 1);
  std::vector<Handle> handles(effects.size());
  for (uint32_t i = 0; i <= last; ++i) {
    const uint32_t place = mutant(Mutant::kKeepOldest) ? i : last - i;
    prefetch_key(effects, place - kPrefetchedKeys);
    const std::string_view key = effects[place].key;
    handles[i] = {prefix_of(key, skip), place, static_cast<uint32_t>(key.size() - skip)};
  }
  sort_by_prefix(handles);
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
