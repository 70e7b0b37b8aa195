// memcached's meta protocol as the binding needs it: commands appended to a buffer, replies parsed in the buffer that
// they were received into.
//
//   mg user1 v c\r\n                  VA 13 c42\r\n<13 bytes>\r\n      or EN\r\n: not there
//   ms user1 13 C42\r\n<13 bytes>\r\n HD\r\n      or NS: not stored, EX: stored by somebody else since, NF: not there
//   md user1\r\n                      HD\r\n      or NF
//
// Anything may be answered with ERROR, CLIENT_ERROR text or SERVER_ERROR text instead.
#ifndef SKUA_YCSB_BINDINGS_MEMCACHED_PROTOCOL_H_
#define SKUA_YCSB_BINDINGS_MEMCACHED_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ycsb/bindings/receive_buffer.h"
#include "ycsb/bindings/send_buffer.h"

namespace skua::ycsb {

/// Bytes of a key at most.
inline constexpr size_t kMemcachedKeyMax = 250;

/// Whether memcached takes it: not empty, not too long, no blanks, no control characters.
[[nodiscard]] bool is_memcached_key(std::string_view key);

/// Appends commands; keys must be memcached keys.
class MemcachedCommands {
 public:
  void get(std::string_view key, bool with_version);
  enum class StoreIf : uint8_t { kAlways, kPresent };
  void set(std::string_view key, std::string_view value, StoreIf condition);
  /// Stores if the item's version is still `version`.
  void set_version(std::string_view key, std::string_view value, uint64_t version);
  void remove(std::string_view key);

  [[nodiscard]] std::string_view unsent() const { return buffer_.unsent(); }
  void mark_sent(size_t count) { buffer_.mark_sent(count); }

 private:
  void begin_set(std::string_view key, size_t size);

  SendBuffer buffer_;
};

struct MemcachedReply {
  enum class Kind : uint8_t { kDone, kValue, kMiss, kNotStored, kExists, kNotFound, kError };

  Kind kind = Kind::kDone;
  /// kValue: the value. kError: the line.
  std::string_view text;
  /// kValue: the item's version, if asked for.
  uint64_t version = 0;
};

class MemcachedReplies {
 public:
  enum class Progress : uint8_t { kReply, kNeedMore, kBroken };

  /// Where to receive into; never empty. Invalidates the last reply.
  [[nodiscard]] std::span<char> room() { return buffer_.room(wanted_); }
  /// So many bytes of room() have been filled.
  void received(size_t count) { buffer_.received(count); }
  /// Parses on. kReply: reply() is the next one, until room() is called. kBroken: not memcached's protocol; no way on.
  [[nodiscard]] Progress next();
  [[nodiscard]] const MemcachedReply& reply() const { return reply_; }

 private:
  [[nodiscard]] bool parse_value_line(std::string_view line, size_t& size);

  ReceiveBuffer buffer_;
  size_t wanted_ = 0;  // bytes that the next reply needs in all, as far as known
  MemcachedReply reply_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_MEMCACHED_PROTOCOL_H_
