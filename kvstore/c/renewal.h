// The option renew-certificate: clients of this process have the certificate that they show renewed. One keeper for
// each certificate, which the clients that show it have in common: two would have it renewed twice.
#ifndef SKUA_KVSTORE_C_RENEWAL_H_
#define SKUA_KVSTORE_C_RENEWAL_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/certificate_keeper.h"
#include "kvstore/client/types.h"

namespace skua::c {

/// Thread: any.
class Renewal {
 public:
  /// The one that others of this process have already, or a new one. It ends with the last of them. Errors: those of
  /// CertificateKeeper::start().
  static absl::StatusOr<std::shared_ptr<Renewal>> of(const kv::ClientOptions& options);

  Renewal() = default;
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  /// UNAVAILABLE: why the last attempt failed. OK: it did not, or there was none.
  [[nodiscard]] absl::Status trouble() const;

 private:
  void hear(bool warning, const std::string& line);

  mutable std::mutex mutex_;
  std::string trouble_;                            // protected by mutex_
  std::unique_ptr<kv::CertificateKeeper> keeper_;  // the last member: its thread calls hear()
};

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_RENEWAL_H_
