// What small calls send: a message, which the sslot then holds, or a few bytes, of which it keeps a copy. Either is
// written to the record once, and is there to be written again until the peer is known to have it.
#ifndef SKUA_RPC_PROTOCOL_SMALL_SENT_H_
#define SKUA_RPC_PROTOCOL_SMALL_SENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rpc/base/bytes.h"
#include "rpc/base/message.h"
#include "rpc/protocol/small_slots.h"

namespace skua::rpc {

/// What is sent, a message: the sslot holds it.
class SentMessage {
 public:
  explicit SentMessage(MessagePtr& message) : message_(message) {}
  [[nodiscard]] size_t size() const { return message_->size(); }
  /// Writes it to a record, which has room for whole vectors, and keeps it.
  [[gnu::always_inline]] inline void put(std::byte* record, uint32_t bytes, Kept& kept, FewBytes& /*few*/) {
    write(record, bytes);
    kept.message = message_.leak();
  }

 private:
  [[gnu::always_inline]] inline void write(std::byte* to, uint32_t bytes) const {
    constexpr size_t kWholeVectors = 32;
    static_assert(kWholeVectors <= Message::kHeadMax);
    if (message_->body_count() > 0) [[unlikely]] {
      return message_->copy_to(to);
    }
    const std::byte* head = message_->head().data();
    // Cheaper, and both have room behind.
    if (bytes <= kWholeVectors) return static_cast<void>(std::memcpy(to, head, kWholeVectors));
    std::memcpy(to, head, bytes);
  }

  MessagePtr& message_;
};

/// What is sent, a few bytes: the sslot keeps a copy.
class SentBytes {
 public:
  /// At most FewBytes::kMax.
  explicit SentBytes(ByteSpan bytes) : bytes_(bytes) {}
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[gnu::always_inline]] inline void put(std::byte* record, uint32_t bytes, Kept& kept, FewBytes& few) {
    kept.few_count = static_cast<uint8_t>(bytes);
    if (bytes > 2 * kVector) {
      put_halves<2 * kVector>(record, bytes, few);
    } else if (bytes >= kVector) {
      put_halves<kVector>(record, bytes, few);
    } else {
      copy_bytes(record, bytes_);
      copy_bytes(few.at, bytes_);
    }
  }

 private:
  static constexpr size_t kVector = 16;
  static_assert(FewBytes::kMax <= 4 * kVector);

  /// Two halves that overlap: no loop, and no byte in front or behind is read.
  template <size_t kHalf>
  [[gnu::always_inline]] inline void put_halves(std::byte* record, uint32_t bytes, FewBytes& few) const {
    std::array<std::byte, kHalf> first;
    std::array<std::byte, kHalf> last;
    std::memcpy(first.data(), bytes_.data(), kHalf);
    std::memcpy(last.data(), bytes_.data() + bytes - kHalf, kHalf);
    for (std::byte* to : {record, few.at}) {
      std::memcpy(to, first.data(), kHalf);
      std::memcpy(to + bytes - kHalf, last.data(), kHalf);
    }
  }

  ByteSpan bytes_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SMALL_SENT_H_
