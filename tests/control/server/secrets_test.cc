// A node's secret and instance are what it proves itself with: nobody gets them in a reply.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "control/proto/bootstrap.grpc.pb.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/server/control_server.h"
#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/fake_probe.h"

namespace skua::control {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Paths to texts called "instance" or "secret" in a message, on the way to which no message is met twice.
void find_instances(const Descriptor* message, const std::string& path, std::set<const Descriptor*> above,
                    std::set<std::string>& found) {
  if (!above.insert(message).second) return;
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    const std::string here = absl::StrCat(path, ".", field->name());
    if (field->message_type() != nullptr) find_instances(field->message_type(), here, above, found);
    if (field->type() == FieldDescriptor::TYPE_STRING && (field->name() == "instance" || field->name() == "secret"))
      found.insert(here);
  }
}

TEST(Secrets, NoReplyHasAPlaceForAnInstanceButTheOneThatIsCleared) {
  std::set<std::string> found;
  for (const auto* file : {v1::GetStatusReply::descriptor()->file(), v1::DescribeReply::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const Descriptor* reply = file->service(s)->method(m)->output_type();
        find_instances(reply, reply->name(), {}, found);
      }
    }
  }
  EXPECT_THAT(found, ElementsAre("GetStatusReply.nodes.node.instance"));
}

class SecretsTest : public testing::Test {
 protected:
  SecretsTest() {
    ControlServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.fresh_cluster_id = kClusterId;
    options.make_probe = [] { return std::make_unique<AgreeableProbe>(); };
    auto server = ControlServer::start(options, std::make_unique<MemoryStore>());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  }

  /// The reply's bytes and the status's text.
  template <typename Reply, typename Call>
  std::string said(Call call) {
    grpc::ClientContext context;
    Reply reply;
    const grpc::Status status = call(&context, &reply);
    return reply.SerializeAsString() + status.error_message();
  }
  std::string register_node(const NodeInfo& node) {
    v1::RegisterRequest request;
    *request.mutable_node() = to_proto(node);
    request.set_secret(node.secret);
    const auto stub = v1::Membership::NewStub(channel_);
    return said<v1::RegisterReply>([&](auto* context, auto* reply) { return stub->Register(context, request, reply); });
  }

  std::unique_ptr<ControlServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(SecretsTest, NobodyIsToldAnInstanceOrASecret) {
  NodeInfo node = test_node(1);
  node.secret = test_uuid(1234);
  std::vector<std::string> replies = {register_node(node)};
  const auto map = v1::ShardMap::NewStub(channel_);
  const auto tables = v1::Tables::NewStub(channel_);
  const auto cluster = v1::Cluster::NewStub(channel_);
  const auto membership = v1::Membership::NewStub(channel_);
  v1::CreateTableRequest create;
  create.set_name("t");
  replies.push_back(
      said<v1::CreateTableReply>([&](auto* c, auto* reply) { return tables->CreateTable(c, create, reply); }));
  v1::GetShardMapRequest get;
  *get.mutable_versions() = to_proto(kProtocolVersions);
  replies.push_back(said<v1::GetShardMapReply>([&](auto* c, auto* reply) { return map->GetShardMap(c, get, reply); }));
  EXPECT_THAT(replies.back(), HasSubstr(node.uuid));
  v1::WatchShardMapRequest watch;
  *watch.mutable_versions() = to_proto(kProtocolVersions);
  replies.push_back(said<v1::WatchShardMapReply>([&](auto* c, auto* reply) {
    const auto reader = map->WatchShardMap(c, watch);
    EXPECT_TRUE(reader->Read(reply));
    c->TryCancel();
    return reader->Finish();
  }));
  EXPECT_THAT(replies.back(), HasSubstr(node.uuid));
  replies.push_back(said<v1::ListTablesReply>([&](auto* c, auto* reply) { return tables->ListTables(c, {}, reply); }));
  replies.push_back(said<v1::GetStatusReply>([&](auto* c, auto* reply) { return cluster->GetStatus(c, {}, reply); }));
  EXPECT_THAT(replies.back(), HasSubstr(node.uuid));
  // Refusals that speak of the registered process to somebody who is not it.
  NodeInfo forged = node;
  forged.instance = test_uuid(77);
  forged.incarnation = uint64_t{1} << 40;
  replies.push_back(register_node(forged));
  EXPECT_THAT(replies.back(), HasSubstr("skuactl node remove"));
  forged.incarnation = 1;
  replies.push_back(register_node(forged));
  forged.secret = test_uuid(4321);
  replies.push_back(register_node(forged));
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_uuid(node.uuid);
  heartbeat.set_incarnation(1);
  heartbeat.set_instance(forged.instance);
  replies.push_back(
      said<v1::HeartbeatReply>([&](auto* c, auto* reply) { return membership->Heartbeat(c, heartbeat, reply); }));
  v1::LeaveRequest leave;
  leave.set_uuid(node.uuid);
  replies.push_back(said<v1::LeaveReply>([&](auto* c, auto* reply) { return membership->Leave(c, leave, reply); }));
  for (const std::string& reply : replies) {
    EXPECT_THAT(reply, Not(HasSubstr(node.instance)));
    EXPECT_THAT(reply, Not(HasSubstr(node.secret)));
  }
}

}  // namespace
}  // namespace skua::control
