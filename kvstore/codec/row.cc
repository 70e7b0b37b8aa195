#include "kvstore/codec/row.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>

#include "absl/container/inlined_vector.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/codec/text.h"

namespace skua::kv {
namespace {

void append_prefixed(std::string& to, std::string_view bytes) {
  std::array<std::byte, sizeof(uint32_t)> length;
  store_le(length.data(), static_cast<uint32_t>(bytes.size()));
  to.append(as_string_view(length));
  to.append(bytes);
}

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
  explicit PatchIndex(ByteSpan patch) {
    uint32_t position = 0;
    for (RowReader reader(patch); auto field = reader.next();) fields_.push_back({*field, position++});
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

}  // namespace

std::optional<Field> RowReader::next() {
  if (!ok_ || reader_.remaining() == 0) return std::nullopt;
  const std::string_view name = as_string_view(reader_.read_prefixed<uint32_t>());
  const ByteSpan value = reader_.read_prefixed<uint32_t>();
  ok_ = reader_.ok() && !name.empty() && name.size() <= kFieldNameBytesMax;
  if (!ok_) return std::nullopt;
  return Field{name, value};
}

absl::Status check_row(ByteSpan row) {
  if (row.size() > kValueBytesMax) {
    return beyond_limit("the row", "byte", row.size(), kValueBytesMax);
  }
  RowReader reader(row);
  size_t count = 0;
  while (count <= kFieldsMax && reader.next()) ++count;  // a row of 16 MiB may have two million fields
  if (!reader.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("malformed row of ", row.size(), " bytes: after field ", count,
                                                   " a length runs past the end, or a name is not of 1..",
                                                   kFieldNameBytesMax, " bytes"));
  }
  if (count > kFieldsMax) {
    return beyond_limit("the row", "field", count, kFieldsMax);
  }
  return absl::OkStatus();
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
  append_prefixed(row, field.name);
  append_prefixed(row, as_string_view(field.value));
}

absl::Status patch_row(ByteSpan row, ByteSpan patch, std::string& patched) {
  if (absl::Status status = check_row(patch); !status.ok()) return status;
  if (absl::Status status = check_row(row); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the stored value is not a row, PUT it whole: ", status.message()));
  }
  patched.clear();
  patched.reserve(row.size() + patch.size());
  PatchIndex index(patch);
  for (RowReader reader(row); auto field = reader.next();) {
    if (PatchField* replacement = index.find(field->name)) {
      replacement->done = true;
      append_field(patched, replacement->field);
    } else {
      append_field(patched, *field);
    }
  }
  for (RowReader reader(patch); auto field = reader.next();) {
    PatchField* added = index.find(field->name);
    if (added->done) continue;
    added->done = true;  // a name that the patch repeats is added once, with its last value
    append_field(patched, added->field);
  }
  return check_row(as_byte_span(patched));
}

}  // namespace skua::kv
