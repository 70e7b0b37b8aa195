// What a control plane writes into its audit log, over real connections.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/client/admin_client.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/security/access.h"
#include "control/security/auditor.h"
#include "control/server/call_audit.h"
#include "control/server/control_server.h"
#include "control/store/election.h"
#include "control/store/memory_store.h"
#include "tests/control/certificate_office.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/fake_probe.h"
#include "tests/control/slow_disk.h"
#include "tests/control/temp_dir.h"

namespace skua::control {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr const char* kPeer = "peer=ipv4:127\\.0\\.0\\.1:[0-9]+";

/// Moved by the test while gRPC's threads look at it.
class TestClock final : public Clock {
 public:
  [[nodiscard]] TimeNs now_ns() const override { return now_.load(); }
  void advance(DurationNs by) { now_ += by; }

 private:
  std::atomic<TimeNs> now_{kSecond};
};

/// Leads until the test says that somebody else does.
class ToldElection final : public Election {
 public:
  void start(const std::string& own_address, std::function<void(const Leadership&)> changed) override {
    changed_ = std::move(changed);
    changed_({.leads = true, .term = 1, .leader = own_address, .trouble = ""});
  }
  void stop() override {}
  void lose() { changed_({.leads = false, .term = 2, .leader = "other:1", .trouble = ""}); }

 private:
  std::function<void(const Leadership&)> changed_;
};

/// Somebody else leads for ever.
class NeverElected final : public Election {
 public:
  void start(const std::string& /*own_address*/, std::function<void(const Leadership&)> /*changed*/) override {}
  void stop() override {}
};

class AuditedCallsTest : public testing::Test {
 protected:
  AuditedCallsTest() : office_(directory_.path(), "ours") {}

