#include "rpc/transport/verbs/verbs_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace skua::rpc {
namespace {

using ::testing::HasSubstr;

TEST(VerbsSettings, Defaults_AreUsable) {
  const VerbsOptions options = VerbsSettings().to_options().value();
  EXPECT_EQ(options.device, "");
  EXPECT_EQ(options.gid_index, -1);
  EXPECT_EQ(options.receive_depth, VerbsOptions().receive_depth);
}

TEST(VerbsSettings, ToOptions_RefusesInWords) {
  const auto refusal = [](auto change) {
    VerbsSettings settings;
    change(settings);
    const auto options = settings.to_options();
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(options.status().message());
  };
  EXPECT_THAT(refusal([](VerbsSettings& s) { s.mtu = 1500; }), HasSubstr("--verbs-mtu"));
  EXPECT_THAT(refusal([](VerbsSettings& s) { s.gid_index = 256; }), HasSubstr("--verbs-gid-index"));
  EXPECT_THAT(refusal([](VerbsSettings& s) { s.traffic_class = 256; }), HasSubstr("--verbs-traffic-class"));
  EXPECT_THAT(refusal([](VerbsSettings& s) { s.receive_packets = 1; }), HasSubstr("--verbs-receive-packets"));
  EXPECT_THAT(refusal([](VerbsSettings& s) { s.send_packets = 1'000'000; }), HasSubstr("--verbs-send-packets"));
}

TEST(VerbsSettings, Declare_NamesEachOnce) {
  VerbsSettings settings;
  std::set<std::string> names;
  declare_verbs_settings(settings, [&](const char* name, auto* target, const char* help) {
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_NE(target, nullptr);
    EXPECT_NE(*help, '\0');
  });
  EXPECT_EQ(names.size(), 6u);
}

}  // namespace
}  // namespace skua::rpc
