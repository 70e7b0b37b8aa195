#include "control/server/certificate_services.h"

#include <grpcpp/grpcpp.h>

#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/core/join_tokens.h"
#include "control/core/revocation.h"
#include "control/core/uuid.h"
#include "control/proto/certificates.grpc.pb.h"
#include "control/security/join_token.h"
#include "control/server/attempt_limit.h"
#include "control/server/call_audit.h"
#include "control/server/controller_limits.h"
#include "control/server/finish_call.h"
#include "control/server/peer_host.h"
#include "rpc/base/bytes.h"

namespace skua::control {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr uint32_t kJoinTokenTtlS = 3600;

WallSeconds wall_now() {
  return std::time(nullptr);
}

absl::Status no_issuer() {
  return absl::FailedPreconditionError(
      "this control plane issues no certificates: start skua-control with --authority DIR, the directory that skuactl "
      "cert "
      "init made, or issue them there (skuactl cert issue)");
}

/// A limit that calls of all threads go by.
class SharedLimit {
 public:
  SharedLimit(size_t attempts, size_t sources_max, const Controller& controller)
      : controller_(controller), limit_(attempts, sources_max) {}

  bool admit(const std::string& source) {
    const std::lock_guard lock(mutex_);
    return limit_.admit(source, controller_.now_ns());
  }

 private:
  const Controller& controller_;
  std::mutex mutex_;
  AttemptLimit limit_;  // protected by mutex_
};

/// Issues and fills the reply. The audit log names the principal and the serial number. It waits for no disk: who is
/// believed stands in the reply already.
absl::Status give_certificate(const CertificateServiceOptions& options, const std::string& principal,
                              const std::vector<std::string>& hosts, const std::string& request,
                              v1::IssuedCertificate& reply) {
  const auto identity = parse_principal(principal, options.cluster_id);
  if (!identity.ok()) return identity.status();
  const auto certificate = options.issuer->issue(request, *identity, wall_now(), hosts);
  if (!certificate.ok()) return certificate.status();
  const auto info = inspect_certificate(*certificate);
  if (!info.ok()) return info.status();
  reply.set_certificate(*certificate);
  reply.set_principal(principal);
  reply.set_serial(info->serial);
  return absl::OkStatus();
}

/// The certificate that the caller showed when the connection was made, if the caller may have another one for the key
/// of `request`: it is for the same key, and has not expired since.
absl::StatusOr<CertificateInfo> shown_certificate(const CallbackServerContext& context, const std::string& request) {
  auto shown = peer_certificate(*context.auth_context());
  if (!shown.ok()) return shown.status();
  if (wall_now() >= shown->valid.until) {
    return absl::PermissionDeniedError(
        "the certificate of this connection has expired: join anew by a token (skuactl cert join-token)");
  }
  const auto key = inspect_certificate_request(request);
  if (!key.ok()) return key.status();
  if (*key == shown->key_hash) return shown;
  return absl::PermissionDeniedError(
      "a certificate is renewed for its own key only: a new key takes a new join token (skuactl cert join-token)");
}

absl::Status too_many_renewals() {
  return absl::ResourceExhaustedError(
      absl::StrCat("no more than ", kRenewalsPerMinute, " certificates are issued to one identity in a minute"));
}

class CertificatesService final : public v1::Certificates::CallbackService {
 public:
  CertificatesService(CertificateServiceOptions options, Controller& controller)
      : options_(std::move(options)),
        controller_(controller),
        renewals_(kRenewalsPerMinute, kRenewalSourcesMax, controller) {}

  ServerUnaryReactor* CreateJoinToken(CallbackServerContext* context, const v1::CreateJoinTokenRequest* request,
                                      v1::CreateJoinTokenReply* reply) override {
    auto* reactor = context->DefaultReactor();
    if (auto status = check_may(*context, "CreateJoinToken"); !status.ok()) return queued(context, reactor, status);
    if (auto status = check_signer(*context); !status.ok()) return queued(context, reactor, status);
    const auto identity = identity_of(*request);
    if (!identity.ok()) return queued(context, reactor, identity.status());
    const auto secret = make_join_secret();
    if (!secret.ok()) return queued(context, reactor, secret.status());
    AddJoinToken event{.secret_hash = join_secret_hash(*secret), .principal = identity->principal()};
    event.now_s = wall_now();
    event.expires_s = event.now_s + (request->ttl_s() == 0 ? kJoinTokenTtlS : request->ttl_s());
    const std::string word = encode_join_token({options_.join_port->load(), *secret, options_.issuer->hash()});
    return change(context, reactor, event, [reply, event, word](const Decision& decision) {
      reply->set_token(word);
      reply->set_token_id(join_token_id(event.secret_hash));
      reply->set_principal(decision.principal);
      reply->set_expires_s(event.expires_s);
    });
  }

