// Encodes integers, and structs of them, one after the other: little endian, without gaps. The fields of a struct are
// listed once, in the order of their bytes, so that both directions agree:
//
//   template <>
//   inline constexpr auto kFields<EntryId> = std::tuple(&EntryId::index, &EntryId::epoch);
//
//   write_fields(writer, id, count);
//   read_fields(reader, id, count);
#ifndef SKUA_KVSTORE_TYPES_FIELDS_H_
#define SKUA_KVSTORE_TYPES_FIELDS_H_

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "absl/base/attributes.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// The fields of a struct, as pointers to its members.
template <typename T>
inline constexpr std::tuple<> kFields;
/// Whether the fields of T are listed.
template <typename T>
concept HasFields = !std::is_same_v<decltype(kFields<T>), const std::tuple<>>;

/// Whoever calls it looks at writer.ok() afterwards, unless there is room. It is as fast as a call of write() for each.
template <typename... Ts>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void write_fields(ByteWriter& writer, const Ts&... values) {
  const auto write = [&]<typename T>(const T& value) ABSL_ATTRIBUTE_ALWAYS_INLINE {
    if constexpr (HasFields<T>) {
      std::apply([&](auto... fields) { write_fields(writer, value.*fields...); }, kFields<T>);
    } else {
      static_assert(!std::is_class_v<T>, "list its fields in kFields");
      writer.write(value);
    }
  };
  (write(values), ...);
}

/// Whoever calls it looks at reader.ok() afterwards. Values that the bytes do not have become 0.
template <typename... Ts>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void read_fields(ByteReader& reader, Ts&... values) {
  const auto read = [&]<typename T>(T& value) ABSL_ATTRIBUTE_ALWAYS_INLINE {
    if constexpr (HasFields<T>) {
      std::apply([&](auto... fields) { read_fields(reader, value.*fields...); }, kFields<T>);
    } else {
      static_assert(!std::is_class_v<T>, "list its fields in kFields");
      static_assert(!std::is_same_v<T, bool>, "a byte may be neither false nor true");
      value = reader.template read<T>();
    }
  };
  (read(values), ...);
}

/// Appends a length, as a `Length`, and then the bytes.
template <typename Length>
void append_prefixed(std::string& to, std::string_view bytes) {
  append_le(to, static_cast<Length>(bytes.size()));
  to.append(bytes);
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_FIELDS_H_
