// The certificate that a node gets from the control plane (control/security/certificate_issuer.h), in its data
// directory:
//
//     DATA/certificate/key.pem, cert.pem, ca.pem       control/security/certificate_files.h
//
//     first start with --join-token    makes the key, joins, and has a certificate from then on
//     later starts                     use what is there; a token is not needed any more, and not looked at
//     what is there cannot be used     (it expired while the node was down): joins again, with a token for its uuid
//
// If --cert, --key and --ca are given, they are used instead.
#ifndef SKUA_KVSTORE_NODE_NODE_CERTIFICATE_H_
#define SKUA_KVSTORE_NODE_NODE_CERTIFICATE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/credential_files.h"
#include "control/security/credentials.h"
#include "control/security/identity.h"
#include "kvstore/types/node_log.h"
#include "rpc/base/clock.h"

namespace skua::kv {

[[nodiscard]] control::CredentialFiles joined_files(const std::string& data_dir);

/// Whether the directory has a certificate, also one that cannot be used.
[[nodiscard]] bool has_joined(const std::string& data_dir);

/// INVALID_ARGUMENT: not a token, or `given` names a certificate, which would be used instead.
[[nodiscard]] absl::Status check_join_token(const std::string& token, const control::CredentialFiles& given);

/// The certificate in the directory; null: there is none, or it cannot be used and there is a token for another one.
/// FAILED_PRECONDITION: it cannot be used; the message names the way out.
[[nodiscard]] absl::StatusOr<control::CredentialsPtr> load_joined(
    const std::string& data_dir, bool has_token, const NodeLog& log,
    control::SecurityChoice security = control::SecurityChoice::kAuto);

struct JoinByToken {
  std::string data_dir;
  std::string control_address;
  std::string token;
  /// The node's uuid, if it has one already.
  std::string node_uuid;
  control::SecurityChoice security = control::SecurityChoice::kAuto;
  NodeLog log;
  /// Waits. False: the node was told to stop.
  std::function<bool(DurationNs)> pause;
};

/// Waits while the control plane is away. Null: the node was told to stop. Errors: those of control::join() after which
/// another attempt is of no use.
[[nodiscard]] absl::StatusOr<control::CredentialsPtr> join_by_token(const JoinByToken& options);

/// FAILED_PRECONDITION: the directory is that of another node than the certificate's, or of another cluster. Empty
/// texts: the directory is new, or has joined no cluster yet.
[[nodiscard]] absl::Status check_node_identity(const std::string& data_dir, const std::string& node_uuid,
                                               const std::string& cluster_id, const control::Identity& certificate);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_NODE_CERTIFICATE_H_
