#include "ycsb/core/field_length.h"

#include <algorithm>
#include <string>

#include "ycsb/core/text.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

constexpr uint64_t kWeightMax = uint64_t{1} << 40;
constexpr size_t kBucketsMax = size_t{1} << 20;
/// Bytes of a wrong line in an error.
constexpr size_t kShownMax = 40;

/// "name<TAB or blanks>number"; false if it is anything else.
bool parse_pair(std::string_view line, std::string_view& name, uint64_t& number) {
  const size_t gap = line.find_first_of("\t ");
  if (gap == std::string_view::npos) return false;
  name = line.substr(0, gap);
  const auto parsed = parse_number<uint64_t>(trim_text(line.substr(gap)));
  number = parsed.value_or(0);
  return parsed.has_value();
}

}  // namespace

absl::StatusOr<FieldLength> FieldLength::histogram(std::string_view text) {
  Weighted weighted{};
  uint64_t sum = 0;
  size_t line_number = 0;
  for (std::string_view line : split_text(text, '\n')) {
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::string_view name;
    uint64_t number = 0;
    const bool readable = parse_pair(line, name, number);
    const auto wrong = [&](std::string_view wanted) {
      const bool long_line = line.size() > kShownMax;
      return invalid_argument("line ", line_number, ": \"", line.substr(0, kShownMax), long_line ? "..." : "",
                              "\" should be ", wanted);
    };
    if (weighted.block == 0) {
      if (!readable || name != "BlockSize" || number == 0 || number > kFieldLengthMax)
        return wrong("\"BlockSize<TAB>bytes\"");
      weighted.block = number;
      continue;
    }
    const size_t bucket = weighted.running_weights.size();
    if (!readable || name != std::to_string(bucket) || number > kWeightMax)
      return wrong(concat("\"", bucket, "<TAB>weight\""));
    if ((bucket + 1) * weighted.block > kFieldLengthMax || bucket == kBucketsMax)
      return wrong(concat("absent: fields are at most ", kFieldLengthMax, " bytes"));
    sum += number;
    weighted.running_weights.push_back(sum);
  }
  if (sum == 0) return invalid_argument("no bucket with a weight");
  return FieldLength(std::move(weighted));
}

uint64_t FieldLength::next(Rng& rng) const {
  if (const auto* length = std::get_if<uint64_t>(&kind_)) return *length;
  if (const auto* uniform = std::get_if<Uniform>(&kind_)) return rng.between(uniform->low, uniform->high);
  if (const auto* skewed = std::get_if<Skewed>(&kind_)) return skewed->low + skewed->zipfian.next(rng);
  const auto& weighted = std::get<Weighted>(kind_);
  const auto& weights = weighted.running_weights;
  const auto bucket = std::upper_bound(weights.begin(), weights.end(), rng.below(weights.back())) - weights.begin();
  return (static_cast<uint64_t>(bucket) + 1) * weighted.block;
}

}  // namespace skua::ycsb
