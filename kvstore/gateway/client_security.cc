#include "kvstore/gateway/client_security.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv::gateway {
namespace {

constexpr std::chrono::milliseconds kLookEvery{250};
/// A users file of kUsersMax users is smaller.
constexpr size_t kUsersFileBytesMax = size_t{16} << 20;

/// What tells one state of a file from another: its times, its size, and which file it is.
std::string file_stamp(const std::string& path) {
  struct stat found {};
  if (path.empty() || stat(path.c_str(), &found) != 0) return "none";
  return absl::StrCat(found.st_dev, ".", found.st_ino, ".", found.st_size, ".", found.st_mtim.tv_sec, ".",
                      found.st_mtim.tv_nsec, ".", found.st_ctim.tv_sec, ".", found.st_ctim.tv_nsec);
}

std::string tls_stamp(const TlsFiles& files) {
  return absl::StrCat(file_stamp(files.certificate), "|", file_stamp(files.key), "|", file_stamp(files.authorities));
}

absl::StatusOr<std::shared_ptr<const UserTable>> load_users(const std::string& path,
                                                            const std::map<uint32_t, std::string>& databases) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string why = std::generic_category().message(errno);
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be read: ", why));
  }
  std::string text(kUsersFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be read"));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kUsersFileBytesMax) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": larger than ", kUsersFileBytesMax, " bytes"));
  }
  absl::StatusOr<UserTable> table = UserTable::parse(text, databases);
  if (!table.ok()) return absl::FailedPreconditionError(absl::StrCat(path, ": ", table.status().message()));
  return std::make_shared<const UserTable>(*std::move(table));
}

/// Moves what was loaded to `out`.
template <typename T>
absl::Status take(absl::StatusOr<T> loaded, T& out) {
  if (!loaded.ok()) return loaded.status();
  out = *std::move(loaded);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClientSecurity> load_client_security(const ClientSecurityFiles& files,
                                                    const std::map<uint32_t, std::string>& databases) {
  ClientSecurity out;
  if (!files.tls.empty()) {
    if (absl::Status status = take(TlsContext::load(files.tls), out.tls); !status.ok()) return status;
  }
  if (!files.users.empty()) {
    if (absl::Status status = take(load_users(files.users, databases), out.users); !status.ok()) return status;
  }
  return out;
}

bool ChangedFiles::have_changed(const std::string& stamp) {
  const bool is_at_rest = stamp == seen_;
  seen_ = stamp;
  return is_at_rest && stamp != taken_;
}

ClientSecurityWatch::ClientSecurityWatch(ClientSecurityFiles files, std::map<uint32_t, std::string> databases,
                                         ClientSecurity now, ChangedFn on_changed, ReportFn report)
    : files_(std::move(files)),
      databases_(std::move(databases)),
      now_(std::move(now)),
      on_changed_(std::move(on_changed)),
      report_(std::move(report)) {}

void ClientSecurityWatch::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  const auto is_stopped = [&stop] { return stop.stop_requested(); };
  // wait_for() does not tell of a stop that comes when it begins.
  while (!stopped.wait_for(lock, stop, kLookEvery, is_stopped) && !is_stopped()) look();
}

void ClientSecurityWatch::look() {
  bool is_other = false;
  if (!files_.tls.empty() && tls_.have_changed(tls_stamp(files_.tls))) {
    is_other = note(files_.tls.certificate, take(TlsContext::load(files_.tls), now_.tls), tls_, tls_trouble_);
  }
  if (!files_.users.empty() && users_.have_changed(file_stamp(files_.users))) {
    is_other =
        note(files_.users, take(load_users(files_.users, databases_), now_.users), users_, users_trouble_) || is_other;
  }
  has_looked_ = has_looked_ || is_other;
  if (is_other) on_changed_(now_);
}

/// True: the files could be used. Tells the operator of it. `trouble`: what was said of the files before. What cannot
/// be used is tried again and again: one line is enough.
bool ClientSecurityWatch::note(std::string_view path, const absl::Status& status, ChangedFiles& files,
                               std::string& trouble) const {
  if (status.ok()) files.take();
  const std::string before = std::exchange(trouble, std::string(status.message()));
  if (!report_ || (!status.ok() && trouble == before)) return status.ok();
  if (!status.ok()) {
    const std::string why(status.message());
    report_(true, "changed files about clients cannot be used, those before stay in use", path, why);
  } else if (has_looked_ || !before.empty()) {
    report_(false, "files about clients were read again", path, "");
  }
  return status.ok();
}

}  // namespace skua::kv::gateway
