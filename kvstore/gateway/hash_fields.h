// Hashes of Redis's protocol are records whose value is a row (codec/row.h) and whose mark says so. A hash has at least
// one field: a hash whose last field goes is removed. (Another client may store a row without fields. That is a hash of
// 0 fields here.) Rows keep their fields in the order in which they came, as Redis does for small hashes.
//
// Computes the row after fields were set. Pure. Rows are marked ones: the store has checked them.
#ifndef SKUA_KVSTORE_GATEWAY_HASH_FIELDS_H_
#define SKUA_KVSTORE_GATEWAY_HASH_FIELDS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace skua::kv::gateway {

/// A row after fields were set.
struct HashChange {
  size_t added_count = 0;  ///< fields that the row lacked
  size_t field_count = 0;
  size_t row_bytes = 0;
};

/// Fields to be set, in the order in which their names came first. Of a name that comes several times the last value
/// counts.
class FieldsToSet {
 public:
  /// The views must outlive the object.
  void set(std::string_view name, std::string_view value);
  [[nodiscard]] HashChange change_of(std::string_view row) const;
  /// The fields as a row.
  [[nodiscard]] std::string as_row() const;

 private:
  struct NamedValue {
    std::string_view name;
    std::string_view value;
  };
  std::vector<NamedValue> fields_;
  absl::flat_hash_map<std::string_view, size_t> places_;  // in fields_, by name
};

[[nodiscard]] size_t count_fields(std::string_view row);

/// Values by name; views of the row.
[[nodiscard]] absl::flat_hash_map<std::string_view, std::string_view> fields_by_name(std::string_view row);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_HASH_FIELDS_H_
