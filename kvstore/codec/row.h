// The `single` row format: a value that is a list of named fields. The YCSB bindings and PATCH use it.
//
//   +------------+------+-------------+-------+   +------------+---
//   | u32 length | name | u32 length  | value |   | u32 length | ...     little endian, repeated to the end
//   +------------+------+-------------+-------+   +------------+---
//
// An empty value is a row without fields. The name of a field has 1..kFieldNameBytesMax bytes. A name occurs once in a
// stored row; if a patch repeats a name, its last value counts. A patch is itself a row: the fields to replace or add.
#ifndef SKUA_KVSTORE_CODEC_ROW_H_
#define SKUA_KVSTORE_CODEC_ROW_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A field; its members are views of the row's bytes.
struct Field {
  std::string_view name;
  ByteSpan value;
};

/// Reads the fields of a row without copying: for (RowReader row(bytes); auto field = row.next();) ... A value type;
/// thread: one at a time. The bytes must outlive the fields.
class RowReader {
 public:
  explicit RowReader(ByteSpan row) : reader_(row) {}

  /// The next field; nullopt at the end, and at malformed bytes (see ok()).
  std::optional<Field> next();

  /// False after malformed bytes were read: a length that runs past the end, or a name that breaks a limit.
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  ByteReader reader_;
  bool ok_ = true;
};

/// OK if `row` is well formed and within kFieldsMax, kFieldNameBytesMax and kValueBytesMax. Else INVALID_ARGUMENT,
/// which says why. Reads kFieldsMax + 1 fields at most.
[[nodiscard]] absl::Status check_row(ByteSpan row);

/// As check_row(); and no name may occur twice. For values that are marked as rows (types/record_mark.h).
[[nodiscard]] absl::Status check_marked_row(ByteSpan row);

/// The value of the first field with this name; nullopt if there is none, or if the row is malformed before it.
[[nodiscard]] std::optional<ByteSpan> find_field(ByteSpan row, std::string_view name);

/// Appends one field to `row`. The caller keeps the row within the limits.
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

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_ROW_H_
