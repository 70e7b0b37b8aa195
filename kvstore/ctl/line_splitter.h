// Cuts bytes that come in blocks into lines, with a limit of a line's length. Pure.
#ifndef SKUA_KVSTORE_CTL_LINE_SPLITTER_H_
#define SKUA_KVSTORE_CTL_LINE_SPLITTER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace skua::kv::ctl {

/// Holds a line of `line_bytes_max` and a block at most, if lines are taken before the next block is added.
class LineSplitter {
 public:
  explicit LineSplitter(size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {}

  void add(std::string_view block);
  /// There are no more blocks. What is left is a line, unless it is empty.
  void end() { ended_ = true; }

  /// The next line, without its line break; valid until the next call of add(). Nothing: there is no whole line, or
  /// the next one is too long.
  std::optional<std::string_view> next();

  /// The next line has more bytes than a line may have. It stays so.
  [[nodiscard]] bool is_too_long() const { return too_long_; }
  [[nodiscard]] bool is_ended() const { return ended_; }

 private:
  const size_t line_bytes_max_;
  std::string bytes_;
  size_t begin_ = 0;     // of the next line
  size_t searched_ = 0;  // from begin_ to here there is no line break
  bool ended_ = false;
  bool too_long_ = false;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_LINE_SPLITTER_H_
