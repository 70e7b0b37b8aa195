#include "rpc/base/nearest_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace skua {

namespace {

std::string folded(std::string_view name) {
  std::string out = absl::AsciiStrToLower(std::string(name));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

constexpr size_t kWordBytesMin = 4;

bool is_part(const std::string& name, const std::string& candidate) {
  if (name.empty() || name.size() >= candidate.size()) return false;
  return candidate.starts_with(name) || (name.size() >= kWordBytesMin && candidate.ends_with("-" + name));
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: the swap of neighbours looks two rows back.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates,
                                        size_t distance_max) {
  const std::string wanted = folded(name);
  // A name of one letter is one edit away from every other letter, so it has no near candidate.
  const size_t near_enough = name.size() < 2 ? 0 : std::max<size_t>(1, name.size() / 3);
  size_t best = std::min(distance_max, near_enough) + 1;
  std::optional<std::string> nearest;
  std::optional<std::string> longer;
  bool only_one = true;
  for (const std::string& candidate : candidates) {
    const std::string other = folded(candidate);
    if (is_part(wanted, other)) {
      only_one &= !longer || longer == candidate;
      longer = candidate;
    }
    const size_t distance = edit_distance(wanted, other);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest || !only_one ? nearest : longer;
}

}  // namespace skua
