// A fuzzer's input as a sequence of decisions. Where it ends all further decisions are 0.
#ifndef SKUA_TESTS_FUZZ_FUZZ_INPUT_H_
#define SKUA_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "rpc/base/bytes.h"

namespace skua::fuzz {

class FuzzInput {
 public:
  explicit FuzzInput(ByteSpan bytes) : rest_(bytes) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }

  template <typename T>
  [[nodiscard]] T number() {
    T value{};
    const size_t size = std::min(sizeof value, rest_.size());
    if (size > 0) std::memcpy(&value, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return value;
  }
  [[nodiscard]] uint8_t byte() { return number<uint8_t>(); }
  /// 0 .. count - 1; count is 1 to 256.
  [[nodiscard]] size_t pick(size_t count) { return byte() % count; }
  [[nodiscard]] bool flag() { return byte() % 2 == 1; }
  /// Mostly not.
  [[nodiscard]] bool seldom() { return byte() % 16 == 15; }

  [[nodiscard]] ByteSpan take(size_t bytes) {
    const ByteSpan taken = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] ByteSpan take_rest() { return take(rest_.size()); }
  /// Up to 255 bytes, as long as the next byte says.
  [[nodiscard]] std::string short_text() { return std::string(as_string_view(take(byte()))); }

  /// A number that is, or is next to, `base`; or an edge; or any.
  [[nodiscard]] uint64_t near(uint64_t base) {
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
      case 3: return base;
      case 4: return base + 1;
      case 5: return base - 1;
      case 6: return 0;
      case 7: return UINT64_MAX;
      case 8: return UINT64_MAX - 1;
      case 9: return base + byte();
      case 10: return base - byte();
      default: return number<uint64_t>();
    }
  }

  /// Changes a few of the bytes, mostly none.
  void damage(std::string& bytes) {
    const uint8_t how = byte();
    if (how < 160) return;
    const size_t at = bytes.empty() ? 0 : number<uint16_t>() % bytes.size();
    switch (how % 5) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(byte());
        break;
      case 1: bytes.resize(at); break;
      case 2: bytes += short_text(); break;
      case 3: {
        const uint64_t value = near(0);
        for (size_t i = 0; i < sizeof value && at + i < bytes.size(); ++i) {
          bytes[at + i] = static_cast<char>(value >> (8 * i));
        }
        break;
      }
      default: bytes.insert(at, short_text());
    }
  }

 private:
  ByteSpan rest_;
};

}  // namespace skua::fuzz

#endif  // SKUA_TESTS_FUZZ_FUZZ_INPUT_H_
