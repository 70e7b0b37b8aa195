#include "kvstore/codec/chosen_fields.h"

#include <algorithm>
#include <string_view>

#include "kvstore/codec/row.h"

namespace skua::kv {

std::optional<ChosenFields> ChosenFields::of(ByteSpan row, const StringList& names) {
  if (!check_row(row).ok()) return std::nullopt;
  absl::InlinedVector<std::string_view, 16> sorted;
  for (const std::string_view name : names) sorted.push_back(name);
  std::sort(sorted.begin(), sorted.end());
  ChosenFields chosen;
  size_t at = 0;
  bool is_beside_last = false;
  for (RowReader reader(row); const auto field = reader.next();) {
    const ByteSpan bytes = row.subspan(at, field_bytes(*field));
    at += bytes.size();
    const bool is_chosen = std::binary_search(sorted.begin(), sorted.end(), field->name);
    if (is_chosen && is_beside_last) {
      ByteSpan& last = chosen.parts_.back();
      last = {last.data(), last.size() + bytes.size()};
    } else if (is_chosen) {
      chosen.parts_.push_back(bytes);
    }
    chosen.byte_count_ += is_chosen ? bytes.size() : 0;
    is_beside_last = is_chosen;
  }
  return chosen;
}

std::optional<ByteSpan> ChosenFields::one_part() const {
  if (parts_.size() > 1) return std::nullopt;
  return parts_.empty() ? ByteSpan{} : parts_.front();
}

void ChosenFields::append_to(std::string& bytes) const {
  for (const ByteSpan part : parts_) bytes.append(as_string_view(part));
}

}  // namespace skua::kv
