// The `single` row format: a value that is a list of named fields. The YCSB bindings and PATCH use it.
//
//   +------------+------+-------------+-------+   +------------+---
//   | u32 length | name | u32 length  | value |   | u32 length | ...     little endian, repeated to the end
//   +------------+------+-------------+-------+   +------------+---
//
// An empty value is a row without fields. The name of a field has 1..kFieldNameBytesMax bytes. A name occurs once in a
// stored row; if a patch repeats a name, its last value counts. A patch is itself a row: the fields to replace or add.
//
// An edit is a patch that may also remove fields: such a field has the length 0xFFFFFFFF (kRemovedField) in the place
// of its value's, and no value. Everywhere else a field of that length runs past the end, so it is malformed.
#ifndef SKUA_KVSTORE_CODEC_ROW_H_
#define SKUA_KVSTORE_CODEC_ROW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/types/patch_counts.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// The length of the value of a field that an edit removes.
inline constexpr uint32_t kRemovedField = 0xFFFF'FFFF;

/// A field; its members are views of the row's bytes.
struct Field {
  std::string_view name;
  ByteSpan value{};
  bool is_removed = false;  ///< only in edits; there is no value then
};

/// Reads the fields of a row without copying: for (RowReader row(bytes); auto field = row.next();) ... A value type;
/// thread: one at a time. The bytes must outlive the fields.
class RowReader {
 public:
  enum class Form : uint8_t { kRow, kEdit };
  explicit RowReader(ByteSpan row, Form form = Form::kRow) : reader_(row), form_(form) {}

  /// The next field; nullopt at the end, and at malformed bytes (see ok()).
  std::optional<Field> next();

  /// False after malformed bytes were read: a length that runs past the end, or a name that breaks a limit.
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  ByteReader reader_;
  Form form_;
  bool ok_ = true;
};

/// OK if `row` is well formed and within kFieldsMax, kFieldNameBytesMax and kValueBytesMax. Else INVALID_ARGUMENT,
/// which says why. Reads kFieldsMax + 1 fields at most.
[[nodiscard]] absl::Status check_row(ByteSpan row);
/// The same for an edit.
[[nodiscard]] absl::Status check_edit(ByteSpan edit);

/// As check_row(); and no name may occur twice. For values that are marked as rows (types/record_mark.h).
[[nodiscard]] absl::Status check_marked_row(ByteSpan row);

/// The value of the first field with this name; nullopt if there is none, or if the row is malformed before it.
[[nodiscard]] std::optional<ByteSpan> find_field(ByteSpan row, std::string_view name);

/// Appends one field to `row`, which is an edit if the field is removed. The caller keeps the row within the limits.
void append_field(std::string& row, const Field& field);

/// Bytes that append_field() adds.
[[nodiscard]] inline size_t field_bytes(const Field& field) {
  return 2 * sizeof(uint32_t) + field.name.size() + field.value.size();
}

/// Writes into `patched` the fields of `row` in their order, with the patch's value for the fields that `patch` names;
/// then the patch's new fields in their order. `patched` must not alias the inputs; it loses its content and keeps its
/// capacity. Errors: FAILED_PRECONDITION if `row` is not a row; INVALID_ARGUMENT if `patch` is not a row, or if the
/// result breaks a limit.
[[nodiscard]] absl::Status patch_row(ByteSpan row, ByteSpan patch, std::string& patched);

/// What became of an edit.
enum class Edited : uint8_t {
  kDone,
  kUnchanged,      ///< the edit adds and replaces no field, and the row has none that it removes
  kNotARow,        ///< `row` is not a row
  kMalformed,      ///< `edit` is no edit
  kTooManyFields,  ///< the result would have more than kFieldsMax
  kTooLarge,       ///< the result would have more than kValueBytesMax bytes
};

/// As patch_row(), for an edit: leaves out the fields that `edit` removes. A field that the row lacks may be removed.
/// If it is kDone or kUnchanged, `counts` says what changed. kUnchanged copies nothing.
[[nodiscard]] Edited edit_row(ByteSpan row, ByteSpan edit, std::string& edited, PatchCounts& counts);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_ROW_H_
