#include "control/store/etcd_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skua::control {
namespace {

TEST(ParseEtcdAddress, TakesMembersAndPrefix) {
  const auto address = parse_etcd_address("etcd://10.0.0.1:2379,etcd-2.example:2379/skua/prod/");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, (EtcdAddress{{"10.0.0.1:2379", "etcd-2.example:2379"}, "skua/prod"}));
  EXPECT_EQ(address->text(), "etcd://10.0.0.1:2379,etcd-2.example:2379/skua/prod");
  EXPECT_EQ(address->key_prefix(), "/skua/prod/kv/");
  EXPECT_EQ(address->leader_key(), "/skua/prod/leader");
}

TEST(ParseEtcdAddress, SaysWhetherMembersSpeakTls) {
  EXPECT_FALSE(parse_etcd_address("etcd://h:1/p")->tls);
  const auto address = parse_etcd_address("etcds://h:1/p");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, (EtcdAddress{{"h:1"}, "p", true}));
  EXPECT_EQ(address->text(), "etcds://h:1/p");
}

TEST(ParseEtcdAddress, MissingPrefixIsTheDefault) {
  for (const char* text : {"etcd://h:1", "etcd://h:1/", "etcd://h:1//"}) {
    EXPECT_EQ(parse_etcd_address(text)->prefix, kEtcdDefaultPrefix) << text;
  }
}

TEST(ParseEtcdAddress, RefusesWhatIsNotOne) {
  for (const char* text :
       {"", "etcd:", "http://h:1/p", "etcd://", "etcd:///p", "etcd://h/p", "etcd://h:/p", "etcd://:1/p",
        "etcd://h:1,/p", "etcd://h:1,,g:1", "etcd://h:123456", "etcd://h:x/p", "etcd://h:1/a b", "etcd://u@h:1/p",
        "etcd://h:1/p?x", "etcd://h:1/kv", "etcd://h:1/a/kv/b"}) {
    const auto address = parse_etcd_address(text);
    ASSERT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(address.status().message()), testing::HasSubstr("Give etcd://HOST:PORT")) << text;
  }
  std::string many = "etcd://h:1";
  for (size_t i = 0; i < kEtcdEndpointsMax; ++i) many += ",h:1";
  EXPECT_FALSE(parse_etcd_address(many).ok());
  EXPECT_FALSE(parse_etcd_address("etcd://h:1/" + std::string(kEtcdPrefixMax + 1, 'p')).ok());
}

TEST(PrefixEnd, IsTheFirstKeyBehind) {
  EXPECT_EQ(prefix_end("a"), "b");
  EXPECT_EQ(prefix_end("a/"), "a0");
  EXPECT_EQ(prefix_end("a\xff\xff"), "b");
  EXPECT_EQ(prefix_end("\xff"), std::string(1, '\0'));
  EXPECT_EQ(prefix_end(""), std::string(1, '\0'));
}

}  // namespace
}  // namespace skua::control
