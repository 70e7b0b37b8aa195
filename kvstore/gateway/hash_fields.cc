#include "kvstore/gateway/hash_fields.h"

#include "kvstore/codec/row.h"
#include "rpc/base/bytes.h"

namespace skua::kv::gateway {

void FieldsToSet::set(std::string_view name, std::string_view value) {
  const auto [at, is_new] = places_.try_emplace(name, fields_.size());
  if (is_new) {
    fields_.push_back({name, value});
  } else {
    fields_[at->second].value = value;
  }
}

HashChange FieldsToSet::change_of(std::string_view row) const {
  HashChange change{.added_count = fields_.size()};
  for (RowReader reader(as_byte_span(row)); const auto field = reader.next();) {
    ++change.field_count;
    if (places_.contains(field->name)) {
      --change.added_count;
    } else {
      change.row_bytes += field_bytes(*field);
    }
  }
  change.field_count += change.added_count;
  for (const NamedValue& field : fields_) change.row_bytes += field_bytes({field.name, as_byte_span(field.value)});
  return change;
}

std::string FieldsToSet::as_row() const {
  size_t bytes = 0;
  for (const NamedValue& field : fields_) bytes += field_bytes({field.name, as_byte_span(field.value)});
  std::string row;
  row.reserve(bytes);
  for (const NamedValue& field : fields_) append_field(row, {field.name, as_byte_span(field.value)});
  return row;
}

size_t count_fields(std::string_view row) {
  size_t count = 0;
  for (RowReader reader(as_byte_span(row)); reader.next().has_value();) ++count;
  return count;
}

absl::flat_hash_map<std::string_view, std::string_view> fields_by_name(std::string_view row) {
  absl::flat_hash_map<std::string_view, std::string_view> fields;
  for (RowReader reader(as_byte_span(row)); const auto field = reader.next();) {
    fields.emplace(field->name, as_string_view(field->value));
  }
  return fields;
}

}  // namespace skua::kv::gateway
