#include "kvstore/ctl/identity_argument.h"

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "app/file.h"
#include "control/security/certificates.h"
#include "control/security/identity.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {
namespace {

constexpr size_t kCertificateBytesMax = 1 << 20;

}  // namespace

std::string principal_of(const std::string& argument, const control::CredentialsPtr& credentials) {
  const std::string ours = credentials == nullptr ? std::string() : credentials->self().cluster_id;
  const absl::StatusOr<std::string> text = app::read_file(argument, kCertificateBytesMax);
  if (!text.ok()) {
    // Without certificates the cluster's id does not matter: the control plane will say that names mean nothing there.
    constexpr char kAnyCluster[] = "00000000-0000-0000-0000-000000000000";
    const auto identity = control::parse_principal(argument, ours.empty() ? kAnyCluster : ours);
    if (identity.ok()) return identity->principal();
    app::fail_usage(kProgram, absl::StrCat(argument, " is not a certificate's file (", text.status().message(),
                                           "), and not an identity: ", identity.status().message()));
  }
  const absl::StatusOr<control::CertificateInfo> info = control::inspect_certificate(*text);
  if (!info.ok()) app::fail_usage(kProgram, absl::StrCat(argument, ": ", info.status().message()));
  if (!info->identity) {
    app::fail_usage(kProgram, absl::StrCat(argument,
                                           " is an authority, which is no identity: it is replaced, not revoked "
                                           "(docs/security.md)"));
  }
  if (!ours.empty() && info->cluster_id != ours) {
    app::fail_usage(kProgram, absl::StrCat(argument, " is of another cluster, ", info->cluster_id));
  }
  return info->identity->principal();
}

}  // namespace skua::kv::ctl
