// Byte spans and little-endian cursors. All code of the project reads and writes encoded bytes with these.
//
// ByteReader never reads past its end. After the first short read it is `!ok()` and yields zeros, so a decoder may read
// a whole record and check once. ByteWriter writes into a caller's buffer, and reports overflow in the same way.
#ifndef SKUA_RPC_BASE_BYTES_H_
#define SKUA_RPC_BASE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace skua {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

static_assert(std::endian::native == std::endian::little,
              "the wire format is little endian and is copied as it is; port load_le/store_le first");

/// Reads a little-endian integer at any alignment.
template <typename T>
[[nodiscard]] inline T load_le(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Writes a little-endian integer at any alignment.
template <typename T>
inline void store_le(std::byte* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof value);
}

/// Reads and writes a big-endian u64 at any alignment: encoded so, numbers have the order of their bytes.
[[nodiscard]] inline uint64_t load_be64(const void* from) {
  return __builtin_bswap64(load_le<uint64_t>(static_cast<const std::byte*>(from)));
}
inline void store_be64(void* to, uint64_t value) {
  store_le(static_cast<std::byte*>(to), __builtin_bswap64(value));
}

/// Appends the values one after the other, integers little endian.
template <typename... T>
inline void append_le(std::string& to, T... values) {
  static_assert((std::is_trivially_copyable_v<T> && ...));
  (to.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
}

[[nodiscard]] inline ByteSpan as_byte_span(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

[[nodiscard]] inline std::string_view as_string_view(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// memcpy that is legal for empty spans whose data() is null.
inline void copy_bytes(std::byte* to, ByteSpan from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

/// Sequential reader over bytes it does not own.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : rest_(bytes) {}

  /// The next integer, or 0 once the input is exhausted (see ok()).
  template <typename T>
  [[nodiscard]] T read() {
    if (rest_.size() < sizeof(T)) {
      fail();
      return T{};
    }
    T value = load_le<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }

  /// Reads all of `values` in order, as read() does.
  template <typename... T>
  void read_into(T&... values) {
    ((values = read<T>()), ...);
  }

  /// The next `count` bytes as a view into the input, or an empty span.
  [[nodiscard]] ByteSpan read_bytes(size_t count) {
    if (rest_.size() < count) {
      fail();
      return {};
    }
    ByteSpan taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  /// Reads a length, as a `Length`, and then a byte string of this length.
  template <typename Length>
  [[nodiscard]] ByteSpan read_prefixed() {
    return read_bytes(read<Length>());
  }

  /// All bytes that are left.
  [[nodiscard]] ByteSpan read_rest() { return read_bytes(rest_.size()); }

  [[nodiscard]] size_t remaining() const { return rest_.size(); }
  /// False once any read asked for more than there was.
  [[nodiscard]] bool ok() const { return ok_; }
  /// True if every read succeeded and nothing is left over.
  [[nodiscard]] bool complete() const { return ok_ && rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }

  ByteSpan rest_;
  bool ok_ = true;
};

/// Sequential writer into a fixed buffer it does not own.
class ByteWriter {
 public:
  explicit ByteWriter(MutableByteSpan buffer) : buffer_(buffer) {}

  template <typename T>
  void write(T value) {
    if (!has_room(sizeof(T))) return;
    store_le(buffer_.data() + size_, value);
    size_ += sizeof(T);
  }

  /// Writes the values in order.
  template <typename... T>
  void write_all(T... values) {
    (write(values), ...);
  }

  void write_bytes(ByteSpan bytes) {
    if (!has_room(bytes.size())) return;
    copy_bytes(buffer_.data() + size_, bytes);
    size_ += bytes.size();
  }

  template <typename Length>
  void write_prefixed(ByteSpan bytes) {
    write(static_cast<Length>(bytes.size()));
    write_bytes(bytes);
  }

  /// Bytes written so far.
  [[nodiscard]] size_t size() const { return size_; }
  /// False once a write did not fit; the buffer's contents are then incomplete.
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] ByteSpan written() const { return buffer_.first(size_); }

 private:
  bool has_room(size_t count) {
    ok_ = ok_ && buffer_.size() - size_ >= count;
    return ok_;
  }

  MutableByteSpan buffer_;
  size_t size_ = 0;
  bool ok_ = true;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_BYTES_H_
