#include "kvstore/gateway/client_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/password_hash.h"

namespace skua::kv::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::map<uint32_t, std::string> kServedTables = {{0, "cache"}, {3, "users"}, {7, "notes"}};

std::string zero_hash_text() {
  return password_hash_text(PasswordHash{});
}

std::string trouble_with_users(const std::string& text) {
  return std::string(UserTable::parse(text, kServedTables).status().message());
}

TEST(ClientUsers, ALineIsAUserAndItsRights) {
  const auto table =
      UserTable::parse(absl::StrCat("# comment\n\n default \t", zero_hash_text(), " cache=read,write\r\n",
                                    "app-7 certificate *=read users=write elsewhere=read\nnone ", zero_hash_text()),
                       kServedTables);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 3U);
  const auto user = table->find("default");
  ASSERT_NE(user, nullptr);
  EXPECT_EQ(user->password, PasswordHash{});
  EXPECT_EQ(user->rights_in(0), (Rights{.read = true, .write = true}));
  EXPECT_EQ(user->rights_in(3), Rights{});
  const auto app = table->find("app-7");
  ASSERT_NE(app, nullptr);
  EXPECT_FALSE(app->password.has_value());
  EXPECT_EQ(app->rights_in(0), Rights{.read = true});
  EXPECT_EQ(app->rights_in(3), Rights{.write = true}) << "its own grant, not that of *";
  EXPECT_EQ(app->rights_in(7), Rights{.read = true});
  EXPECT_EQ(app->rights_in(9), Rights{}) << "no such database";
  EXPECT_EQ(table->find("none")->rights_in(0), Rights{});
  EXPECT_EQ(table->find("nobody"), nullptr);
  EXPECT_EQ(table->find(""), nullptr);
}

TEST(ClientUsers, WhatIsWrongIsToldWithItsLine) {
  EXPECT_THAT(trouble_with_users("\nada"), HasSubstr("line 2: a line is NAME"));
  EXPECT_THAT(trouble_with_users("a:b certificate"), HasSubstr("line 1: a name has 1 to 128"));
  EXPECT_THAT(trouble_with_users("ada certificate cache"), HasSubstr("a grant is TABLE=RIGHTS"));
  EXPECT_THAT(trouble_with_users("ada certificate =read"), HasSubstr("a grant is TABLE=RIGHTS"));
  EXPECT_THAT(trouble_with_users("ada certificate cache=all"), HasSubstr("rights are read, write or read,write"));
  EXPECT_THAT(trouble_with_users("ada certificate cache="), HasSubstr("rights are read"));
  EXPECT_THAT(trouble_with_users("ada certificate cache=read,read"), HasSubstr("rights are read"));
  EXPECT_THAT(trouble_with_users("ada certificate cache=read cache=write"), HasSubstr("two grants for table 'cache'"));
  EXPECT_THAT(trouble_with_users("ada certificate\nada certificate"), HasSubstr("line 2: user ada is there twice"));
  EXPECT_THAT(trouble_with_users("ada secret cache=read"), HasSubstr("not a hash of a password"));
  EXPECT_THAT(trouble_with_users("ada secret cache=read"), Not(HasSubstr("secret"))) << "it may be a password";
  for (const char* nobody : {"", "\n", "# ada certificate\n"}) {
    EXPECT_THAT(trouble_with_users(nobody), HasSubstr("there is no user in it")) << nobody;
  }
}

TEST(PasswordHash, OneTextForEachHash) {
  const std::string text = zero_hash_text();
  EXPECT_TRUE(parse_password_hash(text).ok());
  for (const std::string& other :
       {text + "=", text + "A", text.substr(0, text.size() - 1), text.substr(1),
        "$scrypt$ln=10,r=8,p=1$" + text.substr(22), text.substr(0, text.size() - 1) + "B", std::string()}) {
    EXPECT_FALSE(parse_password_hash(other).ok()) << other;
  }
}

TEST(PasswordHash, OnlyThePasswordIsRight) {
  const auto hash = hash_password("correct horse");
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(*parse_password_hash(password_hash_text(*hash)), *hash);
  EXPECT_TRUE(is_password(*hash, "correct horse"));
  EXPECT_FALSE(is_password(*hash, "correct horsf"));
  EXPECT_NE(hash_password("correct horse")->hash, hash->hash) << "another salt";
  EXPECT_FALSE(hash_password("").ok());
  EXPECT_FALSE(hash_password(std::string(kPasswordBytesMax + 1, 'a')).ok());
  const auto longest = hash_password(std::string(kPasswordBytesMax, 'a'));
  ASSERT_TRUE(longest.ok());
  EXPECT_FALSE(is_password(*longest, std::string(kPasswordBytesMax + 1, 'a'))) << "not its beginning alone";
}

/// Of RFC 7914, with the cost of this program: another implementation (Python's hashlib.scrypt) made it.
TEST(PasswordHash, IsScrypt) {
  const auto hash =
      parse_password_hash("$scrypt$ln=14,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$ABBGVOSKvf5ku8YkzyuO/EaqPKs1j003OiV1mvMpsHs");
  ASSERT_TRUE(hash.ok());
  EXPECT_TRUE(is_password(*hash, "skua"));
}

}  // namespace
}  // namespace skua::kv::gateway
