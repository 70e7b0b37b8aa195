// MemcachedParser: from the bytes of a client of memcached's text protocol to commands. Pure.
//
//   get a b CRLF                          a line of words
//   set a 0 60 5 CRLF hello CRLF          a line that announces a block, and the block:
//                                         set add replace append prepend cas ms
//
// A block becomes the last word of its command. Words of a line are parted by blanks; the line may end in LF alone. The
// bytes may be cut anywhere: the commands are the same.
//
// What is wrong with a line that announces a block is found here, because it decides whether a block follows. As in
// memcached, the block of a line that makes no sense is not skipped: its bytes are the next lines. The block of a line
// that is understood and refused is skipped.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_PARSER_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvstore/gateway/command_arguments.h"
#include "kvstore/gateway/wire_protocol.h"

namespace skua::kv::gateway {

/// Bytes of a line, without its end. Lines of get, gets, gat and gats, which may name many keys, may be longer.
inline constexpr size_t kMemcachedLineBytesMax = 2048;
inline constexpr size_t kMemcachedKeysLineBytesMax = size_t{1} << 20;
inline constexpr size_t kMemcachedKeyBytesMax = 250;
inline constexpr int64_t kMemcachedBlockBytesMax = int64_t{16} << 20;
/// Words of a meta command, with its name and its key.
inline constexpr size_t kMemcachedMetaWordsMax = 19;

/// One per connection. Holds what came of an unfinished command: a line, or a line and its block. It grows with the
/// bytes that came, not with those that were announced.
class MemcachedParser {
 public:
  using Found = WireProtocol::Found;

  /// After kBroken all later calls say kBroken as well. `is_restricted`: the client has not authenticated. Lines and
  /// blocks beyond kMemcachedLineBytesMax end it.
  [[nodiscard]] Found parse(std::string_view& input, bool is_restricted = false);

  /// The command that parse() found. The caller may move it away; the next parse() clears it. Keys of meta commands
  /// with the flag `b` are decoded. Words of a command with a block: as many as the line has, and the block.
  [[nodiscard]] CommandArguments& arguments() { return arguments_; }
  /// What memcached says, without the line's end. Empty: the command was sent with noreply.
  [[nodiscard]] std::string_view error() const { return error_; }
  /// Part of a command is here.
  [[nodiscard]] bool is_amid_command() const { return expects_ != Expects::kLine || !line_.empty(); }

 private:
  enum class Expects : uint8_t { kLine, kBlock, kBlockEnd, kSkipped, kNothing };

  Found take_line(std::string_view& input);
  Found take_words(std::string_view line);
  void take_block(std::string_view& input);
  Found take_block_end(std::string_view& input);
  void skip(std::string_view& input);
  Found refuse(std::string_view error);
  Found fail(std::string_view error);

  Expects expects_ = Expects::kLine;
  bool is_restricted_ = false;
  bool is_found_ = false;   // the latest parse() found a command
  bool is_silent_ = false;  // the command of the block was sent with noreply
  bool is_end_bad_ = false;
  std::string line_;       // the beginning of a line whose end has not come
  size_t bytes_left_ = 0;  // of the block, of its end, or of what is skipped
  CommandArguments arguments_;
  std::string_view error_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_PARSER_H_
