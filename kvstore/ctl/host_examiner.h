// What the doctors of transports share: they read a machine's files, and judge by whether the transport is to be used.
#ifndef SKUA_KVSTORE_CTL_HOST_EXAMINER_H_
#define SKUA_KVSTORE_CTL_HOST_EXAMINER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "kvstore/ctl/finding.h"
#include "kvstore/ctl/host_files.h"

namespace skua::kv::ctl {

class HostExaminer : public Findings {
 protected:
  /// `root`: the directory that holds the machine's files. `wanted`: the transport is going to be used.
  HostExaminer(std::string area, std::string root, bool wanted)
      : Findings(std::move(area)), root_(std::move(root)), wanted_(wanted) {}

  [[nodiscard]] std::string path(const std::string& name) const { return root_ + name; }
  /// The verdict if something is missing. `needed`: the transport, as it is to be used, cannot do without.
  [[nodiscard]] Verdict lack(bool needed = true) const {
    return needed && wanted_ ? Verdict::kFailure : Verdict::kWarning;
  }
  [[nodiscard]] uint64_t capabilities() const { return ctl::capabilities(root_); }
  /// True if no limit of locked memory holds. `memlock_bytes`: the limit; UINT64_MAX: unlimited.
  [[nodiscard]] bool may_lock_all(uint64_t memlock_bytes) const {
    return memlock_bytes == UINT64_MAX || (capabilities() >> kCapIpcLock & 1) != 0;
  }

 private:
  std::string root_;
  bool wanted_;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_HOST_EXAMINER_H_
