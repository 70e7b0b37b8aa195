// A control plane that issues certificates, and whoever wants one.
#ifndef SKUA_TESTS_CONTROL_SECURITY_JOINING_H_
#define SKUA_TESTS_CONTROL_SECURITY_JOINING_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "control/client/admin_client.h"
#include "control/client/join_client.h"
#include "control/proto/certificates.grpc.pb.h"
#include "control/security/audit_log.h"
#include "control/security/auditor.h"
#include "control/security/certificate_files.h"
#include "control/security/certificate_issuer.h"
#include "control/server/control_server.h"
#include "control/store/embedded_store.h"
#include "rpc/base/clock.h"
#include "tests/app/free_port.h"
#include "tests/control/certificate_office.h"
#include "tests/control/fake_probe.h"
#include "tests/control/temp_dir.h"

namespace skua::control {

inline constexpr const char* kNode = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";
inline constexpr WallSeconds kLife = 3600;

inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class JoiningTest : public testing::Test {
 protected:
  JoiningTest() { start(); }

  /// `replaced`: the authority that the control plane's own replaces; `believed`: further authorities that the control
  /// plane takes.
  void start(bool issues = true, const std::string& replaced = "", const std::string& believed = "") {
    control_.reset();
    auditor_.reset();
    ControlServerOptions options;
    options.listen_address = address_;
    options.join_address = join_address_;
    options.cluster.id = kOfficeCluster;
    const CredentialFiles own = office_.issue(Role::kControl, "c1");
    CertificateOffice::write(own.authorities, office_.certificate() + believed);
    options.credentials = loaded(own);
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    if (issues) {
      auto issuer =
          CertificateIssuer::make(office_.authority(), kLife, *options.credentials, std::time(nullptr), replaced);
      ASSERT_TRUE(issuer.ok()) << issuer.status();
      options.issuer = *issuer;
    }
    auto log = AuditLog::open({.path = directory_.path() + "/audit.jsonl"});
    ASSERT_TRUE(log.ok()) << log.status();
    auditor_ = std::make_shared<Auditor>(*std::move(log), clock_);
    options.auditor = auditor_;
    auto store = open_embedded_store({.directory = directory_.path() + "/metadata"});
    ASSERT_TRUE(store.ok()) << store.status();
    auto control = ControlServer::start(options, *std::move(store));
    ASSERT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
    admin_.emplace(address_, 20 * kSecond, loaded(office_.issue(Role::kAdmin, "ada")));
  }

  JoinTokenSummary token(const std::string& role, const std::string& name) {
    auto made = admin_->create_join_token(role, name, 0);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : JoinTokenSummary();
  }

  CredentialFiles files(const std::string& name) { return certificate_files_in(directory_.path() + "/" + name); }

  absl::StatusOr<CertificateInfo> join_with(const std::string& word, const std::string& place,
                                            const std::string& role = "", const std::string& name = "") {
    return join({.control_address = address_, .token = word, .role = role, .name = name, .timeout_ns = 20 * kSecond},
                files(place));
  }

  /// A call of somebody who does not keep to the client library.
  grpc::Status raw_join(const std::string& secret, const std::string& request) {
    const auto channel =
        grpc::CreateChannel(join_address_, joining_channel_credentials(office_.certificate(), kOfficeCluster));
    v1::JoinRequest message;
    message.set_secret(secret);
    message.set_request(request);
    v1::IssuedCertificate reply;
    grpc::ClientContext context;
    return v1::Joining::NewStub(channel)->Join(&context, message, &reply);
  }

  std::string audit(const std::string& suffix = "") {
    auditor_->log().flush();
    return text_of(directory_.path() + "/audit.jsonl" + suffix);
  }

  TempDir directory_;
  SteadyClock clock_;
  CertificateOffice office_{directory_.path(), "office"};
  const std::string address_ = app::free_address();
  const std::string join_address_ = app::free_address();
  std::shared_ptr<Auditor> auditor_;
  std::unique_ptr<ControlServer> control_;
  std::optional<AdminClient> admin_;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_SECURITY_JOINING_H_
