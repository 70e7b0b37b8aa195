// Each command of either table is looked at before it is carried out, for each kind of user.
#include "kvstore/gateway/command_rights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kvstore/gateway/memcached_protocol.h"
#include "tests/kvstore/gateway/users_testing.h"

namespace skua::kv::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kRightsUsers =
    "all HASH *=read,write\nreader HASH *=read\nwriter HASH *=write\nnobody HASH\nother HASH users=read,write\n";
constexpr std::string_view kSecret = "SECRET";

/// What the store was asked for, but for passwords.
using AskedKinds = std::vector<StoreRequest::Kind>;

class CommandRights : public ::testing::Test {
 protected:
  CommandRights() {
    give_users(gateway_, kRightsUsers);
    gateway_.store.on_request = [this](const StoreRequest& request) {
      if (request.kind != StoreRequest::Kind::kPassword) kinds_.push_back(request.kind);
      return judge_password(request);
    };
    FakeClient client(gateway_);
    client.ask("AUTH all right");
    client.ask(absl::StrCat("SET string ", std::string(kSecret)));
    client.ask(absl::StrCat("HSET hash 1 ", std::string(kSecret)));
    kinds_.clear();
  }

  /// The reply to one command of a new client. `user`: empty: it does not authenticate.
  std::string ask(const std::string& user, const std::string& line) {
    FakeClient client(gateway_);
    if (!user.empty()) {
      EXPECT_EQ(client.ask("AUTH " + user + " right"), "+OK\r\n");
    }
    kinds_.clear();
    return client.ask(line);
  }
  std::string ask_memcached(const std::string& user, const std::string& line) {
    FakeClient client(gateway_, std::make_unique<MemcachedProtocol>());
    const std::string words = user + " right";
    if (!user.empty()) {
      EXPECT_EQ(client.ask(absl::StrCat("set a 0 0 ", words.size(), "\r\n", words)), "STORED\r\n");
    }
    kinds_.clear();
    return client.ask(line);
  }

  FakeGateway gateway_;
  AskedKinds kinds_;
};

/// The command with as few words as it may have. `key`: its first argument.
std::string shortest_line_of(const CommandSpec& spec, const std::string& key) {
  std::string line = absl::StrReplaceAll(std::string(spec.name), {{"|", " "}});
  const int name_words = spec.is_subcommand() ? 2 : 1;
  const int words = spec.arity < 0 ? -spec.arity : spec.arity;
  for (int i = name_words; i < words; ++i) line += i == name_words ? " " + key : " 1";
  return line;
}

/// Each command of the table, and some with more words.
std::vector<std::pair<const CommandSpec*, std::string>> all_redis_lines() {
  std::vector<std::pair<const CommandSpec*, std::string>> lines;
  for (const CommandSpec& spec : all_commands()) {
    if (!spec.can_run()) continue;
    for (const char* const key : {"string", "hash"}) lines.emplace_back(&spec, shortest_line_of(spec, key));
  }
  for (const char* const line :
       {"set string x GET", "set string x get KEEPTTL", "getex string PERSIST", "expire string 100 GT"}) {
    lines.emplace_back(find_command(std::string_view(line).substr(0, std::string_view(line).find(' '))), line);
  }
  return lines;
}

bool is_of_transaction(const CommandSpec& spec) {
  return spec.name == "exec" || spec.name == "discard" || spec.name == "multi";
}

TEST_F(CommandRights, WhoHasNotAuthenticatedMayDoNothingElse) {
  for (const auto& [spec, line] : all_redis_lines()) {
    const std::string reply = ask("", line);
    if (spec->has(kNoUser)) {
      EXPECT_NE(reply, "-NOAUTH Authentication required.\r\n") << line;
    } else if (spec->name == "exec") {
      EXPECT_EQ(reply, "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n");
    } else {
      EXPECT_EQ(reply, "-NOAUTH Authentication required.\r\n") << line;
    }
    EXPECT_EQ(kinds_, AskedKinds{}) << line;
  }
  std::vector<std::string_view> open;
  for (const CommandSpec& spec : all_commands()) {
    if (spec.has(kNoUser)) open.push_back(spec.name);
  }
  EXPECT_EQ(open, (std::vector<std::string_view>{"auth", "hello", "quit", "reset"}));
}

