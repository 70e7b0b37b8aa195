#include "kvstore/storage/shard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/owned_fd.h"
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
  const size_t dash = name.find('-');
  if (dash == std::string::npos || !absl::SimpleAtoi(name.substr(0, dash), &id.table_id) ||
      !absl::SimpleAtoi(name.substr(dash + 1), &id.shard) || shard_name(id) != name) {
    return std::nullopt;
  }
  return id;
}

absl::Status visit_names(const std::string& directory, absl::FunctionRef<void(const std::string& name)> visit) {
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    visit(it->path().filename().string());
  }
  return code ? io_error("listing", directory, code) : absl::OkStatus();
}

absl::StatusOr<std::set<uint32_t>> log_numbers(const std::string& data_dir) {
  const std::string parent = logs_dir(data_dir);
  std::set<uint32_t> numbers;
  std::error_code error;
  if (!fs::exists(parent, error)) {
    if (error) return io_error("looking for", parent, error);
    return numbers;
  }
  absl::Status listed = visit_names(parent, [&numbers](const std::string& name) {
    uint32_t number = 0;
    const bool is_log = absl::SimpleAtoi(name, &number) && number < kLogsMax && absl::StrCat(number) == name;
    if (is_log) numbers.insert(number);
  });
  if (!listed.ok()) return listed;
  return numbers;
}

bool has_shards(const std::string& data_dir) {
  bool found = false;
  (void)visit_names(shards_dir(data_dir),
                    [&found](const std::string& name) { found |= parse_shard_name(name).has_value(); });
  return found;
}

absl::Status check_no_log_is_missing(const std::string& data_dir) {
  const absl::StatusOr<std::set<uint32_t>> numbers = log_numbers(data_dir);
  if (!numbers.ok()) return numbers.status();
  uint32_t missing = 0;
  while (numbers->contains(missing)) ++missing;
  const bool is_gap = !numbers->empty() && missing < *numbers->rbegin();
  if (!is_gap && (missing > 0 || !has_shards(data_dir))) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "there is no ", log_dir(data_dir, missing),
      ", which the node has made: writes that it acknowledged may be lost with it. Put the directory back, or restore "
      "the whole data directory from a backup. If other nodes have replicas of all of this node's shards, start it "
      "with "
      "an empty data directory: it is a new node then, and learns the shards; remove the old one with `skuactl node "
      "remove --force`"));
}

absl::Status missing_database(const std::string& shards_dir, ShardId id) {
  return absl::DataLossError(absl::StrCat(
      "there is no ", shards_dir, "/", shard_name(id),
      ", which the node has made: writes that it acknowledged may be lost with it. If the directory still exists "
      "elsewhere, put it back while the node is stopped"));
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
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return io_error("opening", path, errno);
  return ::fsync(fd.get()) == 0 ? absl::OkStatus() : io_error("syncing", path, errno);
}

absl::Status remove_tree(const std::string& path) {
  std::error_code code;
  fs::remove_all(path, code);
  return code ? io_error("removing", path, code) : absl::OkStatus();
}

absl::Status remove_leftovers(const std::string& directory) {
  std::vector<std::string> leftovers;
  absl::Status listed = visit_names(directory, [&](const std::string& name) {
    if (name.starts_with(kNewPrefix) || name.starts_with(kIngestPrefix) || name.starts_with(kTrashPrefix)) {
      leftovers.push_back(absl::StrCat(directory, "/", name));
    }
  });
  if (!listed.ok()) return listed;
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
