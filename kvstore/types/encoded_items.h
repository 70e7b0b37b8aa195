// EncodedItems: a view of items that are encoded one after the other, as a request or a message has them.
#ifndef SKUA_KVSTORE_TYPES_ENCODED_ITEMS_H_
#define SKUA_KVSTORE_TYPES_ENCODED_ITEMS_H_

#include <cstddef>
#include <iterator>

#include "rpc/base/bytes.h"

namespace skua::kv {

/// The encoded bytes must outlive it. Iterating allocates nothing, and decodes each item: `kRead` reads the next one
/// into an Item that may have the values of the one before.
template <typename Item, auto kRead>
class EncodedItems {
 public:
  class Iterator {
   public:
    explicit Iterator(ByteReader rest) : rest_(rest) { ++*this; }
    const Item& operator*() const { return item_; }
    const Item* operator->() const { return &item_; }
    Iterator& operator++() {
      at_end_ = rest_.remaining() == 0;
      if (!at_end_) kRead(rest_, item_);
      return *this;
    }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.at_end_; }

   private:
    ByteReader rest_;
    Item item_{};
    bool at_end_ = false;
  };

  EncodedItems() = default;
  /// `encoded` has `count` items and nothing else (not checked: decoders do).
  EncodedItems(ByteSpan encoded, size_t count) : encoded_(encoded), count_(count) {}

  [[nodiscard]] Iterator begin() const { return Iterator(ByteReader(encoded_)); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
  [[nodiscard]] size_t size() const { return count_; }
  [[nodiscard]] ByteSpan bytes() const { return encoded_; }

 private:
  ByteSpan encoded_;
  size_t count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_ENCODED_ITEMS_H_
