#include "control/client/join_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "control/client/channel.h"
#include "control/proto/certificates.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/security/certificate_files.h"
#include "control/security/credentials.h"
#include "control/security/join_token.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

constexpr int kReplyMax = 1 << 20;

/// "host:port,host:port" with another port.
std::vector<std::string> with_port(const std::string& addresses, uint16_t port) {
  std::vector<std::string> changed;
  for (const auto& part : absl::StrSplit(addresses, ',', absl::SkipEmpty())) {
    changed.push_back(absl::StrCat(part.substr(0, part.rfind(':')), ":", port));
  }
  return changed;
}

/// A connection to where strangers are served.
class Door {
 public:
  Door(const std::string& address, const std::string& authority, const std::string& cluster_id, TimeNs deadline)
      : what_(absl::StrCat("the control plane's port for those who join (it has one with --authority), ", address)),
        deadline_(deadline) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(kReplyMax);
    stub_ = v1::Joining::NewStub(
        grpc::CreateCustomChannel(address, joining_channel_credentials(authority, cluster_id), arguments));
  }

  template <typename Request, typename Reply>
  absl::Status call(grpc::Status (v1::Joining::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply& reply) {
    grpc::ClientContext context;
    set_timeout(context, std::max<DurationNs>(deadline_ - SteadyClock().now_ns(), kMillisecond));
    return from_grpc((stub_.get()->*method)(&context, request, &reply), what_);
  }

 private:
  const std::string what_;
  const TimeNs deadline_;
  std::unique_ptr<v1::Joining::Stub> stub_;
};

/// The certificate that the token names by its hash, asked for at `address`.
absl::StatusOr<std::string> authority_at(const std::string& address, const JoinToken& token, TimeNs deadline) {
  v1::GetAuthorityReply reply;
  absl::Status asked =
      Door(address, "", "", deadline).call(&v1::Joining::Stub::GetAuthority, v1::GetAuthorityRequest(), reply);
  if (!asked.ok()) return asked;
  // One alone: whatever stands behind it is nobody's word.
  absl::StatusOr<std::string> alone = first_certificate(reply.certificate());
  const absl::StatusOr<CertificateInfo> info = alone.ok() ? inspect_certificate(*alone) : alone.status();
  if (!info.ok() || info->fingerprint != absl::BytesToHexString(token.authority)) {
    return absl::FailedPreconditionError(
        absl::StrCat("who answers at ", address,
                     " is not the control plane that the join token is of: check the address, "
                     "or have a token made there. The token's secret was not sent"));
  }
  return alone;
}

absl::StatusOr<v1::IssuedCertificate> join_at(const std::string& address, const JoinToken& token,
                                              const v1::JoinRequest& request, const std::string& cluster_id,
                                              TimeNs deadline) {
  const absl::StatusOr<std::string> authority = authority_at(address, token, deadline);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<CertificateInfo> info = inspect_certificate(*authority);
  if (!info.ok()) return info.status();
  if (!cluster_id.empty() && info->cluster_id != cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat("the join token is of the cluster ", info->cluster_id,
                                                      ", and the certificate that is there of the cluster ", cluster_id,
                                                      ": use another directory"));
  }
  v1::IssuedCertificate issued;
  absl::Status joined =
      Door(address, *authority, info->cluster_id, deadline).call(&v1::Joining::Stub::Join, request, issued);
  if (!joined.ok()) return joined;
  return issued;
}

/// PERMISSION_DENIED and INVALID_ARGUMENT are the same everywhere. After other errors another process may lead, or the
/// address was a stranger's.
absl::StatusOr<v1::IssuedCertificate> join_somewhere(const JoinOptions& options, const JoinToken& token,
                                                     const v1::JoinRequest& request) {
  const TimeNs deadline = SteadyClock().now_ns() + options.timeout_ns;
  const std::vector<std::string> addresses = with_port(options.control_address, token.port);
  absl::Status first = absl::InvalidArgumentError("no address of a control plane is given");
  bool somebody_answered = false;
  for (size_t i = 0; i < addresses.size(); ++i) {
    // Each has its part of the time that is left.
    const TimeNs now = SteadyClock().now_ns();
    const TimeNs until = now + (deadline - now) / static_cast<DurationNs>(addresses.size() - i);
    absl::StatusOr<v1::IssuedCertificate> issued = join_at(addresses[i], token, request, options.cluster_id, until);
    const absl::Status& status = issued.status();
    if (issued.ok() || absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status)) return issued;
    // What a server said tells more than that another does not answer.
    const bool answered = !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
    if (i == 0 || (answered && !somebody_answered)) first = status;
    somebody_answered = somebody_answered || answered;
  }
  return first;
}

