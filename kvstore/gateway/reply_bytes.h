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
/// Bytes of lent values that one connection holds, from the answer of the store until the kernel has taken them.
/// Further values are copied: a client that reads slowly must not keep the memory that all answers are received in. One
/// value of any size may be lent if there is no other; what the kernel does not take of it at once is copied then.
inline constexpr size_t kPinnedBytesMax = size_t{256} << 10;

/// Bytes that all connections of a thread hold so: a quarter of what a client of the cluster takes for messages
/// (ClientOptions::memory_limit_bytes).
inline constexpr size_t kPinnedBytesTotalMax = size_t{256} << 20;

/// The lent bytes of all connections of a thread.
struct PinnedTotal {
  size_t count = 0;
  size_t max = kPinnedBytesTotalMax;
};

/// Counts a connection's lent bytes.
class PinnedBytes {
 public:
  /// `total` must outlive the object; null: this connection is the only one.
  explicit PinnedBytes(PinnedTotal* total = nullptr) : total_(total) {}

  [[nodiscard]] bool try_add(size_t bytes) {
    if (count_ > 0 && (count_ > kPinnedBytesMax || bytes > kPinnedBytesMax - count_)) return false;
    if (total_ != nullptr && bytes > total_->max - total_->count) return false;
    if (total_ != nullptr) total_->count += bytes;
    count_ += bytes;
    return true;
  }
  void remove(size_t bytes) {
    if (total_ != nullptr) total_->count -= bytes;
    count_ -= bytes;
  }
  [[nodiscard]] bool is_beyond_limit() const { return count_ > kPinnedBytesMax; }
  [[nodiscard]] size_t count() const { return count_; }

 private:
  PinnedTotal* total_;
  size_t count_ = 0;
};

/// A value. Thread: the client's that lent the values.
class ReplyBytes {
 public:
  /// Copies all values.
  ReplyBytes() = default;
  /// `pinned` must outlive the object.
  explicit ReplyBytes(PinnedBytes& pinned) : pinned_(&pinned) {}
  ReplyBytes(const ReplyBytes&) = delete;
  ReplyBytes& operator=(const ReplyBytes&) = delete;
  ~ReplyBytes() { clear(); }

  struct Lent {
    size_t at;  ///< the value goes out before text()[at]
    ValueView value;
  };

  /// Where lent bytes are counted; null: values are copied. Only while the object is empty.
  void set_pinned(PinnedBytes* pinned) { pinned_ = pinned; }

  void append(std::string_view bytes) { text_.append(bytes); }
  void append(char byte) { text_.push_back(byte); }
  /// Keeps the value, or copies it if it is small or the connection holds too many already.
  void append(ValueView&& value) {
    const bool is_lent = value.size() >= kLentBytesMin && pinned_ != nullptr && pinned_->try_add(value.size());
    if (!is_lent) {
      text_.reserve(text_.size() + value.size() + kLineEndBytes);  // what follows needs no other memory
      return append(value.bytes());
    }
    lent_bytes_ += value.size();
    lent_.push_back({text_.size(), std::move(value)});
  }
  void clear() {
    if (lent_bytes_ > 0) pinned_->remove(std::exchange(lent_bytes_, 0));
    lent_.clear();
    text_.clear();
    if (text_.capacity() > kKeptBytesMax) std::string().swap(text_);
  }
  /// Moves everything out; whoever takes the values counts them as pinned from now on.
  void take(std::string& text, std::vector<Lent>& lent) {
    text.swap(text_);
    lent.swap(lent_);
    lent_bytes_ = 0;
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<Lent>& lent() const { return lent_; }
  [[nodiscard]] size_t size() const { return text_.size() + lent_bytes_; }
  [[nodiscard]] bool empty() const { return size() == 0; }

 private:
  static constexpr size_t kKeptBytesMax = 4096;
  static constexpr size_t kLineEndBytes = 2;

  PinnedBytes* pinned_ = nullptr;
  std::string text_;
  std::vector<Lent> lent_;
  size_t lent_bytes_ = 0;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_REPLY_BYTES_H_