TEST_F(CommandRights, WhoHasNoRightsAsksNothingOfTheStore) {
  for (const std::string user : {"nobody", "other"}) {
    for (const auto& [spec, line] : all_redis_lines()) {
      const std::string reply = ask(user, line);
      EXPECT_EQ(kinds_, AskedKinds{}) << line;
      if (spec->has(kLocal) || is_of_transaction(*spec)) continue;
      EXPECT_THAT(reply, StartsWith("-NOPERM this user has no permissions to ")) << line;
    }
  }
  EXPECT_EQ(ask("nobody", "GET a"),
            "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n");
  EXPECT_EQ(ask("nobody", "DBSIZE"), "-NOPERM this user has no permissions to run the 'dbsize' command\r\n");
}

TEST_F(CommandRights, WhoMayReadOnlyChangesNothing) {
  size_t carried_out = 0;
  for (const auto& [spec, line] : all_redis_lines()) {
    const std::string reply = ask("reader", line);
    for (const StoreRequest::Kind kind : kinds_) {
      EXPECT_TRUE(kind == StoreRequest::Kind::kGet || kind == StoreRequest::Kind::kScan) << line;
    }
    if (spec->has(kWrites)) {
      EXPECT_THAT(reply, StartsWith("-NOPERM ")) << line;
    } else {
      EXPECT_THAT(reply, Not(StartsWith("-NOPERM "))) << line;
    }
    carried_out += kinds_.empty() ? 0 : 1;
  }
  EXPECT_GT(carried_out, 10U) << "reads are carried out";
}

TEST_F(CommandRights, WhoMayWriteOnlySeesNoValue) {
  size_t carried_out = 0;
  for (const auto& [spec, line] : all_redis_lines()) {
    const auto tables = gateway_.store.tables;
    EXPECT_THAT(ask("writer", line), Not(HasSubstr(std::string(kSecret)))) << line;
    carried_out += kinds_.empty() ? 0 : 1;
    gateway_.store.tables = tables;
  }
  EXPECT_GT(carried_out, 20U) << "writes are carried out";
  EXPECT_THAT(ask("all", "GETSET string x"), HasSubstr(std::string(kSecret))) << "the test would see it";
}

TEST_F(CommandRights, AnotherDatabaseIsAnotherTable) {
  FakeClient client(gateway_);
  EXPECT_EQ(client.ask("AUTH other right"), "+OK\r\n");
  EXPECT_THAT(client.ask("SET a 1"), StartsWith("-NOPERM"));
  EXPECT_EQ(client.ask("SELECT 3"), "+OK\r\n");
  EXPECT_EQ(client.ask("SET a 1"), "+OK\r\n");
}

TEST_F(CommandRights, AllDatabasesNeedARightInEach) {
  gateway_.identity.allows_flush = true;
  FakeClient client(gateway_);
  EXPECT_EQ(client.ask("AUTH other right"), "+OK\r\n");
  EXPECT_EQ(client.ask("SELECT 3"), "+OK\r\n");
  EXPECT_EQ(client.ask("SET a 1"), "+OK\r\n");
  EXPECT_EQ(client.ask("FLUSHALL"), "-NOPERM this user has no permissions to run the 'flushall' command\r\n");
  EXPECT_EQ(client.ask("FLUSHDB"), "+OK\r\n");
  EXPECT_EQ(client.ask("GET a"), "$-1\r\n");
  EXPECT_EQ(client.ask("AUTH all right"), "+OK\r\n");
  EXPECT_EQ(client.ask("FLUSHALL"), "+OK\r\n");
}

