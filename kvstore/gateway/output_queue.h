// OutputQueue: bytes on their way to one client, in order. Pure: the caller writes them to a socket.
#ifndef SKUA_KVSTORE_GATEWAY_OUTPUT_QUEUE_H_
#define SKUA_KVSTORE_GATEWAY_OUTPUT_QUEUE_H_

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/gateway/reply_bytes.h"

namespace skua::kv::gateway {

/// Thread: the client's that lent the values.
class OutputQueue {
 public:
  explicit OutputQueue(PinnedBytes& pinned) : pinned_(pinned) {}
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;
  ~OutputQueue();

  /// Moves a reply to the end. The reply is empty then.
  void append(ReplyBytes& reply);
  /// Writes the first pieces to `pieces`; returns how many. They are valid until consume().
  [[nodiscard]] size_t peek(std::span<std::string_view> pieces) const;
  /// The first `bytes` bytes are out.
  void consume(size_t bytes);
  /// The kernel takes no more for now. Copies lent values until they are within kPinnedBytesMax.
  void unpin_excess();

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  struct Piece {
    std::string text;
    ValueView value;  // if not empty, it is the piece
    [[nodiscard]] std::string_view bytes() const { return value.size() > 0 ? value.bytes() : text; }
  };
  void append_text(std::string_view text);
  void pop_front();

  PinnedBytes& pinned_;
  std::deque<Piece> pieces_;
  std::string spare_text_;  // memory of a piece that is out, for the next one
  size_t sent_ = 0;         // of the first piece
  size_t size_ = 0;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_OUTPUT_QUEUE_H_
