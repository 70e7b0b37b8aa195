// ChosenFields: those fields of a row (row.h) that have one of some names, as parts of the row.
//
//   row      name=ada | born=1815 | field=mathematics | died=1852
//   names    born, field, none
//   parts             [born=1815 | field=mathematics]            fields that lie side by side are one part
#ifndef SKUA_KVSTORE_CODEC_CHOSEN_FIELDS_H_
#define SKUA_KVSTORE_CODEC_CHOSEN_FIELDS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "kvstore/codec/string_list.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A value; its parts are views of the row.
class ChosenFields {
 public:
  /// Nothing: `row` is not a row. Takes time for the row's fields and the names, not for the bytes of values.
  [[nodiscard]] static std::optional<ChosenFields> of(ByteSpan row, const StringList& names);

  /// The number of bytes of all chosen fields. They form a row in the order of the original row.
  [[nodiscard]] size_t byte_count() const { return byte_count_; }
  /// The fields, if the row has them in one part; empty if there is none. Nothing: they must be put together.
  [[nodiscard]] std::optional<ByteSpan> one_part() const;
  void append_to(std::string& bytes) const;

 private:
  absl::InlinedVector<ByteSpan, 4> parts_;
  size_t byte_count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_CHOSEN_FIELDS_H_