  ServerUnaryReactor* ListJoinTokens(CallbackServerContext* context, const v1::ListJoinTokensRequest* /*request*/,
                                     v1::ListJoinTokensReply* reply) override {
    auto* reactor = context->DefaultReactor();
    if (auto status = check_named(*context, "ListJoinTokens"); !status.ok()) return queued(context, reactor, status);
    return queued(context, reactor,
                  controller_.query(
                      [context, reactor, reply](const ClusterCore& core, TimeNs /*now*/) {
                        for (const auto& [hash, token] : core.state().join_tokens) {
                          if (token.expires_s <= wall_now()) continue;
                          v1::JoinTokenInfo& info = *reply->add_tokens();
                          info.set_token_id(join_token_id(hash));
                          info.set_principal(token.principal);
                          info.set_expires_s(token.expires_s);
                          info.set_used(!token.used_key.empty());
                        }
                        finish(context, reactor, absl::OkStatus());
                      },
                      [context, reactor](const absl::Status& why) { finish(context, reactor, why); }));
  }

  ServerUnaryReactor* DropJoinToken(CallbackServerContext* context, const v1::DropJoinTokenRequest* request,
                                    v1::DropJoinTokenReply* reply) override {
    auto* reactor = context->DefaultReactor();
    if (auto status = check_named(*context, "DropJoinToken"); !status.ok()) return queued(context, reactor, status);
    return change(context, reactor, RemoveJoinToken{request->token_id(), wall_now()},
                  [reply](const Decision& decision) { reply->set_principal(decision.principal); });
  }

  ServerUnaryReactor* Renew(CallbackServerContext* context, const v1::RenewRequest* request,
                            v1::IssuedCertificate* reply) override {
    auto* reactor = context->DefaultReactor();
    if (auto status = check_may(*context, "Renew"); !status.ok()) return queued(context, reactor, status);
    // Another certificate of an identity changes nothing in the cluster, and there may be many: they must not push
    // changes out of the audit log.
    context->AddTrailingMetadata(kNothingDoneMetadata, "1");
    const auto shown = shown_certificate(*context, request->request());
    if (!shown.ok()) return queued(context, reactor, shown.status());
    if (auto status = check_signer(*context); !status.ok()) return queued(context, reactor, status);
    if (auto status = check_renewable(*shown); !status.ok()) return queued(context, reactor, status);
    const std::string principal = peer_principal(*context->auth_context());
    const auto authorities = options_.credentials->authorities();
    if (!authorities.ok()) return queued(context, reactor, authorities.status());
    reply->set_authorities(*authorities);
    // Only the one that leads knows who is revoked. It alone counts: a caller asks the others on its way to the leader.
    return queued(context, reactor,
                  controller_.query(
                      [this, context, reactor, principal, request, reply, hosts = shown->hosts](const ClusterCore& core,
                                                                                                TimeNs /*now*/) {
                        absl::Status status = check_allowed(principal, core.state());
                        if (status.ok() && !renewals_.admit(principal)) status = too_many_renewals();
                        if (status.ok()) {
                          status = give_certificate(options_, principal, hosts, request->request(), *reply);
                        }
                        finish(context, reactor, status);
                      },
                      [context, reactor](const absl::Status& why) { finish(context, reactor, why); }));
  }

 private:
  /// All methods of this service need a caller with a name: with --security accept some come without.
  [[nodiscard]] absl::Status check_named(const CallbackServerContext& context, const char* method) const {
    return control::check_named(options_.credentials, *context.auth_context(),
                                absl::StrCat("/skua.control.v1.Certificates/", method));
  }

  /// Of methods that need the authority's key, too.
  [[nodiscard]] absl::Status check_may(const CallbackServerContext& context, const char* method) const {
    absl::Status status = check_named(context, method);
    return status.ok() && options_.issuer == nullptr ? no_issuer() : status;
  }

