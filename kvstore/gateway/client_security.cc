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

}  // namespace

absl::StatusOr<ClientSecurity> load_client_security(const ClientSecurityFiles& files,
                                                    const std::map<uint32_t, std::string>& databases) {
  ClientSecurity out;
  if (!files.tls.empty()) {
    absl::StatusOr<std::shared_ptr<const TlsContext>> tls = TlsContext::load(files.tls);
    if (!tls.ok()) return tls.status();
    out.tls = *std::move(tls);
  }
  if (!files.users.empty()) {
    absl::StatusOr<std::shared_ptr<const UserTable>> users = load_users(files.users, databases);
    if (!users.ok()) return users.status();
    out.users = *std::move(users);
  }
  return out;
}

std::string file_stamp(const std::string& path) {
  struct stat found {};
  if (path.empty() || stat(path.c_str(), &found) != 0) return "none";
  return absl::StrCat(found.st_dev, ".", found.st_ino, ".", found.st_size, ".", found.st_mtim.tv_sec, ".",
                      found.st_mtim.tv_nsec, ".", found.st_ctim.tv_sec, ".", found.st_ctim.tv_nsec);
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
  while (!stopped.wait_for(lock, stop, kLookEvery, [&stop] { return stop.stop_requested(); })) look();
}

void ClientSecurityWatch::look() {
  bool is_other = false;
  if (!files_.tls.empty() && tls_.have_changed(tls_stamp(files_.tls))) {
    absl::StatusOr<std::shared_ptr<const TlsContext>> tls = TlsContext::load(files_.tls);
    say(files_.tls.certificate, tls.status(), tls_trouble_);
    if (tls.ok()) {
      now_.tls = *std::move(tls);
      tls_.take();
      is_other = true;
    }
  }
  if (!files_.users.empty() && users_.have_changed(file_stamp(files_.users))) {
    absl::StatusOr<std::shared_ptr<const UserTable>> users = load_users(files_.users, databases_);
    say(files_.users, users.status(), users_trouble_);
    if (users.ok()) {
      now_.users = *std::move(users);
      users_.take();
      is_other = true;
    }
  }
  has_looked_ = has_looked_ || is_other;
  if (is_other) on_changed_(now_);
}

/// `trouble`: what was said of the files before. What cannot be used is tried again and again: one line is enough.
void ClientSecurityWatch::say(std::string_view path, const absl::Status& status, std::string& trouble) const {
  const std::string before = std::exchange(trouble, std::string(status.message()));
  if (!report_ || (!status.ok() && trouble == before)) return;
  if (!status.ok()) {
    const std::string why(status.message());
    report_(true, "changed files about clients cannot be used, those before stay in use", path, why);
  } else if (has_looked_ || !before.empty()) {
    report_(false, "files about clients were read again", path, "");
  }
}

}  // namespace skua::kv::gateway
