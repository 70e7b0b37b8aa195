#include "app/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/config.h"

namespace skua::app {
namespace {

using testing::HasSubstr;

std::string complaint(const std::string& text, const AddressRules& rules = {}) {
  return std::string(check_address(text, rules).message());
}

TEST(Address, ParseAddress_HostAndPort) {
  EXPECT_EQ(parse_address("10.0.0.1:7400")->host, "10.0.0.1");
  EXPECT_EQ(parse_address("10.0.0.1:7400")->port, 7400);
  EXPECT_EQ(parse_address("[::1]:7400")->host, "::1");
  EXPECT_EQ(parse_address("[fe80::1%eth0]:7400")->host, "fe80::1%eth0");
  EXPECT_EQ(parse_address("localhost:65535")->port, 65535);
  for (const char* name : {"node-1:1", "a.example.org.:1", "skua_control_1:7400", "x:1", "4you:1"}) {
    EXPECT_TRUE(check_address(name).ok()) << name;
  }
}

TEST(Address, CheckAddress_SaysWhatIsWrongAndWhatToWrite) {
  EXPECT_EQ(complaint(""), "is empty: write HOST:PORT, e.g. 10.0.0.1:7400");
  EXPECT_EQ(complaint("localhost"), "has no port: write HOST:PORT, e.g. 10.0.0.1:7400");
  EXPECT_EQ(complaint("host:"), "has no port after the colon: write HOST:PORT, e.g. 10.0.0.1:7400");
  EXPECT_EQ(complaint("7400"), "has no host: write HOST:PORT, e.g. 10.0.0.1:7400");
  EXPECT_EQ(complaint(":7400"), "has no host: write HOST:PORT, e.g. 10.0.0.1:7400");
  EXPECT_EQ(complaint("http://localhost:7400"), "is a URL: leave out http://");
  EXPECT_EQ(complaint("localhost:7400/status"), "has a path: leave out /status");
  EXPECT_EQ(complaint("local host:1"), "has a blank in it: leave it out");
  for (const char* bare : {"::1", "::1:7400", "1:2:3:4:5:6:7:8:7400", "fe80::1%eth0:7400"}) {
    EXPECT_EQ(complaint(bare), "has an IPv6 address without brackets: write it in brackets, e.g. [::1]:7400") << bare;
  }
  EXPECT_EQ(complaint("a:b:1"), "has more than one colon: write HOST:PORT, e.g. 10.0.0.1:7400 or [::1]:7400");
  EXPECT_THAT(complaint("[::1:7400"), HasSubstr("lacks the bracket ]"));
  EXPECT_THAT(complaint("[::1]7400"), HasSubstr("after the bracket ]"));
  EXPECT_THAT(complaint("[::1]"), HasSubstr("has no port"));
  EXPECT_THAT(complaint("[localhost]:1"), HasSubstr("no IPv6 address in its brackets"));
  EXPECT_THAT(complaint("[::1%]:1"), HasSubstr("no IPv6 address in its brackets"));
  EXPECT_THAT(complaint("300.1.1.1:1"), HasSubstr("has no IPv4 address"));
  EXPECT_THAT(complaint("10.0.0:1"), HasSubstr("has no IPv4 address"));
  EXPECT_THAT(complaint("a..b:1"), HasSubstr("has no host name"));
  EXPECT_THAT(complaint("-a:1"), HasSubstr("has no host name"));
  EXPECT_THAT(complaint("me@host:1"), HasSubstr("has no host name"));
  EXPECT_THAT(complaint(std::string(64, 'a') + ":1"), HasSubstr("has no host name"));
}

TEST(Address, CheckAddress_Ports) {
  EXPECT_EQ(complaint("h:99999"), "has the port 99999: a port is a number from 1 to 65535");
  EXPECT_EQ(complaint("h:7400x"), "has the port 7400x: a port is a number from 1 to 65535");
  EXPECT_EQ(complaint("h:-1"), "has the port -1: a port is a number from 1 to 65535");
  EXPECT_EQ(complaint("h:18446744073709559016"),
            "has the port 18446744073709559016: a port is a number from 1 to 65535");
  EXPECT_THAT(complaint("h:0"), HasSubstr("has the port 0"));
  EXPECT_EQ(complaint("h:0", {.zero_port_allowed = true}), "");
  EXPECT_EQ(complaint("h:65536", {.zero_port_allowed = true}),
            "has the port 65536: a port is a number from 0 to 65535");
  EXPECT_EQ(complaint("h", {.port_required = false}), "");
  EXPECT_EQ(parse_address("h", {.port_required = false})->port, 0);
}

TEST(Address, CheckAddress_Hosts) {
  for (const char* any : {"0.0.0.0:1", "[::]:1", "[0:0::0]:1"}) {
    EXPECT_THAT(complaint(any), HasSubstr("means every address")) << any;
    EXPECT_EQ(complaint(any, {.any_host_allowed = true}), "") << any;
  }
  EXPECT_EQ(complaint("*:1"), "has no host: write 0.0.0.0 for every address of the machine");
  EXPECT_THAT(complaint("node1:1", {.name_allowed = false}), HasSubstr("has a name: write its IP address"));
  EXPECT_EQ(complaint("localhost:1", {.name_allowed = false}), "");
}

TEST(Address, CheckHost_HasNoPort) {
  for (const char* host : {"10.0.0.1", "node1", "::1", "[::1]"}) EXPECT_TRUE(check_host(host).ok()) << host;
  for (const char* host : {"10.0.0.1:7400", "[::1]:7400", "[::1]x"}) EXPECT_FALSE(check_host(host).ok()) << host;
  EXPECT_EQ(check_host("node1:7400").message(), "has a port: write the host alone, e.g. 10.0.0.1");
  EXPECT_THAT(std::string(check_host("0.0.0.0").message()), HasSubstr("means every address"));
  EXPECT_EQ(check_host("").message(), "is empty: write a host, e.g. 10.0.0.1");
}

TEST(Address, Option_JudgesItsValue) {
  Program program({.name = "p", .summary = "s"});
  std::string one = "127.0.0.1:1";
  std::string several;
  std::string host;
  std::string given;
  program.add_string("one", &one, "One.").address();
  program.add_string("several", &several, "Several.").addresses();
  program.add_string("host", &host, "Host.").host();
  program.add_positional("server", &given, "Server.").address().optional();
  const auto error = [&](const std::vector<std::string>& arguments) { return program.parse(arguments, {}).err; };
  EXPECT_EQ(error({"--one", "here"}),
            "p: --one is here, which has no port: write HOST:PORT, e.g. 10.0.0.1:7400 (see p --help)\n");
  EXPECT_EQ(error({"--one", ""}), "p: --one is empty: write HOST:PORT, e.g. 10.0.0.1:7400 (see p --help)\n");
  EXPECT_THAT(error({"--several", "a:1,b"}), HasSubstr("--several is b, which has no port"));
  for (const char* text : {"a:1,,b:1", "a:1,", ",a:1", ","}) {
    EXPECT_THAT(error({"--several", text}), HasSubstr(std::string("is ") + text + ", which has a comma too many"));
  }
  EXPECT_THAT(error({"--several", "a:1;b:1"}), HasSubstr("is a:1;b:1: write commas between addresses"));
  EXPECT_THAT(error({"--host", "a:1"}), HasSubstr("--host is a:1, which has a port"));
  EXPECT_THAT(error({"b"}), HasSubstr("SERVER is b, which has no port"));
  EXPECT_THAT(error({""}), HasSubstr("SERVER is empty"));
  // What was printed by --print-config can be read again.
  EXPECT_EQ(error({"--several", "", "--host", ""}), "");
  EXPECT_EQ(error({"--several", "a:1,[::1]:2"}), "");
}

}  // namespace
}  // namespace skua::app