  /// Whoever has a certificate of another authority gets none of this one, and no token for one.
  [[nodiscard]] absl::Status check_signer(const CallbackServerContext& context) const {
    return options_.issuer->check_own(peer_chain(*context.auth_context()), wall_now());
  }

  [[nodiscard]] absl::StatusOr<Identity> identity_of(const v1::CreateJoinTokenRequest& request) const {
    std::string name = request.name();
    if (request.role() == role_name(Role::kNode) && name.empty()) {
      const auto random = make_join_secret();
      if (!random.ok()) return random.status();
      const ByteSpan bytes = as_byte_span(*random);
      name = uuid_from_random(load_le<uint64_t>(bytes.data()), load_le<uint64_t>(bytes.data() + sizeof(uint64_t)));
    }
    return parse_principal(absl::StrCat(request.role(), "/", name), options_.cluster_id);
  }

  template <typename Fill>
  ServerUnaryReactor* change(CallbackServerContext* context, ServerUnaryReactor* reactor, Event event,
                             const Fill& fill) {
    return queued(context, reactor,
                  controller_.submit(
                      std::move(event),
                      [context, reactor, fill](const Decision& decision, const ClusterCore& /*core*/) {
                        if (decision.changes.empty()) context->AddTrailingMetadata(kNothingDoneMetadata, "1");
                        if (decision.status.ok()) fill(decision);
                        finish(context, reactor, decision.status);
                      },
                      peer_host(context->peer()), peer_principal(*context->auth_context())));
  }

  const CertificateServiceOptions options_;
  Controller& controller_;
  SharedLimit renewals_;
};

class JoiningService final : public v1::Joining::CallbackService {
 public:
  JoiningService(CertificateServiceOptions options, Controller& controller)
      : options_(std::move(options)), controller_(controller), joins_(kJoinsPerMinute, kJoinSourcesMax, controller) {}

  ServerUnaryReactor* GetAuthority(CallbackServerContext* context, const v1::GetAuthorityRequest* /*request*/,
                                   v1::GetAuthorityReply* reply) override {
    auto* reactor = context->DefaultReactor();
    reply->set_certificate(options_.issuer->certificate());
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  ServerUnaryReactor* Join(CallbackServerContext* context, const v1::JoinRequest* request,
                           v1::IssuedCertificate* reply) override {
    auto* reactor = context->DefaultReactor();
    const std::string host = peer_network(context->peer());
    if (!joins_.admit(host)) {
      return queued(
          context, reactor,
          absl::ResourceExhaustedError(absl::StrCat("no more than ", kJoinsPerMinute,
                                                    " attempts to join are taken from one host in a minute: wait "
                                                    "that long")));
    }
    const auto key = inspect_certificate_request(request->request());
    if (!key.ok()) return queued(context, reactor, key.status());
    const auto authorities = options_.credentials->authorities();
    if (!authorities.ok()) return queued(context, reactor, authorities.status());
    reply->set_authorities(*authorities);
    const std::string secret_hash = join_secret_hash(request->secret());
    return queued(context, reactor,
                  controller_.submit(
                      UseJoinToken{secret_hash, *key, request->role(), request->name(), wall_now()},
                      [this, context, reactor, request, reply, secret_hash](const Decision& decision,
                                                                            const ClusterCore& /*core*/) {
                        // A failure, or the same key again.
                        if (decision.changes.empty()) context->AddTrailingMetadata(kNothingDoneMetadata, "1");
                        absl::Status status = decision.status;
                        if (status.ok()) {
                          status = give_certificate(options_, decision.principal, {}, request->request(), *reply);
                          reply->set_token_id(join_token_id(secret_hash));
                        }
                        finish(context, reactor, status);
                      },
                      host));
  }

 private:
  const CertificateServiceOptions options_;
  Controller& controller_;
  SharedLimit joins_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_certificates_service(const CertificateServiceOptions& options,
                                                         Controller& controller) {
  return std::make_unique<CertificatesService>(options, controller);
}

std::unique_ptr<grpc::Service> make_joining_service(const CertificateServiceOptions& options, Controller& controller) {
  return std::make_unique<JoiningService>(options, controller);
}

}  // namespace skua::control
