#include "kvstore/node/node_certificate.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/join_client.h"
#include "control/security/certificate_files.h"
#include "control/security/join_token.h"

namespace skua::kv {
namespace {

constexpr DurationNs kPause = 2 * kSecond;
constexpr const char* kDirectory = "/certificate";

/// The control plane is away, has no leader, had another change at the same time, or has heard of this host too often.
bool is_worth_another_try(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         absl::IsAborted(status);
}

}  // namespace

control::CredentialFiles joined_files(const std::string& data_dir) {
  return control::certificate_files_in(data_dir + kDirectory);
}

bool has_joined(const std::string& data_dir) {
  std::error_code ignored;
  return std::filesystem::exists(joined_files(data_dir).certificate, ignored);
}

absl::Status check_join_token(const std::string& token, const control::CredentialFiles& given) {
  if (token.empty()) return absl::OkStatus();
  if (!given.empty()) {
    return absl::InvalidArgumentError(
        "--join-token is for a node that has no certificate: leave it away, or --cert, --key and --ca");
  }
  const absl::Status parsed = control::parse_join_token(token).status();
  return parsed.ok() ? parsed : absl::Status(parsed.code(), absl::StrCat("--join-token: ", parsed.message()));
}

absl::StatusOr<control::CredentialsPtr> load_joined(const std::string& data_dir, bool has_token, const NodeLog& log,
                                                    control::SecurityChoice security) {
  if (!has_joined(data_dir)) return control::CredentialsPtr();
  auto loaded = control::Credentials::load(joined_files(data_dir), control::Role::kNode, security);
  if (loaded.ok()) {
    if (has_token) log(LogSeverity::kInfo, "the join token is not needed any more: this node has its certificate");
    return loaded;
  }
  const std::string why(loaded.status().message());
  if (!has_token) {
    return absl::FailedPreconditionError(
        absl::StrCat(why,
                     ". To join again, start with --join-token and a token for this node's uuid (skuactl cert "
                     "join-token node UUID)"));
  }
  log(LogSeverity::kWarning, absl::StrCat("the node joins again, because its certificate cannot be used: ", why));
  return control::CredentialsPtr();
}

absl::StatusOr<control::CredentialsPtr> join_by_token(const JoinByToken& options) {
  std::string told;
  while (true) {
    const absl::StatusOr<control::CertificateInfo> joined =
        control::join({.control_address = options.control_address,
                       .token = options.token,
                       .role = control::role_name(control::Role::kNode),
                       .name = options.node_uuid},
                      joined_files(options.data_dir));
    if (joined.ok()) {
      options.log(LogSeverity::kInfo, absl::StrCat("joined: the control plane has issued a certificate for ",
                                                   joined->identity->describe()));
      return load_joined(options.data_dir, false, options.log, options.security);
    }
    if (!is_worth_another_try(joined.status())) return joined.status();
    std::string why(joined.status().message());
    if (std::exchange(told, why) != why) {
      options.log(LogSeverity::kWarning, absl::StrCat("the node cannot join yet, it tries again: ", why));
    }
    if (!options.pause(kPause)) return control::CredentialsPtr();
  }
}

absl::Status check_node_identity(const std::string& data_dir, const std::string& node_uuid,
                                 const std::string& cluster_id, const control::Identity& certificate) {
  if (!node_uuid.empty() && node_uuid != certificate.name) {
    return absl::FailedPreconditionError(absl::StrCat("the data directory ", data_dir, " is that of node ", node_uuid,
                                                      ", and --cert is that of node ", certificate.name,
                                                      "; have one issued: skuactl cert issue node ", node_uuid));
  }
  if (!cluster_id.empty() && cluster_id != certificate.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat("the data directory ", data_dir, " belongs to cluster ",
                                                      cluster_id, ", and --cert to cluster ", certificate.cluster_id,
                                                      "; give the certificate or the --data-dir of the other cluster"));
  }
  return absl::OkStatus();
}

}  // namespace skua::kv
