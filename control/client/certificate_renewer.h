// CertificateRenewer: keeps a program's certificate fresh. At half of the certificate's time it has another one issued
// by the control plane, for the same key, and replaces the file; whoever watches the file uses it for new connections.
//
//      sleeps until half time --> renew() --> OK: sleeps until half time of the new one
//                                   ^
//                                   +-- failed: 1 s, 2 s, 4 s, .. at most 5 minutes or a sixteenth of the time
//                                   +-- INVALID_ARGUMENT: this certificate cannot be renewed. When another one is in
//                                       the file, or after an hour
//
// Failures are logged, the same one again only after an hour. If nothing helps, skuactl status tells in the last
// eighth.
#ifndef SKUA_CONTROL_CLIENT_CERTIFICATE_RENEWER_H_
#define SKUA_CONTROL_CLIENT_CERTIFICATE_RENEWER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "control/client/join_client.h"
#include "control/security/certificates.h"
#include "control/security/credential_files.h"
#include "control/security/credentials.h"
#include "rpc/base/clock.h"

namespace skua::control {

struct CertificateRenewerOptions {
  /// Who is asked, unless `source` is there.
  std::string control_address{};
  /// The certificate's and the authorities' file are replaced.
  CredentialFiles files;
  CredentialsPtr credentials;
  /// How often the certificate's file is read: it may be replaced by others, and the wall clock may be set.
  WallSeconds look_again_s = 30;
  /// May be empty. Thread: the renewer's own.
  std::function<void(bool warning, const std::string& line)> log{};
  /// Issues certificates; empty: the control plane. Thread: the renewer's own.
  CertificateSource source{};
};

/// How long it is not tried again with a certificate that cannot be renewed: the control plane may be another one then.
inline constexpr WallSeconds kRefusedPauseS = 3600;

/// When to try after `failures` of them: half time of the certificate, and not before the pause after the last failure
/// at `now`.
/// Pure.
[[nodiscard]] WallSeconds next_renewal(const CertificateInfo& info, int failures, WallSeconds now);

class CertificateRenewer {
 public:
  /// Starts a thread.
  explicit CertificateRenewer(CertificateRenewerOptions options);
  /// Waits for an attempt that is under way: seconds at most.
  ~CertificateRenewer();
  CertificateRenewer(const CertificateRenewer&) = delete;
  CertificateRenewer& operator=(const CertificateRenewer&) = delete;

 private:
  void run();
  absl::StatusOr<CertificateInfo> attempt() const;
  /// Somebody may have put another certificate there. If it cannot be read, the one before counts.
  void look_at_file();
  /// False: the end was asked for.
  bool sleep_until_due(int failures);
  [[nodiscard]] WallSeconds due(int failures, WallSeconds began) const;
  void failed(const absl::Status& why, WallSeconds now);

  const CertificateRenewerOptions options_;
  CertificateInfo info_;        // what the file had last; of the thread
  std::string refused_serial_;  // of the certificate that cannot be renewed; empty: none was refused
  std::string told_;
  WallSeconds told_s_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // protected by mutex_
  std::thread thread_;     // the last member
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_CERTIFICATE_RENEWER_H_
