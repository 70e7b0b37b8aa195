// RespWriter: replies in the protocol that the client chose: RESP2, or RESP3 after HELLO 3. Pure.
//
// A handler says what it means; the writer knows how each protocol says that. Maps are flat arrays in RESP2, and so on.
#ifndef SKUA_KVSTORE_GATEWAY_RESP_WRITER_H_
#define SKUA_KVSTORE_GATEWAY_RESP_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "kvstore/gateway/reply_bytes.h"

namespace skua::kv::gateway {

enum class RespVersion : uint8_t { kResp2 = 2, kResp3 = 3 };

/// Appends to a ReplyBytes, which must outlive the writer.
class RespWriter {
 public:
  RespWriter(ReplyBytes& out, RespVersion version) : out_(out), version_(version) {}

  /// "+OK". `text` has no line break.
  void simple(std::string_view text);
  void ok() { out_.append(std::string_view("+OK\r\n")); }
  /// "-ERR ...". `text` begins with the error's code. Line breaks become blanks.
  void error(std::string_view text);
  void integer(int64_t value) { header(':', value); }
  void bulk(std::string_view bytes);
  void bulk(ValueView&& value);
  /// One bulk string after the other.
  void bulks(std::initializer_list<std::string_view> all);
  /// If there is none: as null().
  void bulk_or_null(const std::optional<std::string_view>& bytes);
  /// Text for people: "txt:" in RESP3, a bulk string in RESP2.
  void verbatim(std::string_view text);
  void null() { null_of("$-1\r\n"); }
  /// Instead of an array: what EXEC says when a watched key has changed.
  void null_array() { null_of("*-1\r\n"); }
  /// So many replies follow.
  void array(size_t count) { header('*', static_cast<int64_t>(count)); }
  /// So many pairs of replies follow.
  void map(size_t count);
  /// So many replies follow, all different.
  void set(size_t count);

 private:
  void header(char kind, int64_t number);
  void null_of(std::string_view resp2);

  ReplyBytes& out_;
  const RespVersion version_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_RESP_WRITER_H_
