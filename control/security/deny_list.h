// DenyList: identities that are not let in, whatever their certificates say (control/core/revocation.h). Each process
// has one for the cluster that it is of. Servers ask it for each call, both sides of a connection when it is made.
#ifndef SKUA_CONTROL_SECURITY_DENY_LIST_H_
#define SKUA_CONTROL_SECURITY_DENY_LIST_H_

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/security/identity.h"

namespace skua::control {

/// Thread: any.
class DenyList {
 public:
  /// Replaces the list by that of a shard map. One of an older revision than the last is ignored: several parts of a
  /// process may follow the map.
  void update(uint64_t revision, const std::vector<std::string>& principals);

  /// The same, also by a list of an older revision. For who makes the maps: after its metadata was restored from a
  /// backup, revisions begin again at an older one.
  void replace(uint64_t revision, const std::vector<std::string>& principals);

  /// PERMISSION_DENIED, with what to do, if the identity is on the list.
  [[nodiscard]] absl::Status check(const Identity& identity) const;

 private:
  mutable std::mutex mutex_;
  uint64_t revision_ = 0;             // protected by mutex_
  std::set<std::string> principals_;  // protected by mutex_
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_DENY_LIST_H_
