// Records of stores that hold one value per key: operations to rows (row_format.h) and back, in memory that is kept.
//
//   insert     encode(op)                                  -> encoded()
//   read       decode(value), pick(op)                     -> fields()
//   update     decode(value), encode_merged(op)            -> encoded()
#ifndef SKUA_YCSB_BINDINGS_ROWS_H_
#define SKUA_YCSB_BINDINGS_ROWS_H_

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/bytes.h"
#include "ycsb/core/operation.h"
#include "ycsb/core/row_format.h"

namespace skua::ycsb {

class RowCoder {
 public:
  /// `schema` outlives it.
  explicit RowCoder(const Schema& schema) : schema_(schema) {}

  /// A row of the fields that the operation writes.
  void encode(const Operation& op) {
    row_.clear();
    for (const FieldWrite& write : op.writes()) append_row_field(row_, schema_.field_names[write.field], write.value);
  }
  /// fields() with those that the operation writes in their places.
  void encode_merged(const Operation& op) {
    for (const FieldWrite& write : op.writes()) {
      const std::string_view name = schema_.field_names[write.field];
      const auto old = std::find_if(fields_.begin(), fields_.end(), [&](const auto& f) { return f.name == name; });
      if (old != fields_.end()) {
        old->value = write.value;
      } else {
        fields_.push_back({name, write.value});
      }
    }
    row_.clear();
    for (const NamedValue& field : fields_) append_row_field(row_, field.name, field.value);
  }
  /// Until the next encode.
  [[nodiscard]] std::string_view encoded() const { return row_; }

  /// fields() are the row's, views into it. False if it is no row.
  [[nodiscard]] bool decode(std::string_view row) { return decode_row(as_byte_span(row), fields_); }
  /// Leaves those of fields() that the operation asks for.
  void pick(const Operation& op) {
    if (op.all_fields) return;
    std::erase_if(fields_, [&](const NamedValue& field) {
      return std::none_of(op.fields.begin(), op.fields.end(),
                          [&](uint32_t wanted) { return schema_.field_names[wanted] == field.name; });
    });
  }
  [[nodiscard]] std::span<const NamedValue> fields() const { return fields_; }

  [[nodiscard]] static OpResult not_a_row() {
    OpResult result(Status::kUnexpectedState);
    result.message = "the value is not a row; was the table loaded by this driver?";
    return result;
  }

 private:
  const Schema& schema_;
  std::string row_;
  std::vector<NamedValue> fields_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_ROWS_H_