TEST_F(CommandRights, InsideMultiAsOutside) {
  for (const auto& [spec, line] : all_redis_lines()) {
    if (spec->has(kNotQueued) || spec->has(kNotInMulti)) continue;
    FakeClient client(gateway_);
    client.ask("AUTH nobody right");
    EXPECT_EQ(client.ask("MULTI"), "+OK\r\n");
    const std::string reply = client.ask(line);
    const std::string executed = client.ask("EXEC");
    if (spec->has(kLocal)) {
      EXPECT_EQ(reply, "+QUEUED\r\n") << line;
    } else {
      EXPECT_THAT(reply, StartsWith("-NOPERM")) << line;
      EXPECT_THAT(executed, StartsWith("-EXECABORT")) << line;
    }
  }
}

/// A command whose flags say nothing.
TEST(NeededRights, WhatIsNotKnownNeedsBoth) {
  constexpr CommandSpec kNew{"new", -1, kFast, 0, 0, 0, nullptr};
  EXPECT_EQ(needed_rights(kNew, CommandArguments{}), (Rights{.read = true, .write = true}));
}

/// A line for each command, after which memcached's clients would get an answer.
const std::map<std::string, std::string>& memcached_lines() {
  static const std::map<std::string, std::string> lines = {
      {"add", "add string 0 0 1\r\nx"},
      {"append", "append string 0 0 1\r\nx"},
      {"cas", "cas string 0 0 1 5\r\nx"},
      {"decr", "decr string 1"},
      {"delete", "delete string"},
      {"flush_all", "flush_all"},
      {"gat", "gat 100 string"},
      {"gats", "gats 100 string"},
      {"get", "get string"},
      {"gets", "gets string hash"},
      {"incr", "incr string 1"},
      {"ma", "ma string v"},
      {"md", "md string"},
      {"me", "me string"},
      {"mg", "mg string v T100"},
      {"mn", "mn"},
      {"ms", "ms string 1\r\nx"},
      {"prepend", "prepend string 0 0 1\r\nx"},
      {"quit", "quit"},
      {"replace", "replace string 0 0 1\r\nx"},
      {"set", "set string 0 0 1\r\nx"},
      {"stats", "stats"},
      {"touch", "touch string 100"},
      {"verbosity", "verbosity 1"},
      {"version", "version"},
  };
  return lines;
}

TEST_F(CommandRights, OfMemcached) {
  for (const CommandSpec* const spec : all_memcached_commands()) {
    const std::string name(spec->name);
    ASSERT_TRUE(memcached_lines().contains(name)) << name << " needs a line here";
    const std::string& line = memcached_lines().at(name);
    const std::string unauthenticated = ask_memcached("", line);
    EXPECT_EQ(kinds_, AskedKinds{}) << line;
    EXPECT_EQ(unauthenticated,
              name == "set" ? "CLIENT_ERROR bad authentication token format\r\n" : "CLIENT_ERROR unauthenticated\r\n")
        << line;
    const std::string of_nobody = ask_memcached("nobody", line);
    EXPECT_EQ(kinds_, AskedKinds{}) << line;
    if (!spec->has(kLocal)) {
      EXPECT_THAT(of_nobody, StartsWith("SERVER_ERROR no right: ")) << line;
    }
    const std::string of_reader = ask_memcached("reader", line);
    for (const StoreRequest::Kind kind : kinds_) EXPECT_EQ(kind, StoreRequest::Kind::kGet) << line;
    if (spec->has(kWrites)) {
      EXPECT_THAT(of_reader, StartsWith("SERVER_ERROR no right: ")) << line;
    }
    const auto tables = gateway_.store.tables;
    EXPECT_THAT(ask_memcached("writer", line), Not(HasSubstr(std::string(kSecret)))) << line;
    gateway_.store.tables = tables;
  }
  EXPECT_THAT(ask_memcached("reader", "mg string v"), HasSubstr(std::string(kSecret)));
  EXPECT_THAT(ask_memcached("writer", "mg string v"), StartsWith("SERVER_ERROR no right"));
  EXPECT_EQ(ask_memcached("reader", "set string 0 0 1 noreply\r\nx"), "");
  EXPECT_EQ(ask_memcached("reader", "delete string noreply"), "");
}

}  // namespace
}  // namespace skua::kv::gateway
