// ReplyBytes: what goes to a client, as bytes of its own and values that are lent. A lent value is sent from where the
// store's answer lies, and holds that memory until the kernel has taken the bytes.
#ifndef SKUA_KVSTORE_GATEWAY_REPLY_BYTES_H_
#define SKUA_KVSTORE_GATEWAY_REPLY_BYTES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/client/types.h"

namespace skua::kv::gateway {

/// Values below this are copied: another piece for the kernel costs more.
inline constexpr size_t kLentBytesMin = 512;

/// A value. Thread: the client's that lent the values.
class ReplyBytes {
 public:
  struct Lent {
    size_t at;  ///< the value goes out before text()[at]
    ValueView value;
  };

  void append(std::string_view bytes) { text_.append(bytes); }
  void append(char byte) { text_.push_back(byte); }
  /// Keeps the value, or copies it if it is small.
  void append(ValueView&& value) {
    if (value.size() < kLentBytesMin) return append(value.bytes());
    lent_bytes_ += value.size();
    lent_.push_back({text_.size(), std::move(value)});
  }
  void clear() {
    text_.clear();
    lent_.clear();
    lent_bytes_ = 0;
    if (text_.capacity() > kKeptBytesMax) std::string().swap(text_);
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::vector<Lent>& lent() { return lent_; }
  [[nodiscard]] size_t size() const { return text_.size() + lent_bytes_; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  /// All bytes in one string. For tests.
  [[nodiscard]] std::string joined() const {
    std::string out;
    size_t from = 0;
    for (const Lent& lent : lent_) {
      out.append(text_, from, lent.at - from).append(lent.value.bytes());
      from = lent.at;
    }
    return out.append(text_, from);
  }

 private:
  static constexpr size_t kKeptBytesMax = 4096;

  std::string text_;
  std::vector<Lent> lent_;
  size_t lent_bytes_ = 0;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_REPLY_BYTES_H_
