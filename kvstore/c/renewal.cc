#include "kvstore/c/renewal.h"

#include <cstdint>
#include <map>
#include <utility>

#include "kvstore/c/origin.h"

namespace skua::c {
namespace {

/// After fork() the threads of the parent's keepers are not there: a child has keepers of its own.
using Key = std::pair<uint32_t, std::string>;

struct Registry {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<Renewal>> renewals;  // protected by mutex; by the path of the certificate
};

/// Never destroyed: clients may be, while the program ends.
Registry& registry() {
  static Registry& made = *new Registry;  // NOLINT(cppcoreguidelines-owning-memory)
  return made;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Renewal>> Renewal::of(const kv::ClientOptions& options) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.renewals, [](const auto& entry) { return entry.second.expired(); });
  const Key key{fork_count(), options.credentials.certificate};
  if (const auto found = all.renewals.find(key); found != all.renewals.end()) {
    if (std::shared_ptr<Renewal> known = found->second.lock(); known != nullptr) return known;
  }
  auto made = std::make_shared<Renewal>();
  auto keeper = kv::CertificateKeeper::start(
      options.control_address, options.credentials,
      [&made = *made](bool warning, const std::string& line) { made.hear(warning, line); });
  if (!keeper.ok()) return keeper.status();
  made->keeper_ = *std::move(keeper);
  all.renewals[key] = made;
  return made;
}

absl::Status Renewal::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_.empty() ? absl::OkStatus() : absl::UnavailableError(trouble_);
}

void Renewal::hear(bool warning, const std::string& line) {
  const std::lock_guard lock(mutex_);
  trouble_ = warning ? line : "";
}

}  // namespace skua::c
