// Quotas over real connections to a control plane: who may set them, that they are remembered, and what the map says.
#include "control/core/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/client/admin_client.h"
#include "control/server/control_server.h"
#include "control/store/embedded_store.h"
#include "control/store/memory_store.h"
#include "tests/app/free_port.h"
#include "tests/control/certificate_office.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kClusterOfQuotas = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d13";
constexpr Quota kLow = {.operations_per_s = 1000, .bytes_per_s = 1 << 20, .sessions = 4, .client_ids = 2};
constexpr Quota kHigh = {.operations_per_s = 2000, .bytes_per_s = 0, .sessions = 0, .client_ids = 0};

class QuotasOfAClusterTest : public testing::Test {
 protected:
  QuotasOfAClusterTest() {
    start_control();
    admin_.emplace(control_->address(), 20 * kSecond, loaded(office_.issue(Role::kAdmin, "ada")));
  }

  void start_control() {
    ControlServerOptions options;
    options.listen_address = address_;
    options.cluster.id = kClusterOfQuotas;
    options.credentials = loaded(office_.issue(Role::kControl, "c1"));
    control_.reset();
    auto store = open_embedded_store({.directory = directory_.path() + "/metadata"});
    ASSERT_TRUE(store.ok()) << store.status();
    auto control = ControlServer::start(options, *std::move(store));
    ASSERT_TRUE(control.ok()) << control.status();
    control_ = *std::move(control);
  }

  std::vector<MapQuota> quotas() { return admin_->shard_map()->quotas; }

  TempDir directory_;
  CertificateOffice office_{directory_.path(), "office", kClusterOfQuotas};
  const std::string address_ = app::free_address();
  std::unique_ptr<ControlServer> control_;
  std::optional<AdminClient> admin_;
};

TEST_F(QuotasOfAClusterTest, AreSetAndRemovedAndRememberedByAControlPlaneThatStartsAgain) {
  ASSERT_TRUE(admin_->set_quota("client/app-7", kLow).ok());
  ASSERT_TRUE(admin_->set_quota("client/report", kLow).ok());
  ASSERT_TRUE(admin_->set_quota("client/report", kHigh).ok());
  EXPECT_THAT(quotas(), ElementsAre(MapQuota{"client/app-7", kLow}, MapQuota{"client/report", kHigh}));
  start_control();
  EXPECT_TRUE(eventually([&] { return admin_->shard_map().ok(); }));
  EXPECT_THAT(quotas(), ElementsAre(MapQuota{"client/app-7", kLow}, MapQuota{"client/report", kHigh}));
  ASSERT_TRUE(admin_->remove_quota("client/app-7").ok());
  ASSERT_TRUE(admin_->remove_quota("client/report").ok());
  EXPECT_EQ(admin_->remove_quota("client/report").code(), absl::StatusCode::kNotFound);
  start_control();
  EXPECT_TRUE(eventually([&] { return admin_->shard_map().ok(); }));
  EXPECT_THAT(quotas(), IsEmpty());
}

TEST_F(QuotasOfAClusterTest, OnlyAdministratorsSetThem) {
  ASSERT_TRUE(admin_->set_quota("client/app-7", kLow).ok());
  for (const Role role : {Role::kClient, Role::kMonitor}) {
    AdminClient other(control_->address(), 20 * kSecond, loaded(office_.issue(role, "app-7")));
    EXPECT_EQ(other.set_quota("client/app-7", kHigh).code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(other.remove_quota("client/app-7").code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_THAT(quotas(), ElementsAre(MapQuota{"client/app-7", kLow}));
}

TEST_F(QuotasOfAClusterTest, MistakesAreRefused) {
  for (const char* principal : {"app-7", "root/ada", "client/a b", "admin/ada", "client/"}) {
    EXPECT_EQ(admin_->set_quota(principal, kLow).code(), absl::StatusCode::kInvalidArgument) << principal;
  }
  EXPECT_EQ(admin_->set_quota("client/a", {}).code(), absl::StatusCode::kInvalidArgument);
}

/// Nodes could not tell who asks.
TEST(QuotasWithoutCertificates, AreRefused) {
  ControlServerOptions without;
  without.listen_address = "127.0.0.1:0";
  without.fresh_cluster_id = kClusterOfQuotas;
  const auto plain = ControlServer::start(without, std::make_unique<MemoryStore>());
  ASSERT_TRUE(plain.ok()) << plain.status();
  AdminClient admin((*plain)->address(), 20 * kSecond);
  const absl::Status refused = admin.set_quota("client/app", kLow);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a quota would limit nobody"));
  EXPECT_EQ(admin.remove_quota("client/app").code(), absl::StatusCode::kNotFound) << "can be removed all the same";
}

}  // namespace
}  // namespace skua::control