/// Somebody may have put other files there since they were read.
absl::Status check_unchanged(const CredentialFiles& files, const std::string& certificate, const std::string& key,
                             const std::string& authorities) {
  for (const auto& [path, text] :
       {std::pair{&files.certificate, &certificate}, {&files.key, &key}, {&files.authorities, &authorities}}) {
    const absl::StatusOr<std::string> now = read_certificate_file(*path);
    if (now.ok() && *now == *text) continue;
    return absl::AbortedError(absl::StrCat(
        *path, " was changed while another certificate was asked for, so no file was replaced: try again"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CertificateInfo> join(const JoinOptions& options, const CredentialFiles& files) {
  const absl::StatusOr<JoinToken> token = parse_join_token(options.token);
  if (!token.ok()) return token.status();
  const absl::StatusOr<std::string> key = load_or_make_key(files.key);
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> csr = make_certificate_request(*key);
  if (!csr.ok()) return absl::Status(csr.status().code(), absl::StrCat(files.key, ": ", csr.status().message()));
  v1::JoinRequest request;
  request.set_secret(token->secret);
  request.set_request(*csr);
  request.set_role(options.role);
  request.set_name(options.name);
  const absl::StatusOr<v1::IssuedCertificate> issued = join_somewhere(options, *token, request);
  if (!issued.ok()) return issued.status();
  absl::Status usable = check_credentials({issued->certificate(), *key}, issued->authorities(), std::time(nullptr));
  if (!usable.ok()) return usable;
  if (auto status = replace_certificate_file(files.authorities, issued->authorities()); !status.ok()) return status;
  if (auto status = replace_certificate_file(files.certificate, issued->certificate()); !status.ok()) return status;
  return inspect_certificate(issued->certificate());
}

absl::StatusOr<CertificateInfo> renew(const CredentialFiles& files, bool authorities, AdminClient& admin) {
  return renew_from(files, authorities,
                    [&admin](const std::string& request) { return admin.renew_certificate(request); });
}

absl::StatusOr<CertificateInfo> renew_from(const CredentialFiles& files, bool authorities,
                                           const CertificateSource& source) {
  const absl::StatusOr<std::string> key = read_certificate_file(files.key);
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> own = read_certificate_file(files.certificate);
  if (!own.ok()) return own.status();
  const absl::StatusOr<std::string> believed = read_certificate_file(files.authorities);
  if (!believed.ok()) return believed.status();
  if (auto status = check_holds_no_key(files.certificate, files.key); !status.ok()) return status;
  if (authorities) {
    if (auto status = check_holds_no_key(files.authorities, files.key); !status.ok()) return status;
  }
  const absl::StatusOr<std::string> request = make_certificate_request(*key);
  if (!request.ok())
    return absl::Status(request.status().code(), absl::StrCat(files.key, ": ", request.status().message()));
  const absl::StatusOr<IssuedText> issued = source(*request);
  if (!issued.ok()) return issued.status();
  if (auto status = check_unchanged(files, *own, *key, *believed); !status.ok()) return status;
  const WallSeconds now = std::time(nullptr);
  // One answer never moves a program from one authority to another: each step rests on one that was believed before it.
  if (!check_credentials({*own, *key}, issued->authorities, now).ok()) {
    return absl::FailedPreconditionError(
        "the control plane's --ca file has no authority that has signed the certificate in use, so its answer is not "
        "taken: while an authority is replaced both are there, until all certificates are of the new one");
  }
  if (auto usable = check_credentials({issued->certificate, *key}, issued->authorities, now); !usable.ok()) {
    return usable;
  }
  const bool signed_by_believed = check_credentials({issued->certificate, *key}, *believed, now).ok();
  if (!signed_by_believed && !authorities) {
    return absl::FailedPreconditionError(absl::StrCat("the control plane has another authority now, which ",
                                                      files.authorities,
                                                      " does not have: add it there, and renew the certificate then"));
  }
  if (authorities && *believed != issued->authorities) {
    if (auto status = replace_certificate_file(files.authorities, issued->authorities); !status.ok()) return status;
  }
  if (!signed_by_believed) {
    return absl::UnavailableError(
        "the control plane has another authority now: it was added to those that are believed, and the next attempt "
        "takes a certificate of it");
  }
  if (auto status = replace_certificate_file(files.certificate, issued->certificate); !status.ok()) return status;
  return inspect_certificate(issued->certificate);
}

}  // namespace skua::control
