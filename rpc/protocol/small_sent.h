// What a small call sends: a message, which the sslot then holds, or a few bytes, of which the sslot keeps a copy. Both
// are written into a record once, and stay available to be written again until the peer is known to have them.
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

/// A message to be sent. The sslot holds it.
class SentMessage {
 public:
  explicit SentMessage(MessagePtr& message) : message_(message) {}
  [[nodiscard]] size_t size() const { return message_->size(); }
  /// Writes the message into a record, and keeps the message in the sslot. Copies may write beyond the record's end, up
  /// to a whole vector.
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
    // A copy of fixed size is cheaper. Both buffers have room for it.
    if (bytes <= kWholeVectors) return static_cast<void>(std::memcpy(to, head, kWholeVectors));
    std::memcpy(to, head, bytes);
  }

  MessagePtr& message_;
};

/// A few bytes to be sent. The sslot keeps a copy.
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

  /// Copies two halves that overlap. This needs no loop, and reads no byte outside of the source.
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
