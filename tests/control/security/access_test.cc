#include "control/security/access.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "control/proto/bootstrap.pb.h"
#include "control/proto/certificates.pb.h"
#include "control/proto/control.pb.h"
#include "kvstore/node/admin.pb.h"

namespace skua::control {
namespace {

using testing::HasSubstr;

Identity of(Role role) {
  return {"0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11", role, "x"};
}

std::set<std::string> methods_of_services() {
  std::set<std::string> methods;
  for (const auto* file : {v1::GetStatusReply::descriptor()->file(), v1::DescribeReply::descriptor()->file(),
                           v1::JoinRequest::descriptor()->file(), node::v1::GetMetricsReply::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        methods.insert(absl::StrCat("/", service->full_name(), "/", service->method(m)->name()));
      }
    }
  }
  return methods;
}

TEST(Access, ListsEachMethodOnceAndNoOther) {
  std::set<std::string> listed;
  for (const MethodAccess& access : method_access()) {
    EXPECT_TRUE(listed.insert(std::string(access.method)).second) << access.method;
    EXPECT_EQ(access.roles.empty(), access.anonymous == Anonymous::kOnly) << access.method;
  }
  EXPECT_EQ(listed, methods_of_services());
}

TEST(Access, WhatChangesTheClusterIsForAdmins) {
  for (const char* method :
       {"Tables/CreateTable", "Tables/DropTable", "Cluster/DrainNode", "Cluster/UndrainNode", "Cluster/MoveShard",
        "Cluster/TransferPrimary", "Cluster/RecoverShard", "Cluster/RevokeIdentity", "Cluster/UnrevokeIdentity",
        "Cluster/AddGrant", "Cluster/RemoveGrant", "Cluster/SetQuota", "Cluster/RemoveQuota",
        "Certificates/CreateJoinToken", "Certificates/DropJoinToken"}) {
    const std::string path = absl::StrCat("/skua.control.v1.", method);
    for (const Role role : {Role::kControl, Role::kNode, Role::kMonitor, Role::kClient}) {
      EXPECT_EQ(check_access(of(role), path).code(), absl::StatusCode::kPermissionDenied) << path << role_name(role);
    }
    EXPECT_TRUE(check_access(of(Role::kAdmin), path).ok()) << path;
  }
}

TEST(Access, ClientsReadTheMapAndOpenSessionsAndSpeakForNoNode) {
  EXPECT_TRUE(check_access(of(Role::kClient), "/skua.control.v1.ShardMap/WatchShardMap").ok());
  EXPECT_TRUE(check_access(of(Role::kClient), "/skua.control.v1.Bootstrap/OpenSession").ok());
  EXPECT_FALSE(check_access(of(Role::kMonitor), "/skua.control.v1.Bootstrap/OpenSession").ok());
  for (const char* method : {"Register", "Heartbeat", "ReportReplicas", "Leave"}) {
    EXPECT_FALSE(check_access(of(Role::kClient), absl::StrCat("/skua.control.v1.Membership/", method)).ok());
  }
}

TEST(Access, StrangersMayJoin_AndNothingElse) {
  std::set<std::string> for_strangers;
  for (const MethodAccess& access : method_access()) {
    if (access.anonymous == Anonymous::kOnly) for_strangers.insert(std::string(access.method));
  }
  EXPECT_EQ(for_strangers,
            (std::set<std::string>{"/skua.control.v1.Joining/GetAuthority", "/skua.control.v1.Joining/Join"}));
  // Where certificates are shown nobody calls these.
  for (const std::string& method : for_strangers) EXPECT_FALSE(check_access(of(Role::kAdmin), method).ok()) << method;
}

TEST(Access, WhoeverHasNoNameSaysNothingAboutNames) {
  for (const MethodAccess& access : method_access()) {
    const bool names = access.method.starts_with("/skua.control.v1.Certificates/") ||
                       access.method.ends_with("Grant") || access.method.ends_with("Quota") ||
                       access.method.ends_with("revokeIdentity") || access.method.ends_with("RevokeIdentity");
    const bool joins = access.method.starts_with("/skua.control.v1.Joining/");
    EXPECT_EQ(check_anonymous(access.method).ok(), !names && !joins) << access.method;
  }
  EXPECT_FALSE(check_anonymous("/skua.control.v1.Tables/").ok());
}

TEST(Access, UnknownMethodsAreForNobody) {
  for (const char* method : {"", "/", "/skua.control.v1.Tables/", "/skua.control.v1.Tables/CreateTable/",
                             "/skua.control.v1.tables/CreateTable", "/grpc.health.v1.Health/Check"}) {
    EXPECT_FALSE(check_access(of(Role::kAdmin), method).ok()) << method;
  }
}

TEST(Access, ARefusalSaysWhatHelps) {
  EXPECT_THAT(std::string(check_access(of(Role::kClient), "/skua.control.v1.Tables/DropTable").message()),
              HasSubstr("role client may not call DropTable, only admin: use such a certificate"));
}

std::string uri_of(const std::string& cluster, const char* role, const char* name) {
  return absl::StrCat("skua://", cluster, "/", role, "/", name);
}

TEST(Member, IsOfTheClusterAndOfAnExpectedRole) {
  const std::string cluster = of(Role::kAdmin).cluster_id;
  const std::string uri = uri_of(cluster, "control", "c1");
  EXPECT_EQ(check_member(uri, cluster, Roles())->name, "c1");
  EXPECT_EQ(check_member(uri, cluster, Role::kControl | Role::kNode)->role, Role::kControl);
  const absl::Status other_role = check_member(uri, cluster, Role::kNode).status();
  EXPECT_EQ(other_role.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(other_role.message()), HasSubstr("has the role control, expected was node"));
}

TEST(Member, OfAnotherClusterOrWithAnotherNameIsRefused) {
  const std::string cluster = of(Role::kAdmin).cluster_id;
  const std::string other = "11111111-8f5e-4b0e-9d0c-0a1f6a3f5d11";
  for (const std::string& uri : {uri_of(other, "admin", "ada"), uri_of(cluster, "king", "ada"),
                                 uri_of(cluster, "node", "n1"), std::string("spiffe://example/ada"), std::string()}) {
    EXPECT_EQ(check_member(uri, cluster, Roles()).status().code(), absl::StatusCode::kPermissionDenied) << uri;
  }
}

TEST(SpeaksFor, ANodeForItselfOnly) {
  Identity node = of(Role::kNode);
  node.name = "22222222-8f5e-4b0e-9d0c-0a1f6a3f5d11";
  EXPECT_TRUE(check_speaks_for(node, node.name).ok());
  EXPECT_EQ(check_speaks_for(node, "33333333-8f5e-4b0e-9d0c-0a1f6a3f5d11").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(check_speaks_for(of(Role::kAdmin), node.name).ok()) << "the table says what others may";
}

}  // namespace
}  // namespace skua::control
