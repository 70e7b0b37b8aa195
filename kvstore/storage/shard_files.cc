#include "kvstore/storage/shard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace skua::kv::files {
namespace fs = std::filesystem;

namespace {

constexpr uint32_t kLogsMax = 256;  // skuad takes no more workers

}  // namespace

std::string shards_dir(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/shards");
}

std::string logs_dir(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/log");
}

std::string log_dir(const std::string& data_dir, uint32_t worker) {
  return absl::StrCat(logs_dir(data_dir), "/", worker);
}

std::string shard_name(ShardId id) {
  return absl::StrCat(id.table_id, "-", id.shard);
}

std::optional<ShardId> parse_shard_name(const std::string& name) {
  ShardId id;
  const char* const end = name.data() + name.size();
  const auto table = std::from_chars(name.data(), end, id.table_id);
  if (table.ec != std::errc() || table.ptr == end || *table.ptr != '-') return std::nullopt;
  const auto shard = std::from_chars(table.ptr + 1, end, id.shard);
  if (shard.ec != std::errc() || shard.ptr != end || shard_name(id) != name) return std::nullopt;
  return id;
}

std::optional<uint32_t> parse_log_name(const std::string& name) {
  uint32_t worker = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, worker);
  if (parsed.ec != std::errc() || parsed.ptr != end || absl::StrCat(worker) != name) return std::nullopt;
  if (worker >= kLogsMax) return std::nullopt;
  return worker;
}

absl::Status io_error(const char* what, const std::string& path, const std::error_code& code) {
  const std::string text = absl::StrCat(what, " ", path, ": ", code.message());
  if (is_shortage(code.value())) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

absl::Status io_error(const char* what, const std::string& path, int error) {
  return io_error(what, path, std::error_code(error, std::generic_category()));
}

absl::Status sync(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("opening", path, errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error == 0 ? absl::OkStatus() : io_error("syncing", path, error);
}

absl::Status remove_tree(const std::string& path) {
  std::error_code code;
  fs::remove_all(path, code);
  return code ? io_error("removing", path, code) : absl::OkStatus();
}

absl::Status remove_leftovers(const std::string& directory) {
  std::error_code code;
  std::vector<std::string> leftovers;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kNewPrefix) || name.starts_with(kIngestPrefix) || name.starts_with(kTrashPrefix)) {
      leftovers.push_back(it->path().string());
    }
  }
  if (code) return io_error("listing", directory, code);
  for (const std::string& path : leftovers) {
    if (absl::Status removed = remove_tree(path); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::Status rename_and_sync(const std::string& from, const std::string& to, const std::string& parent) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) return io_error("renaming", absl::StrCat(from, " to ", to), code);
  return sync(parent);
}

}  // namespace skua::kv::files
