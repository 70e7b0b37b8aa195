// The Redis protocol (RESP2) as the binding needs it: commands appended to a buffer, and replies parsed in the buffer
// that they were received into, without an object per element.
//
//   command      *3\r\n $5\r\nHMGET\r\n $4\r\nuser\r\n $6\r\nfield0\r\n
//   reply        +OK\r\n   -ERR text\r\n   :17\r\n   $5\r\nvalue\r\n   $-1\r\n (nil)   *2\r\n and that many replies
//
// An array's elements are taken off the buffer as they come, so only one element has to be there as a whole.
#ifndef SKUA_YCSB_BINDINGS_REDIS_PROTOCOL_H_
#define SKUA_YCSB_BINDINGS_REDIS_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ycsb/bindings/receive_buffer.h"
#include "ycsb/bindings/send_buffer.h"

namespace skua::ycsb {

/// Appends one command: begin(count of arguments, the command's name included), then each argument.
class RedisCommands {
 public:
  void begin(size_t argument_count);
  void argument(std::string_view text);
  void argument(int64_t number);

  /// What is not sent yet.
  [[nodiscard]] std::string_view unsent() const { return buffer_.unsent(); }
  void mark_sent(size_t count) { buffer_.mark_sent(count); }

 private:
  SendBuffer buffer_;
};

/// One reply, as far as YCSB looks at it.
struct RedisReply {
  enum class Kind : uint8_t { kNone, kStatus, kError, kInteger, kNil, kString, kArray };

  Kind kind = Kind::kNone;
  int64_t integer = 0;
  /// kArray: how many elements, and how many of them are nil.
  size_t element_count = 0;
  size_t nil_count = 0;
  /// kStatus and kError: the text. Arrays of strings: the elements one after another, if they are
  /// kept; element i ends at ends[i].
  std::string text;
  std::vector<size_t> ends;

  [[nodiscard]] std::string_view element(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(text).substr(begin, ends[i] - begin);
  }
};

class RedisReplies {
 public:
  enum class Progress : uint8_t { kReply, kNeedMore, kBroken };

  /// Where to receive into; never empty.
  [[nodiscard]] std::span<char> room() { return buffer_.room(wanted_); }
  /// So many bytes of room() have been filled.
  void received(size_t count) { buffer_.received(count); }
  /// Parses on. kReply: reply() is the next one, until the next call. `keep_elements` must be the
  /// same for all calls about one reply. kBroken: not the Redis protocol; no way on.
  [[nodiscard]] Progress next(bool keep_elements);
  [[nodiscard]] const RedisReply& reply() const { return reply_; }

 private:
  Progress parse_one(bool keep_elements);
  Progress parse_string(size_t header_size, int64_t size, bool keep_elements);
  void take_string(std::string_view text, RedisReply::Kind kind, bool keep_elements);
  void take_nil(bool keep_elements);
  void skip_strings();

  ReceiveBuffer buffer_;
  size_t wanted_ = 0;  // bytes that the next piece needs in all, as far as known
  RedisReply reply_;
  uint64_t pieces_left_ = 0;  // of the reply; 0: it is complete
  bool top_ = true;           // the next piece is the reply itself, not an element
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_REDIS_PROTOCOL_H_
