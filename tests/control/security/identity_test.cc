#include "control/security/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

using testing::HasSubstr;

constexpr const char* kCluster = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kNode = "5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10";

TEST(Identity, GoesThroughItsUri) {
  for (const Identity& identity : {Identity{kCluster, Role::kNode, kNode}, Identity{kCluster, Role::kClient, "app-7"},
                                   Identity{kCluster, Role::kAdmin, "ada@example.org"},
                                   Identity{kCluster, Role::kControl, "c1"}, Identity{kCluster, Role::kMonitor, "m"}}) {
    EXPECT_TRUE(check_identity(identity).ok());
    const auto parsed = parse_identity_uri(identity_uri(identity));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, identity);
  }
  EXPECT_EQ(identity_uri({kCluster, Role::kNode, kNode}), absl::StrCat("skua://", kCluster, "/node/", kNode));
}

TEST(Identity, OtherUrisAreNone) {
  const std::string cluster = kCluster;
  const std::vector<std::string> others = {
      "",
      "skua://",
      "https://" + cluster + "/client/a",
      "skua://" + cluster,
      "skua://" + cluster + "/client",
      "skua://" + cluster + "/client/",
      "skua://" + cluster + "/client/a/b",
      "skua://" + cluster + "/Client/a",
      "skua://" + cluster + "/root/a",
      "skua://" + cluster + "/node/a",
      "skua://" + cluster + "/client/a b",
      "skua://" + cluster + "/client/" + std::string("a\0b", 3),
      "skua://" + cluster + "/client/" + std::string(kPrincipalNameMax + 1, 'a'),
      "skua://" + cluster + "/client/.",
      "skua://" + cluster + "/client/..",
      "skua://0C7B64F1/client/a",
      " skua://" + cluster + "/client/a",
  };
  for (const std::string& uri : others) {
    EXPECT_EQ(parse_identity_uri(uri).status().code(), absl::StatusCode::kInvalidArgument) << uri;
  }
}

TEST(Identity, NamesOfNodesAreUuids) {
  EXPECT_THAT(std::string(check_identity({kCluster, Role::kNode, "n1"}).message()), HasSubstr("its uuid"));
}

TEST(Roles, AreSets) {
  constexpr Roles kTwo = Role::kAdmin | Role::kMonitor;
  EXPECT_TRUE(kTwo.contains(Role::kAdmin));
  EXPECT_FALSE(kTwo.contains(Role::kClient));
  EXPECT_TRUE(Roles().empty());
  EXPECT_EQ(roles_text(kTwo), "admin or monitor");
  EXPECT_EQ(role_of("node"), Role::kNode);
  EXPECT_EQ(role_of("Node"), std::nullopt);
}

TEST(Principal, IsRoleAndName) {
  for (const Identity& identity :
       {Identity{kCluster, Role::kNode, kNode}, Identity{kCluster, Role::kClient, "app-7"}}) {
    const auto parsed = parse_principal(identity.principal(), kCluster);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, identity);
  }
  EXPECT_EQ((Identity{kCluster, Role::kClient, "app-7"}).principal(), "client/app-7");
  for (const char* other : {"", "app-7", "client", "client/", "/app-7", "Client/a", "root/a", "client/a/b", "node/a",
                            "client/a b", "skua://client/a"}) {
    EXPECT_EQ(parse_principal(other, kCluster).status().code(), absl::StatusCode::kInvalidArgument) << other;
  }
}

}  // namespace
}  // namespace skua::control
