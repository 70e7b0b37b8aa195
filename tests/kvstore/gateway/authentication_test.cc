// Clients that must say who they are: AUTH, HELLO, certificates, users that change, and what a stranger may send.
#include "kvstore/gateway/authentication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kvstore/gateway/memcached_protocol.h"
#include "tests/kvstore/gateway/users_testing.h"

namespace skua::kv::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kAuthUsers =
    "default HASH cache=read\nada HASH *=read,write\napp-7 certificate *=read,write\n";
constexpr std::string_view kWrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

class Authentication : public ::testing::Test {
 protected:
  Authentication() { give_users(gateway_, kAuthUsers); }

  FakeGateway gateway_;
  FakeClient client_{gateway_};
};

TEST_F(Authentication, ByNameAndPassword) {
  EXPECT_EQ(client_.ask("GET a"), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client_.ask("NOSUCH"), "-ERR unknown command 'NOSUCH', with args beginning with: \r\n") << "as Redis";
  EXPECT_EQ(client_.ask("AUTH ada wrong"), kWrongPass);
  EXPECT_EQ(client_.ask("AUTH nobody right"), kWrongPass);
  EXPECT_EQ(client_.ask("AUTH app-7 right"), kWrongPass) << "it has no password";
  EXPECT_EQ(client_.ask("AUTH ada busy"), "-TRYAGAIN too many clients authenticate at the same time\r\n");
  EXPECT_EQ(client_.ask("AUTH a b c"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.ask("GET a"), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(gateway_.identity.authentication_failures, 3U);
  EXPECT_EQ(client_.ask("AUTH ada right"), "+OK\r\n");
  EXPECT_EQ(client_.ask("SET a 1"), "+OK\r\n");
  EXPECT_THAT(client_.ask("CLIENT INFO"), HasSubstr(" user=ada\n"));
  EXPECT_EQ(client_.ask("AUTH ada wrong"), kWrongPass);
  EXPECT_EQ(client_.ask("GET a"), "$1\r\n1\r\n") << "it stays who it was";
  EXPECT_EQ(client_.ask("AUTH right"), "+OK\r\n") << "the user default";
  EXPECT_THAT(client_.ask("SET a 2"), StartsWith("-NOPERM"));
  EXPECT_EQ(client_.ask("RESET"), "+RESET\r\n");
  EXPECT_EQ(client_.ask("GET a"), "-NOAUTH Authentication required.\r\n");
}

TEST_F(Authentication, ByHello) {
  const std::string not_yet =
      "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> "
      "option can be used to authenticate the client and select the RESP protocol version at the same time\r\n";
  EXPECT_EQ(client_.ask("HELLO 3"), not_yet);
  EXPECT_EQ(client_.ask("HELLO"), not_yet);
  EXPECT_EQ(client_.ask("HELLO 3 AUTH ada wrong"), kWrongPass);
  EXPECT_EQ(client_.ask("HELLO 4 AUTH ada right"), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_THAT(client_.ask("HELLO 3 AUTH ada right SETNAME me"), StartsWith("%7\r\n"));
  EXPECT_EQ(client_.ask("CLIENT GETNAME"), "$2\r\nme\r\n");
  EXPECT_EQ(client_.ask("GET nosuch"), "_\r\n");
}

TEST_F(Authentication, CommandsBehindItWait) {
  const std::string all = "AUTH ada right\r\nSET a 1\r\nGET a\r\nAUTH ada wrong\r\nGET a\r\n";
  const std::string_view left = client_.send(all);
  ASSERT_EQ(client_.waiting().size(), 1U);
  EXPECT_EQ(client_.waiting()[0].request.kind, StoreRequest::Kind::kPassword);
  EXPECT_FALSE(client_.connection().wants_input());
  EXPECT_EQ(left, "SET a 1\r\nGET a\r\nAUTH ada wrong\r\nGET a\r\n");
  client_.answer_all();
  EXPECT_TRUE(client_.connection().wants_input());
  std::string rest(left);
  while (!rest.empty()) {
    rest = std::string(client_.send(rest));
    client_.answer_all();
  }
  EXPECT_EQ(client_.take_output(), "+OK\r\n+OK\r\n$1\r\n1\r\n" + std::string(kWrongPass) + "$1\r\n1\r\n");
}

TEST_F(Authentication, RepliesKeepTheirOrder) {
  EXPECT_EQ(client_.ask("AUTH ada right"), "+OK\r\n");
  client_.send("DBSIZE\r\nAUTH ada wrong\r\n");
  ASSERT_EQ(client_.waiting().size(), 2U) << "a password is asked for at once";
  client_.answer(1);
  EXPECT_EQ(client_.take_output(), "");
  client_.answer_all();
  EXPECT_EQ(client_.take_output(), ":0\r\n" + std::string(kWrongPass));
  client_.send("DBSIZE\r\nAUTH ada right\r\n");
  client_.answer_all();
  EXPECT_EQ(client_.take_output(), ":0\r\n+OK\r\n");
  EXPECT_TRUE(client_.connection().is_idle());
}

TEST_F(Authentication, AClientMayGoAwayMeanwhile) {
  FakeClient other(gateway_);
  other.send("AUTH ada right\r\n");
  EXPECT_EQ(other.waiting().size(), 1U);
}

TEST_F(Authentication, ByCertificate) {
  client_.connection().take_certificate("app-7");
  EXPECT_EQ(client_.ask("SET a 1"), "+OK\r\n");
  EXPECT_EQ(client_.ask("AUTH default right"), "+OK\r\n");
  EXPECT_THAT(client_.ask("SET a 1"), StartsWith("-NOPERM"));
  EXPECT_EQ(client_.ask("RESET"), "+RESET\r\n");
  EXPECT_EQ(client_.ask("SET a 1"), "+OK\r\n") << "again who its certificate says";
  FakeClient unknown(gateway_);
  unknown.connection().take_certificate("app-8");
  EXPECT_EQ(unknown.ask("GET a"), "-NOAUTH Authentication required.\r\n");
  FakeClient none(gateway_);
  none.connection().take_certificate("");
  EXPECT_EQ(none.ask("GET a"), "-NOAUTH Authentication required.\r\n");
}

TEST_F(Authentication, UsersThatChange) {
  FakeClient certified(gateway_);
  certified.connection().take_certificate("app-7");
  client_.ask("AUTH ada right");
  FakeClient stranger(gateway_);
  const auto change = [&](std::string_view text) {
    gateway_.context.users = users_of(text, gateway_);
    for (FakeClient* const client : {&certified, &client_, &stranger}) client->connection().take_users();
  };
  change("ada HASH cache=read\napp-7 certificate cache=read\n");
  EXPECT_THAT(client_.ask("SET a 1"), StartsWith("-NOPERM")) << "other rights count at once";
  EXPECT_EQ(client_.ask("GET a"), "$-1\r\n");
  EXPECT_THAT(certified.ask("SET a 1"), StartsWith("-NOPERM"));
  change("ada OTHER cache=read\n");
  EXPECT_TRUE(client_.connection().is_over()) << "another password";
  EXPECT_EQ(client_.ask("GET a"), "");
  EXPECT_TRUE(certified.connection().is_over()) << "its user is gone";
  EXPECT_FALSE(stranger.connection().is_over());
}

TEST_F(Authentication, UsersThatChangeWhileAPasswordIsChecked) {
  client_.send("AUTH ada right\r\n");
  gateway_.context.users = users_of("ada OTHER *=read,write\n", gateway_);
  client_.connection().take_users();
  client_.answer_all();
  EXPECT_EQ(client_.take_output(), kWrongPass) << "the old password was right";
  client_.send("AUTH ada right\r\n");
  gateway_.context.users = users_of("somebody HASH", gateway_);
  client_.answer_all();
  EXPECT_EQ(client_.take_output(), kWrongPass);
}

TEST_F(Authentication, RightsThatAreTakenAwayInsideMulti) {
  client_.ask("AUTH ada right");
  EXPECT_EQ(client_.ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(client_.ask("GET a"), "+QUEUED\r\n");
  EXPECT_EQ(client_.ask("SET a 1"), "+QUEUED\r\n");
  gateway_.context.users = users_of("ada HASH *=read\n", gateway_);
  client_.connection().take_users();
  EXPECT_EQ(client_.ask("EXEC"),
            "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This "
            "command is no longer allowed for the following reason: no permission to touch the specified keys\r\n");
  EXPECT_TRUE(gateway_.store.tables[0].empty());
  EXPECT_EQ(client_.ask("EXEC"), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(client_.ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(client_.ask("GET a"), "+QUEUED\r\n");
  EXPECT_EQ(client_.ask("EXEC"), "*1\r\n$-1\r\n");
}

TEST_F(Authentication, AStrangerSendsLittle) {
  EXPECT_EQ(client_.ask("*11"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
  EXPECT_TRUE(client_.connection().is_over());
  FakeClient other(gateway_);
  EXPECT_EQ(other.ask("*1\r\n$16385"), "-ERR Protocol error: unauthenticated bulk length\r\n");
  FakeClient ada(gateway_);
  EXPECT_EQ(ada.ask("AUTH ada right"), "+OK\r\n");
  ada.send("*12\r\n$3\r\nDEL\r\n$16385\r\n");
  EXPECT_EQ(ada.take_output(), "");
  EXPECT_FALSE(ada.connection().is_over());
}

TEST_F(Authentication, OfMemcached) {
  FakeClient client(gateway_, std::make_unique<MemcachedProtocol>());
  EXPECT_EQ(client.ask("get a"), "CLIENT_ERROR unauthenticated\r\n");
  EXPECT_EQ(client.ask("set x 1 2 9\r\nada wrong"), "CLIENT_ERROR authentication failure\r\n");
  EXPECT_EQ(client.ask("set x 1 2 8\r\nada busy"),
            "SERVER_ERROR try again: too many clients authenticate at the same time\r\n");
  EXPECT_EQ(client.ask("set x 1 2 3\r\nada"), "CLIENT_ERROR bad authentication token format\r\n");
  const std::string_view left = client.send("set x 1 2 9\r\nada right\r\nset a 0 0 1\r\n1\r\nget a\r\n");
  EXPECT_EQ(client.waiting().size(), 1U);
  client.answer_all();
  client.send(left);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
  EXPECT_FALSE(gateway_.store.tables[0].contains("x"));
  FakeClient large(gateway_, std::make_unique<MemcachedProtocol>());
  EXPECT_EQ(large.ask("set x 0 0 2049"), "CLIENT_ERROR unauthenticated\r\n");
  EXPECT_TRUE(large.connection().is_over());
  FakeClient lengthy(gateway_, std::make_unique<MemcachedProtocol>());
  EXPECT_EQ(lengthy.ask("get " + std::string(2048, 'a')), "CLIENT_ERROR line too long\r\n");
  EXPECT_TRUE(lengthy.connection().is_over());
}

TEST_F(Authentication, CommandsThatHaveNotBegunNeedTheRightsOfNow) {
  FakeClient ada(gateway_);
  EXPECT_EQ(ada.ask("AUTH ada right"), "+OK\r\n");
  ada.ask("SET a 1");
  // The first write is on its way; the others wait for it.
  ada.send("INCR a\r\nINCR a\r\nGET a\r\nMULTI\r\nINCR a\r\nEXEC\r\n");
  EXPECT_EQ(ada.waiting().size(), 1U);
  gateway_.context.users = users_of("ada HASH *=read\n", gateway_);
  ada.connection().take_users();
  ada.answer_all();
  EXPECT_EQ(
      ada.take_output(),
      ":2\r\n-NOPERM this user has no permissions to access one of the keys used as arguments\r\n$1\r\n2\r\n"
      "+OK\r\n+QUEUED\r\n-NOPERM ACLs rules changed between the moment the transaction was accumulated and the "
      "EXEC call. This command is no longer allowed for the following reason: no permission to touch the specified "
      "keys\r\n");
  // A user who is gone.
  ada.send("GET a\r\n");
  ada.answer_all();
  EXPECT_EQ(ada.take_output(), "$1\r\n2\r\n");
  FakeClient eve(gateway_);
  gateway_.context.users = users_of("eve HASH *=read,write\n", gateway_);
  EXPECT_EQ(eve.ask("AUTH eve right"), "+OK\r\n");
  eve.send("SET a 5\r\nSET a 6\r\nSET b 7\r\n");
  gateway_.context.users = users_of("ada HASH *=read\n", gateway_);
  eve.connection().take_users();
  eve.answer_all();
  EXPECT_EQ(eve.take_output(), "+OK\r\n-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n");
  EXPECT_TRUE(eve.connection().is_over());
  EXPECT_EQ(gateway_.store.tables[0]["a"].value, "5");
  EXPECT_EQ(gateway_.context.held_bytes, 0U);
}

TEST_F(Authentication, ACertificatesUserWhoComesLater) {
  FakeClient client(gateway_);
  client.connection().take_certificate("app-8");
  EXPECT_FALSE(client.connection().is_admitted());
  gateway_.context.users = users_of("app-8 certificate *=read,write\n", gateway_);
  client.connection().take_users();
  EXPECT_EQ(client.ask("SET a 1"), "+OK\r\n");
}

TEST_F(Authentication, AStrangerThatTakesNoRepliesIsNotReadOn) {
  FakeClient client(gateway_);
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "x\n";
  const std::string_view rest = client.send(many);
  EXPECT_GT(rest.size(), many.size() / 2);
  EXPECT_LT(gateway_.context.held_bytes, 100'000U);
  EXPECT_FALSE(client.connection().wants_input());
  client.take_output();
  EXPECT_TRUE(client.connection().wants_input());
}

TEST(WithoutUsers, AuthIsAsInRedisWithoutAPassword) {
  FakeGateway gateway;
  FakeClient client(gateway);
  EXPECT_THAT(client.ask("AUTH x"), StartsWith("-ERR AUTH <password> called without any password configured"));
  EXPECT_EQ(client.ask("AUTH default x"), "+OK\r\n");
  EXPECT_EQ(client.ask("AUTH ada x"), kWrongPass);
  EXPECT_THAT(client.ask("HELLO 2 AUTH default x"), StartsWith("*14\r\n"));
}

}  // namespace
}  // namespace skua::kv::gateway
