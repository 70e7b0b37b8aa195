// Lines of a file or of standard input, for a command that has other work while there are none.
#ifndef SKUA_KVSTORE_CTL_LINE_SOURCE_H_
#define SKUA_KVSTORE_CTL_LINE_SOURCE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/ctl/line_splitter.h"

namespace skua::kv::ctl {

/// Thread: one.
class LineSource {
 public:
  /// `path`, or `-` for standard input. Ends the program with a usage error if it cannot be read.
  LineSource(const std::string& path, size_t line_bytes_max);
  ~LineSource();
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;

  /// The next line, without its line break; valid until the next call. Nothing: there is none now, or the source
  /// has_ended(). Does not wait for a pipe. INVALID_ARGUMENT: the line is too long. Other errors: it cannot be read.
  absl::StatusOr<std::optional<std::string_view>> next();
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  /// Reads a block. False: there is none now.
  absl::StatusOr<bool> read_block();

  const std::string name_;
  const int fd_;
  const bool owns_fd_;
  const size_t line_bytes_max_;
  LineSplitter splitter_;
  std::string block_;
  bool has_ended_ = false;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_LINE_SOURCE_H_
