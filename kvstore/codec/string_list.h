// StringList: strings of a decoded request, each with its length in front (u16): the keys of a MULTI_GET, the names of
// a GET's fields.
#ifndef SKUA_KVSTORE_CODEC_STRING_LIST_H_
#define SKUA_KVSTORE_CODEC_STRING_LIST_H_

#include <cstdint>
#include <string_view>

#include "kvstore/types/encoded_items.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Reads a string of a list.
inline void read_string(ByteReader& reader, std::string_view& string) {
  string = as_string_view(reader.read_prefixed<uint16_t>());
}

/// A view of encoded bytes.
using StringList = EncodedItems<std::string_view, read_string>;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_STRING_LIST_H_
