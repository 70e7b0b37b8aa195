// RespParser: from the bytes of a Redis client to commands. Pure.
//
// A command comes in one of two forms. The first byte decides:
//
//   *2 CRLF $3 CRLF GET CRLF $1 CRLF a CRLF        an array of bulk strings: what clients send
//   GET a CRLF                                     a line (inline): what people type; words may be quoted
//
// The bytes may be cut anywhere: the commands are the same. Commands without words (an empty line, *0) are skipped. The
// rules, also for what is wrong, are those of Redis 7.0, with two limits of the gateway's own: the bytes of an argument
// and of a command.
#ifndef SKUA_KVSTORE_GATEWAY_RESP_PARSER_H_
#define SKUA_KVSTORE_GATEWAY_RESP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvstore/gateway/command_arguments.h"

namespace skua::kv::gateway {

/// Bytes of an inline command, or of a line with a count.
inline constexpr size_t kRespLineBytesMax = size_t{64} << 10;
inline constexpr int64_t kRespArgumentsMax = 1024 * 1024;
/// Bytes of one argument: a value, and some more, so that a value that is a little too large gets an answer of its own.
inline constexpr int64_t kRespArgumentBytesMax = (int64_t{16} << 20) + (int64_t{64} << 10);
/// Of a client that has not authenticated: arguments, and bytes of one.
inline constexpr int64_t kRespRestrictedArgumentsMax = 10;
inline constexpr int64_t kRespRestrictedArgumentBytesMax = 16 * 1024;
/// Bytes of all arguments of one command.
inline constexpr size_t kRespCommandBytesMax = size_t{64} << 20;

/// One per connection. Holds what came of an unfinished command: at most kRespCommandBytesMax, and 4 bytes for each
/// argument. It grows with the bytes that came, not with those that were announced.
class RespParser {
 public:
  enum class Found : uint8_t { kNothing, kCommand, kError };

  /// Takes bytes from the front of `input` until there is a command or an error, or nothing is left.
  /// kNothing: all of `input` was taken, and more is needed. kCommand: see arguments(). kError: see error(); the stream
  /// cannot be followed any longer, and all later calls say kError as well.
  /// `is_restricted`: the client has not authenticated.
  [[nodiscard]] Found parse(std::string_view& input, bool is_restricted = false);

  /// The command that parse() found. The caller may move it away; the next parse() clears it.
  [[nodiscard]] CommandArguments& arguments() { return arguments_; }
  /// What Redis says, without the leading "ERR".
  [[nodiscard]] const std::string& error() const { return error_; }
  /// Part of a command is here.
  [[nodiscard]] bool is_amid_command() const { return expects_ != Expects::kStart; }

 private:
  enum class Expects : uint8_t { kStart, kInline, kCount, kLength, kBytes, kLineEnd, kNothing };

  bool take_usual(std::string_view& input);
  Found take_inline(std::string_view& input);
  Found take_count(std::string_view& input);
  Found take_length(std::string_view& input);
  void take_bytes(std::string_view& input);
  Found take_line_end(std::string_view& input);
  [[nodiscard]] std::optional<std::string_view> take_line(std::string_view& input, char end, size_t more);
  Found without_line(char end, std::string_view error);
  Found fail(std::string text);

  Expects expects_ = Expects::kStart;
  bool is_restricted_ = false;
  bool is_found_ = false;  // the latest parse() found a command
  /// The beginning of a line whose end has not come, or a whole line that was cut.
  std::string line_;
  bool is_line_whole_ = false;
  int64_t arguments_left_ = 0;
  size_t bytes_left_ = 0;  // of the argument, or of its line's end
  CommandArguments arguments_;
  std::string error_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_RESP_PARSER_H_