  void start(bool with_certificates, const std::string& trusted = "", std::unique_ptr<Election> election = nullptr) {
    ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.cluster.id = kOfficeCluster;
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    office_.trusted = trusted;
    if (with_certificates) options.credentials = loaded(office_.issue(Role::kControl, "c1"));
    options.auditor = auditor_ = std::make_shared<Auditor>(
        *AuditLog::open({.path = path_, .file_bytes_max = file_bytes_max_, .sync = disk_.sync()}), clock_);
    auto server = ControlServer::start(options, std::make_unique<MemoryStore>(), std::move(election));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  /// Null: without a certificate.
  template <typename Service>
  auto stub(const CredentialsPtr& credentials) {
    return Service::NewStub(grpc::CreateChannel(server_->address(), channel_credentials(credentials, Role::kControl)));
  }

  template <typename Reply, typename Call>
  static grpc::StatusCode code_of(Call call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    Reply reply;
    return call(&context, &reply).error_code();
  }

  grpc::StatusCode register_node(const NodeInfo& node, const CredentialsPtr& credentials) {
    v1::RegisterRequest request;
    *request.mutable_node() = to_proto(node);
    request.set_secret(node.secret);
    const auto membership = stub<v1::Membership>(credentials);
    return code_of<v1::RegisterReply>(
        [&](auto* context, auto* reply) { return membership->Register(context, request, reply); });
  }
  grpc::StatusCode create_table(const std::string& name, const CredentialsPtr& credentials,
                                bool if_not_exists = false) {
    v1::CreateTableRequest request;
    request.set_if_not_exists(if_not_exists);
    request.set_name(name);
    request.set_shard_count(2);
    const auto tables = stub<v1::Tables>(credentials);
    return code_of<v1::CreateTableReply>(
        [&](auto* context, auto* reply) { return tables->CreateTable(context, request, reply); });
  }
  grpc::StatusCode leave(const std::string& uuid, const std::string& instance, const CredentialsPtr& credentials) {
    v1::LeaveRequest request;
    request.set_uuid(uuid);
    request.set_instance(instance);
    const auto membership = stub<v1::Membership>(credentials);
    return code_of<v1::LeaveReply>(
        [&](auto* context, auto* reply) { return membership->Leave(context, request, reply); });
  }

  /// "event name=value ..." of all lines but the first, which begins the file; they join.
  [[nodiscard]] std::vector<std::string> lines(AuditChain chain) const {
    auditor_->log().flush();
    std::vector<std::string> told;
    AuditVerifier verifier;
    std::ifstream file(auditor_->log().path(chain));
    for (std::string line; std::getline(file, line);) {
      EXPECT_TRUE(verifier.take(line).ok()) << line;
      const auto parsed = parse_audit_line(line);
      told.push_back(parsed->event);
      for (const auto& [name, value] : parsed->fields) absl::StrAppend(&told.back(), " ", name, "=", value);
    }
    EXPECT_FALSE(told.empty());
    if (!told.empty()) told.erase(told.begin());
    return told;
  }

  [[nodiscard]] std::vector<std::string> changes() const { return lines(AuditChain::kChanges); }
  [[nodiscard]] std::vector<std::string> others() const { return lines(AuditChain::kOthers); }

  TempDir directory_;
  SlowDisk disk_;
  const std::string path_ = directory_.path() + "/audit.jsonl";
  uint64_t file_bytes_max_ = 8 << 20;
  CertificateOffice office_;
  TestClock clock_;
  std::shared_ptr<Auditor> auditor_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(AuditedCallsTest, AdministrationHasItsPrincipal) {
  start(true);
  const NodeInfo node = test_node(1);
  ASSERT_EQ(register_node(node, loaded(office_.issue(Role::kNode, node.uuid))), grpc::StatusCode::OK);
  const auto ada = loaded(office_.issue(Role::kAdmin, "ada"));
  EXPECT_EQ(create_table("notes", ada), grpc::StatusCode::OK);
  EXPECT_EQ(create_table("notes", ada), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(AdminClient(server_->address(), 10 * kSecond, ada).status().ok());  // looks only
  const std::string arguments =
      " arguments.name=notes arguments.shard_count=2 arguments.replicas=0 arguments.min_insync=0";
  EXPECT_THAT(changes(), ElementsAre(MatchesRegex(absl::StrCat("call who=admin/ada ", kPeer,
                                                               " method=Tables/CreateTable outcome=OK", arguments))));
  EXPECT_THAT(
      others(),
      ElementsAre(MatchesRegex(absl::StrCat(
          "call who=admin/ada ", kPeer, " method=Tables/CreateTable outcome=ALREADY_EXISTS message=.*", arguments))));
}

/// As skuactl asks again and again while it waits for a new table.
TEST_F(AuditedCallsTest, CallsWithNothingToDoAreOneASecond) {
  start(false);
  ASSERT_EQ(register_node(test_node(1), nullptr), grpc::StatusCode::OK);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(create_table("notes", nullptr, true), grpc::StatusCode::OK);
  EXPECT_EQ(create_table("more", nullptr, true), grpc::StatusCode::OK);
  EXPECT_THAT(changes(),
              ElementsAre(HasSubstr("outcome=OK arguments.name=notes"), HasSubstr("outcome=OK arguments.name=more")));
  EXPECT_THAT(others(), ElementsAre(HasSubstr("outcome=OK changed=false arguments.name=notes")));
}

/// The table is made, and its caller is gone before the node serves it.
TEST_F(AuditedCallsTest, AChangeIsWrittenAlsoIfItsCallerLeft) {
  start(false);
  ASSERT_EQ(register_node(test_node(1), nullptr), grpc::StatusCode::OK);
  v1::CreateTableRequest request;
  request.set_name("notes");
  request.set_wait_ready_ms(60'000);
  v1::CreateTableReply reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  EXPECT_EQ(stub<v1::Tables>(nullptr)->CreateTable(&context, request, &reply).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  server_->shutdown();
  EXPECT_THAT(changes(), ElementsAre(HasSubstr("method=Tables/CreateTable outcome=OK arguments.name=notes")));
}

TEST_F(AuditedCallsTest, WhoDoesNotLeadHasDoneNothing) {
  start(false, "", std::make_unique<NeverElected>());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(create_table("notes", nullptr), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(others(), ElementsAre(HasSubstr("outcome=UNAVAILABLE message=")));
  EXPECT_THAT(others()[0], HasSubstr("changed=false"));
}

TEST_F(AuditedCallsTest, WithoutCertificatesThereIsThePeer) {
  start(false);
  ASSERT_EQ(register_node(test_node(1), nullptr), grpc::StatusCode::OK);
  EXPECT_EQ(create_table("notes", nullptr), grpc::StatusCode::OK);
  EXPECT_THAT(changes(),
              ElementsAre(MatchesRegex(absl::StrCat("call who=anonymous ", kPeer, " method=Tables/Create.*"))));
}

TEST_F(AuditedCallsTest, SecretsAndEndlessTextsAreNotWritten) {
  start(false);
  NodeInfo node = test_node(1);
  ASSERT_EQ(register_node(node, nullptr), grpc::StatusCode::OK);
  ASSERT_EQ(leave(node.uuid, node.instance, nullptr), grpc::StatusCode::OK);
  EXPECT_NE(create_table(std::string(100'000, '\x01'), nullptr), grpc::StatusCode::OK);
  EXPECT_THAT(changes(), ElementsAre(HasSubstr("method=Membership/Leave outcome=OK arguments.uuid=" + node.uuid)));
  EXPECT_THAT(changes()[0], Not(HasSubstr(node.instance)));
  EXPECT_THAT(others(), ElementsAre(HasSubstr("name=\\x01\\x01")));
  EXPECT_LT(others()[0].size(), 2000U);
}

TEST_F(AuditedCallsTest, RefusalsAreOneASecondAndSource) {
  start(true);
  const auto app = loaded(office_.issue(Role::kClient, "app-7"));
  const auto other = loaded(office_.issue(Role::kClient, "app-8"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(create_table("notes", app), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(create_table("notes", other), grpc::StatusCode::PERMISSION_DENIED);
  clock_.advance(kSecond);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(create_table("notes", app), grpc::StatusCode::PERMISSION_DENIED);
  auditor_->stops();
  EXPECT_THAT(changes(), ElementsAre("stop"));
  EXPECT_THAT(others(),
              ElementsAre(MatchesRegex("refused who=client/app-7 method=Tables/CreateTable outcome=PERMISSION_DENIED "
                                       "message=a certificate of the role client may not call CreateTable.*"),
                          MatchesRegex("refused who=client/app-8 .*"), MatchesRegex("refused .*app-7.* left_out=19"),
                          MatchesRegex("left_out source=client/app-7 .* lines=2")));
}

TEST_F(AuditedCallsTest, ANodeThatSpeaksForAnotherIsWritten) {
  start(true);
  const auto node = loaded(office_.issue(Role::kNode, test_uuid(1)));
  EXPECT_EQ(leave(test_uuid(2), "", node), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(others(), ElementsAre(MatchesRegex(
                            absl::StrCat("refused who=node/", test_uuid(1), " ", kPeer,
                                         " method=Membership/Leave .*another node.*arguments.uuid=", test_uuid(2)))));
}

/// Heartbeats have no lines of their own, but refused ones do.
TEST_F(AuditedCallsTest, AlsoMethodsThatAreNotAuditedAreRefusedInWriting) {
  start(true);
  const auto membership = stub<v1::Membership>(loaded(office_.issue(Role::kNode, test_uuid(1))));
  v1::HeartbeatRequest request;
  request.set_uuid(test_uuid(2));
  EXPECT_EQ(code_of<v1::HeartbeatReply>(
                [&](auto* context, auto* reply) { return membership->Heartbeat(context, request, reply); }),
            grpc::StatusCode::PERMISSION_DENIED);
  request.set_uuid(test_uuid(1));
  EXPECT_NE(code_of<v1::HeartbeatReply>(
                [&](auto* context, auto* reply) { return membership->Heartbeat(context, request, reply); }),
            grpc::StatusCode::OK);
  EXPECT_THAT(others(), ElementsAre(HasSubstr("method=Membership/Heartbeat outcome=PERMISSION_DENIED")));
}

TEST_F(AuditedCallsTest, ACertificateOfAnotherClusterIsWritten) {
  CertificateOffice other(directory_.path(), "other", "11111111-8f5e-4b0e-9d0c-0a1f6a3f5d11");
  other.trusted = office_.certificate() + other.certificate();
  start(true, other.trusted);
  const CredentialFiles eve = other.issue(Role::kAdmin, "eve");
  // She believes any server.
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      eve.key, eve.certificate, eve.authorities, 1));
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  const auto tables =
      v1::Tables::NewStub(grpc::CreateChannel(server_->address(), grpc::experimental::TlsCredentials(options)));
  EXPECT_NE(
      code_of<v1::DropTableReply>([&](auto* context, auto* reply) { return tables->DropTable(context, {}, reply); }),
      grpc::StatusCode::OK);
  const std::vector<std::string> told = others();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0],
            "refused certificate=skua://11111111-8f5e-4b0e-9d0c-0a1f6a3f5d11/admin/eve outcome=UNAUTHENTICATED "
            "message=the peer is of another cluster");
}

TEST_F(AuditedCallsTest, TheStatusSaysThatLinesAreLost) {
  file_bytes_max_ = 1;  // each line wants a new file
  start(false);
  ASSERT_EQ(register_node(test_node(1), nullptr), grpc::StatusCode::OK);
  AdminClient admin(server_->address(), 10 * kSecond);
  EXPECT_TRUE(admin.status()->troubles.empty());
  std::filesystem::rename(directory_.path(), directory_.path() + "-moved");
  EXPECT_EQ(create_table("notes", nullptr), grpc::StatusCode::OK);
  std::filesystem::rename(directory_.path() + "-moved", directory_.path());
  const auto status = admin.status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_THAT(status->troubles, Contains(HasSubstr("the control plane: the audit log " + path_)));
}

/// A change is made, its line is under way to a disk that hangs. Its caller waits; nobody else does.
TEST_F(AuditedCallsTest, WhileTheDiskHangsTheControlPlaneGoesOn) {
  auto told = std::make_unique<ToldElection>();
  ToldElection& election = *told;
  start(false, "", std::move(told));
  ASSERT_EQ(register_node(test_node(1), nullptr), grpc::StatusCode::OK);
  disk_.hang();
  auto change = std::async(std::launch::async, [this] { return create_table("notes", nullptr); });
  disk_.wait_until_asked();
  EXPECT_EQ(register_node(test_node(2), nullptr), grpc::StatusCode::OK);
  AdminClient admin(server_->address(), 10 * kSecond);
  const auto status = admin.status();
  EXPECT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(create_table("notes", nullptr), grpc::StatusCode::ALREADY_EXISTS);
  election.lose();
  EXPECT_EQ(create_table("more", nullptr), grpc::StatusCode::UNAVAILABLE) << "another one leads now";
  EXPECT_EQ(change.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  disk_.go();
  EXPECT_EQ(change.get(), grpc::StatusCode::OK);
  EXPECT_THAT(changes(), ElementsAre(HasSubstr("outcome=OK arguments.name=notes")));
}

TEST_F(AuditedCallsTest, ChangesWithNothingToDoAreNotSynced) {
  start(false);
  const NodeInfo node = test_node(1);
  ASSERT_EQ(register_node(node, nullptr), grpc::StatusCode::OK);
  AdminClient admin(server_->address(), 10 * kSecond);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(admin.drain_node(node.uuid).ok());
  EXPECT_EQ(disk_.count(), 1);
  EXPECT_THAT(changes(), ElementsAre(HasSubstr("method=Cluster/DrainNode outcome=OK arguments.uuid=")));
  EXPECT_THAT(others(), ElementsAre(HasSubstr("method=Cluster/DrainNode outcome=OK changed=false arguments.uuid=")));
}

TEST(AuditedArguments, AreListedForEachMethodThatIsAudited) {
  std::set<std::string> listed;
  for (const AuditedArguments& arguments : audited_arguments()) {
    EXPECT_TRUE(listed.insert(std::string(arguments.method)).second) << arguments.method;
    EXPECT_TRUE(is_audited(arguments.method)) << arguments.method;
    std::string name(arguments.method.substr(1));
    name.replace(name.find('/'), 1, ".");
    const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
    ASSERT_NE(method, nullptr) << name;
    for (const char* field : arguments.fields) {
      EXPECT_NE(method->input_type()->FindFieldByName(field), nullptr) << name << " " << field;
      EXPECT_NE(std::string(field), "instance") << name;
      EXPECT_NE(std::string(field), "secret") << name;
    }
    for (const char* field : arguments.answer) {
      EXPECT_NE(method->output_type()->FindFieldByName(field), nullptr) << name << " " << field;
      EXPECT_NE(std::string(field), "token") << name;
      EXPECT_NE(std::string(field), "certificate") << name;
    }
  }
  for (const MethodAccess& access : method_access()) {
    EXPECT_EQ(listed.contains(std::string(access.method)), access.audited) << access.method;
    // Who may change the cluster is written down.
    EXPECT_TRUE(access.audited || access.roles != Roles(Role::kAdmin)) << access.method;
  }
}

}  // namespace
}  // namespace skua::control
