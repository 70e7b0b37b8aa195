// The option renew-certificate, at a control plane that issues certificates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "include/skua/skua.h"
#include "tests/control/security/joining.h"
#include "tests/control/wait.h"
#include "tests/kvstore/c/c_client.h"

namespace skua::c {
namespace {

using control::CredentialFiles;
using control::eventually;
using control::Role;
using control::text_of;
using control::WallSeconds;
using ::testing::HasSubstr;

class RenewalTest : public control::JoiningTest {
 protected:
  /// A certificate after half of its time.
  CredentialFiles due() {
    const WallSeconds now = std::time(nullptr);
    return office_.issue(Role::kClient, "app", {now - 1000, now + 500});
  }

  OptionsPtr options(const CredentialFiles& files) {
    OptionsPtr made(skua_options_create());
    for (const auto& [name, value] : {std::pair<const char*, std::string>{"control-address", address_},
                                      {"cert", files.certificate},
                                      {"key", files.key},
                                      {"ca", files.authorities},
                                      {"renew-certificate", "true"}}) {
      EXPECT_EQ(skua_options_set(made.get(), name, value.c_str(), nullptr), SKUA_OK) << name;
    }
    return made;
  }
};

TEST_F(RenewalTest, ACertificateIsRenewed_OnceForAllClientsOfAProcess) {
  const CredentialFiles files = due();
  const std::string before = text_of(files.certificate);
  skua_error error = SKUA_ERROR_INIT;
  const ClientPtr blocking(skua_client_create(options(files).get(), &error));
  ASSERT_NE(blocking, nullptr) << error.text;
  const ClientPtr polled(skua_client_create_polled(options(files).get(), &error));
  ASSERT_NE(polled, nullptr) << error.text;
  EXPECT_EQ(blocking->renewal, polled->renewal);
  EXPECT_TRUE(eventually([&] { return text_of(files.certificate) != before; }));
  EXPECT_EQ(skua_certificate_trouble(blocking.get(), &error), SKUA_OK) << error.text;
}

TEST_F(RenewalTest, AFailureIsTold_UntilAnAttemptSucceeds) {
  const CredentialFiles files = due();
  ASSERT_TRUE(admin_->revoke_identity("client/app").ok());
  skua_error error = SKUA_ERROR_INIT;
  const ClientPtr client(skua_client_create(options(files).get(), &error));
  ASSERT_NE(client, nullptr) << error.text;
  EXPECT_TRUE(eventually([&] { return skua_certificate_trouble(client.get(), &error) == SKUA_UNAVAILABLE; }));
  EXPECT_THAT(error.text, HasSubstr("client/app is revoked"));
  ASSERT_TRUE(admin_->unrevoke_identity("client/app").ok());
  EXPECT_TRUE(eventually([&] { return skua_certificate_trouble(client.get(), &error) == SKUA_OK; }));
}

TEST_F(RenewalTest, WithoutACertificateThereIsNoClient) {
  skua_error error = SKUA_ERROR_INIT;
  EXPECT_EQ(skua_client_create(options({}).get(), &error), nullptr);
  EXPECT_THAT(error.text, HasSubstr("there is no certificate to renew"));
  EXPECT_EQ(skua_certificate_trouble(nullptr, &error), SKUA_INVALID_ARGUMENT);
  const ClientPtr plain(skua_client_create(nullptr, &error));
  EXPECT_EQ(skua_certificate_trouble(plain.get(), &error), SKUA_OK);
}

}  // namespace
}  // namespace skua::c
