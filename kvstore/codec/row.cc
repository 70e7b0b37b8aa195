#include "kvstore/codec/row.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "absl/container/inlined_vector.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/codec/text.h"
#include "kvstore/types/fields.h"

namespace skua::kv {
namespace {

/// A field of a patch, and its position, by which fields of the same name are ordered.
struct PatchField {
  Field field;
  uint32_t position;
  bool done = false;  ///< it was written to the patched row
};

/// The fields of a patch, ordered by name. Patching takes O((row + patch) log patch) instead of comparing each field
/// with each.
class PatchIndex {
 public:
  PatchIndex(ByteSpan patch, RowReader::Form form) {
    uint32_t position = 0;
    for (RowReader reader(patch, form); auto field = reader.next();) fields_.push_back({*field, position++});
    std::sort(fields_.begin(), fields_.end(), [](const PatchField& a, const PatchField& b) {
      return std::tie(a.field.name, b.position) < std::tie(b.field.name, a.position);
    });
  }

  /// The last field of that name in the patch, or nullptr.
  PatchField* find(std::string_view name) {
    auto at = std::lower_bound(fields_.begin(), fields_.end(), name,
                               [](const PatchField& a, std::string_view wanted) { return a.field.name < wanted; });
    return at != fields_.end() && at->field.name == name ? &*at : nullptr;
  }

 private:
  absl::InlinedVector<PatchField, 16> fields_;  // by name; of one name the last field first
};

absl::Status check_fields(ByteSpan row, RowReader::Form form) {
  if (row.size() > kValueBytesMax) return beyond_limit("the row", "byte", row.size(), kValueBytesMax);
  RowReader reader(row, form);
  size_t count = 0;
  while (count <= kFieldsMax && reader.next()) ++count;  // a row of 16 MiB may have two million fields
  if (!reader.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("malformed row of ", row.size(), " bytes: after field ", count,
                                                   " a length runs past the end, or a name is not of 1..",
                                                   kFieldNameBytesMax, " bytes"));
  }
  return check_limit("the row", "field", count, kFieldsMax);
}

/// Writes the patched row. The inputs were checked; `index` is of `patch`. The result may be beyond the limits by what
/// one patch adds.
PatchCounts write_patched(ByteSpan row, ByteSpan patch, RowReader::Form form, PatchIndex& index, std::string& patched) {
  PatchCounts counts;
  patched.clear();
  patched.reserve(row.size() + patch.size());
  for (RowReader reader(row); auto field = reader.next();) {
    PatchField* const replacement = index.find(field->name);
    if (replacement != nullptr) replacement->done = true;
    const Field& next = replacement != nullptr ? replacement->field : *field;
    ++(next.is_removed ? counts.removed : counts.left);
    if (!next.is_removed) append_field(patched, next);
  }
  for (RowReader reader(patch, form); auto field = reader.next();) {
    PatchField* added = index.find(field->name);
    if (added->done) continue;
    added->done = true;  // a name that the patch repeats is added once, with its last value
    if (added->field.is_removed) continue;
    append_field(patched, added->field);
    ++counts.added;
  }
  counts.left = static_cast<uint16_t>(counts.left + counts.added);
  return counts;
}

/// Fields of the row, if the edit neither sets a field nor names one of them; else nothing.
std::optional<uint16_t> fields_untouched(ByteSpan row, ByteSpan edit, PatchIndex& index) {
  for (RowReader reader(edit, RowReader::Form::kEdit); auto field = reader.next();) {
    if (!index.find(field->name)->field.is_removed) return std::nullopt;
  }
  uint16_t count = 0;
  for (RowReader reader(row); auto field = reader.next(); ++count) {
    if (index.find(field->name) != nullptr) return std::nullopt;
  }
  return count;
}

}  // namespace

std::optional<Field> RowReader::next() {
  if (!ok_ || reader_.remaining() == 0) return std::nullopt;
  const std::string_view name = as_string_view(reader_.read_prefixed<uint32_t>());
  const auto value_bytes = reader_.read<uint32_t>();
  const bool is_removed = form_ == Form::kEdit && value_bytes == kRemovedField;
  const ByteSpan value = is_removed ? ByteSpan{} : reader_.read_bytes(value_bytes);
  ok_ = reader_.ok() && !name.empty() && name.size() <= kFieldNameBytesMax;
  if (!ok_) return std::nullopt;
  return Field{name, value, is_removed};
}

absl::Status check_row(ByteSpan row) {
  return check_fields(row, RowReader::Form::kRow);
}

absl::Status check_edit(ByteSpan edit) {
  return check_fields(edit, RowReader::Form::kEdit);
}

absl::Status check_marked_row(ByteSpan row) {
  if (absl::Status status = check_row(row); !status.ok()) return status;
  absl::InlinedVector<std::string_view, 64> names;
  for (RowReader reader(row); auto field = reader.next();) names.push_back(field->name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the row has the field \"", absl::CHexEscape(absl::string_view(twice->data(), twice->size())), "\" twice"));
}

std::optional<ByteSpan> find_field(ByteSpan row, std::string_view name) {
  for (RowReader reader(row); auto field = reader.next();) {
    if (field->name == name) return field->value;
  }
  return std::nullopt;
}

void append_field(std::string& row, const Field& field) {
  append_prefixed<uint32_t>(row, field.name);
  if (field.is_removed) return append_le(row, kRemovedField);
  append_prefixed<uint32_t>(row, as_string_view(field.value));
}

absl::Status patch_row(ByteSpan row, ByteSpan patch, std::string& patched) {
  if (absl::Status status = check_row(patch); !status.ok()) return status;
  if (absl::Status status = check_row(row); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the stored value is not a row, PUT it whole: ", status.message()));
  }
  PatchIndex index(patch, RowReader::Form::kRow);
  write_patched(row, patch, RowReader::Form::kRow, index, patched);
  return check_row(as_byte_span(patched));
}

Edited edit_row(ByteSpan row, ByteSpan edit, std::string& edited, PatchCounts& counts) {
  if (!check_edit(edit).ok()) return Edited::kMalformed;
  if (!check_row(row).ok()) return Edited::kNotARow;
  PatchIndex index(edit, RowReader::Form::kEdit);
  if (const std::optional<uint16_t> count = fields_untouched(row, edit, index); count.has_value()) {
    counts = {.left = *count};
    return Edited::kUnchanged;
  }
  counts = write_patched(row, edit, RowReader::Form::kEdit, index, edited);
  if (counts.left > kFieldsMax) return Edited::kTooManyFields;
  return edited.size() > kValueBytesMax ? Edited::kTooLarge : Edited::kDone;
}

}  // namespace skua::kv
