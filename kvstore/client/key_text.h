// KeyText: a copy of an operation's key. The operation keeps its key because the request may have to be sent again.
#ifndef SKUA_KVSTORE_CLIENT_KEY_TEXT_H_
#define SKUA_KVSTORE_CLIENT_KEY_TEXT_H_

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace skua::kv {

/// Keys of up to kInsideMax bytes are stored inside the object, without an allocation. Longer keys are stored in a
/// string, whose memory is kept for the next long key.
class KeyText {
 public:
  static constexpr size_t kInsideMax = 56;

  KeyText() = default;
  KeyText(const KeyText&) = delete;
  KeyText& operator=(const KeyText&) = delete;

  void assign(std::string_view key) {
    size_ = key.size();
    if (size_ <= kInsideMax) [[likely]] {
      if (size_ > 0) std::memcpy(inside_.data(), key.data(), size_);
    } else {
      outside_.assign(key);
    }
  }
  /// Valid until the next assign().
  [[nodiscard]] std::string_view view() const {
    return {size_ <= kInsideMax ? inside_.data() : outside_.data(), size_};
  }
  operator std::string_view() const { return view(); }  // NOLINT(google-explicit-constructor): as in std::string

 private:
  size_t size_ = 0;
  std::array<char, kInsideMax> inside_{};
  std::string outside_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_KEY_TEXT_H_
