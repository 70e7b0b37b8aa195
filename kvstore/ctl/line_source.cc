#include "kvstore/ctl/line_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {
namespace {

constexpr size_t kSourceBlockBytes = size_t{256} << 10;

[[noreturn]] void cannot_read(const std::string& name, const std::string& why) {
  fail_usage(absl::StrCat("cannot read ", name, why.empty() ? "" : ": ", why));
}

}  // namespace

LineSource::LineSource(const std::string& path, size_t line_bytes_max)
    : name_(path == "-" ? "standard input" : path),
      fd_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      owns_fd_(path != "-"),
      line_bytes_max_(line_bytes_max),
      splitter_(line_bytes_max),
      block_(kSourceBlockBytes, '\0') {
  if (path.empty()) cannot_read("the file", "its name is empty");
  struct stat file = {};
  if (fd_ < 0 || fstat(fd_, &file) != 0) cannot_read(name_, std::generic_category().message(errno));
  if (S_ISDIR(file.st_mode)) cannot_read(name_, "it is a directory");
  // A command in a shell's script has a standard input that cannot be read: what is there are commands.
  if ((fcntl(fd_, F_GETFL) & O_ACCMODE) == O_WRONLY) cannot_read(name_, "");
  if (isatty(fd_) != 0) std::fprintf(stderr, "%s: reads from the terminal; Ctrl-D ends it\n", kProgram);
}

LineSource::~LineSource() {
  if (owns_fd_) close(fd_);
}

absl::StatusOr<bool> LineSource::read_block() {
  pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, 0) == 0) return false;
  const ssize_t got = read(fd_, block_.data(), block_.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (got < 0) return absl::ErrnoToStatus(errno, name_);
  if (got == 0) {
    splitter_.end();
  } else {
    splitter_.add(std::string_view(block_).substr(0, static_cast<size_t>(got)));
  }
  return true;
}

absl::StatusOr<std::optional<std::string_view>> LineSource::next() {
  for (;;) {
    if (const std::optional<std::string_view> line = splitter_.next()) return line;
    if (splitter_.is_too_long()) {
      return absl::InvalidArgumentError(absl::StrCat("has more than ", with_commas(line_bytes_max_), " bytes"));
    }
    if (splitter_.is_ended()) {
      has_ended_ = true;
      return std::nullopt;
    }
    const absl::StatusOr<bool> read = read_block();
    if (!read.ok()) return read.status();
    if (!*read) return std::nullopt;
  }
}

}  // namespace skua::kv::ctl
