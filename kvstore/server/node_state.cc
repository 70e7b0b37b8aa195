#include "kvstore/server/node_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

constexpr uint64_t kFormatVersion = 1;

std::string state_path(const std::string& data_dir) {
  return data_dir + "/state";
}

absl::Status io_error(const char* what, const std::string& path, int error) {
  const std::string text = absl::StrCat(what, " ", path, ": ", std::generic_category().message(error));
  return error == ENOSPC ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

/// The number in the next line "<name> = <number>"; moves `text` behind it.
std::optional<uint64_t> take_number(std::string_view& text, std::string_view name) {
  const std::string prefix = std::string(name) + " = ";
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr == text.data() + text.size() || *parsed.ptr != '\n') return std::nullopt;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()) + 1);
  return value;
}

absl::Status write_and_sync(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0) return io_error("creating", path, errno);
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : io_error("writing", path, error);
}

absl::Status sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io_error("opening", path, errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error == 0 ? absl::OkStatus() : io_error("syncing", path, error);
}

}  // namespace

std::string format_state(const NodeState& state) {
  return absl::StrCat("# Written by skuad. Do not edit.\nformat_version = ", kFormatVersion,
                      "\nincarnation = ", state.incarnation, "\nmap_revision = ", state.map_revision, "\n");
}

absl::StatusOr<NodeState> parse_state(std::string_view text) {
  if (text.starts_with("#")) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const auto version = take_number(text, "format_version");
  if (version && *version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("it has format ", *version, ", this build reads format ",
                                                      kFormatVersion, ": run the newer version of skuad"));
  }
  const auto incarnation = take_number(text, "incarnation");
  const auto revision = take_number(text, "map_revision");
  if (!version || !incarnation || !revision || !text.empty()) {
    return absl::DataLossError("it cannot be understood: restore it from a backup of the data directory");
  }
  return NodeState{*incarnation, *revision};
}

absl::StatusOr<NodeState> read_state(const std::string& data_dir) {
  const std::string path = state_path(data_dir);
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return NodeState{};
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::InternalError(absl::StrCat("reading ", path, " failed"));
  auto state = parse_state(text.view());
  if (!state.ok()) return absl::Status(state.status().code(), absl::StrCat(path, ": ", state.status().message()));
  return state;
}

absl::Status write_state(const std::string& data_dir, const NodeState& state) {
  const std::string path = state_path(data_dir);
  const std::string aside = path + ".new";
  if (absl::Status status = write_and_sync(aside, format_state(state)); !status.ok()) return status;
  if (::rename(aside.c_str(), path.c_str()) != 0) return io_error("renaming", aside, errno);
  return sync_directory(data_dir);
}

}  // namespace skua::kv
