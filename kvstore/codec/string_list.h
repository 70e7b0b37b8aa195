// StringList: strings of a decoded request, each with its length in front (u16): the keys of a MULTI_GET, the names of
// a GET's fields.
#ifndef SKUA_KVSTORE_CODEC_STRING_LIST_H_
#define SKUA_KVSTORE_CODEC_STRING_LIST_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "rpc/base/bytes.h"

namespace skua::kv {

/// A view of encoded bytes, which must outlive it. Iterating allocates nothing.
class StringList {
 public:
  class Iterator {
   public:
    explicit Iterator(ByteReader rest) : rest_(rest) { ++*this; }
    std::string_view operator*() const { return string_; }
    Iterator& operator++() {
      at_end_ = rest_.remaining() == 0;
      if (!at_end_) string_ = as_string_view(rest_.read_prefixed<uint16_t>());
      return *this;
    }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.at_end_; }

   private:
    ByteReader rest_;
    std::string_view string_;
    bool at_end_ = false;
  };

  StringList() = default;
  /// `encoded` has `count` strings and nothing else (not checked: decoders do).
  StringList(ByteSpan encoded, size_t count) : encoded_(encoded), count_(count) {}

  [[nodiscard]] Iterator begin() const { return Iterator(ByteReader(encoded_)); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
  [[nodiscard]] size_t size() const { return count_; }
  [[nodiscard]] ByteSpan encoded() const { return encoded_; }

 private:
  ByteSpan encoded_;
  size_t count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_STRING_LIST_H_
