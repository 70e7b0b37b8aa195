// Commands of memcached and their replies, over a store that is a map. memcached_differential_test.py compares them
// with memcached's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvstore/gateway/memcached_protocol.h"
#include "kvstore/gateway/memcached_support.h"
#include "tests/kvstore/gateway/fake_store.h"

namespace skua::kv::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class MemcachedCommands : public ::testing::Test {
 protected:
  std::string ask(const std::string& lines) { return client.ask(lines); }
  std::string version_of(const std::string& key) { return std::to_string(gateway.store.tables[0][key].version); }
  FakeGateway gateway;
  FakeClient client{gateway, std::make_unique<MemcachedProtocol>()};
};

TEST_F(MemcachedCommands, StoreAndGet) {
  EXPECT_EQ(ask("get a"), "END\r\n");
  EXPECT_EQ(ask("set a 7 0 5\r\nhello"), "STORED\r\n");
  EXPECT_EQ(ask("get a b a"), "VALUE a 7 5\r\nhello\r\nVALUE a 7 5\r\nhello\r\nEND\r\n");
  EXPECT_EQ(ask("gets a"), "VALUE a 7 5 " + version_of("a") + "\r\nhello\r\nEND\r\n");
  EXPECT_EQ(ask("add a 0 0 1\r\nx"), "NOT_STORED\r\n");
  EXPECT_EQ(ask("replace b 0 0 1\r\nx"), "NOT_STORED\r\n");
  EXPECT_EQ(ask("add b 0 0 1\r\nx"), "STORED\r\n");
  EXPECT_EQ(ask("replace b 9 0 1\r\ny"), "STORED\r\n");
  EXPECT_EQ(ask("append b 1 0 2\r\nzz"), "STORED\r\n");
  EXPECT_EQ(ask("prepend b 1 0 2\r\nww"), "STORED\r\n");
  EXPECT_EQ(ask("get b"), "VALUE b 9 5\r\nwwyzz\r\nEND\r\n") << "append and prepend keep the flags";
  EXPECT_EQ(ask("append c 0 0 1\r\nx"), "NOT_STORED\r\n");
  EXPECT_EQ(ask("prepend c 0 0 1\r\nx"), "NOT_STORED\r\n");
  EXPECT_EQ(ask("delete b"), "DELETED\r\n");
  EXPECT_EQ(ask("delete b 0"), "NOT_FOUND\r\n");
  EXPECT_EQ(
      ask("set a 0 0 1 noreply\r\n1\r\nadd a 0 0 1 noreply\r\n2\r\ndelete b noreply\r\nincr a 1 noreply\r\nget a"),
      "VALUE a 0 1\r\n2\r\nEND\r\n");
}

TEST_F(MemcachedCommands, CompareAndSet) {
  EXPECT_EQ(ask("cas a 0 0 1 5\r\nx"), "NOT_FOUND\r\n");
  EXPECT_EQ(ask("set a 0 0 1\r\nx"), "STORED\r\n");
  const std::string version = version_of("a");
  EXPECT_EQ(ask("cas a 0 0 1 " + version + "1\r\ny"), "EXISTS\r\n");
  EXPECT_EQ(ask("cas a 0 0 1 " + version + "\r\ny"), "STORED\r\n");
  EXPECT_EQ(ask("cas a 0 0 1 " + version + "\r\nz"), "EXISTS\r\n");
  EXPECT_EQ(ask("cas a 0 -1 1 " + version_of("a") + "\r\nz"), "STORED\r\n");
  EXPECT_EQ(ask("get a"), "END\r\n");
}

TEST_F(MemcachedCommands, Expiry) {
  EXPECT_EQ(ask("set a 0 100 1\r\nx\r\nmg a t"), "STORED\r\nHD t100\r\n");
  EXPECT_EQ(ask("set a 0 1700000050 1\r\nx\r\nmg a t"), "STORED\r\nHD t50\r\n") << "seconds since 1970";
  EXPECT_EQ(ask("append a 0 0 1\r\ny\r\nprepend a 0 0 1\r\nz\r\nmg a t"), "STORED\r\nSTORED\r\nHD t50\r\n");
  EXPECT_EQ(ask("touch a 2592000\r\nmg a t"), "TOUCHED\r\nHD t2592000\r\n");
  EXPECT_EQ(ask("gat 0 a\r\nmg a t"), "VALUE a 0 3\r\nzxy\r\nEND\r\nHD t-1\r\n");
  EXPECT_EQ(ask("gat -1 a\r\nget a"), "VALUE a 0 3\r\nzxy\r\nEND\r\nEND\r\n");
  EXPECT_EQ(ask("touch a 5"), "NOT_FOUND\r\n");
  EXPECT_EQ(ask("gat 5 a"), "END\r\n");
  for (const char* past : {"-1", "1600000000"}) {
    const std::string end = std::string(" 0 ") + past + " 1\r\nx";
    EXPECT_EQ(ask("set a" + end), "STORED\r\n");
    EXPECT_EQ(ask("replace a" + end), "NOT_STORED\r\n");
    EXPECT_EQ(ask("add a" + end), "STORED\r\n");
    EXPECT_EQ(ask("get a"), "END\r\n");
    EXPECT_EQ(ask("set a 0 0 1\r\nx"), "STORED\r\n");
    EXPECT_EQ(ask("add a" + end), "NOT_STORED\r\n");
    EXPECT_EQ(ask("replace a" + end), "STORED\r\n");
    EXPECT_EQ(ask("get a"), "END\r\n");
  }
  EXPECT_EQ(ask("set a 0 10 1\r\nx"), "STORED\r\n");
  gateway.now_us += 10'000'000;
  EXPECT_EQ(ask("get a"), "END\r\n");
}

TEST_F(MemcachedCommands, Numbers) {
  EXPECT_EQ(ask("incr n 1"), "NOT_FOUND\r\n");
  EXPECT_EQ(ask("set n 3 0 2\r\n10"), "STORED\r\n");
  EXPECT_EQ(ask("decr n 1\r\nget n"), "9\r\nVALUE n 3 2\r\n9 \r\nEND\r\n") << "the length stays";
  EXPECT_EQ(ask("incr n 99\r\nget n"), "108\r\nVALUE n 3 3\r\n108\r\nEND\r\n");
  EXPECT_EQ(ask("decr n 1000"), "0\r\n");
  EXPECT_EQ(ask("incr n 18446744073709551615\r\nincr n 2"), "18446744073709551615\r\n1\r\n");
  EXPECT_EQ(ask("incr n x"), "CLIENT_ERROR invalid numeric delta argument\r\n");
  EXPECT_EQ(ask("set n 0 0 1\r\nx\r\nincr n 1"),
            "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  EXPECT_EQ(ask("ma m N0 J10 v t"), "VA 2 t-1\r\n10\r\n");
  const std::string summed = ask("ma m D5 MD v c Oq k");
  EXPECT_EQ(summed, "VA 1 c" + version_of("m") + " Oq km\r\n5\r\n");
  EXPECT_EQ(ask("ma m T30 t"), "HD t30\r\n");
  EXPECT_EQ(ask("ma m C1"), "EX\r\n");
  EXPECT_EQ(ask("ma nosuch k q"), "NF knosuch\r\n");
  EXPECT_EQ(ask("ma made N0 q\r\nma made N0 q\r\nmn"), "HD\r\nMN\r\n");
  EXPECT_EQ(ask("ma m q\r\nma m Mx"), "CLIENT_ERROR invalid mode for ma M token\r\n");
  gateway.store.tables[0]["long"] = {"9" + std::string(kMemcachedNumberBytesMax - 1, ' '), 7, {}};
  EXPECT_EQ(ask("incr long 1"), "10\r\n");
  gateway.store.tables[0]["long"].value += ' ';
  EXPECT_EQ(ask("incr long 1"), "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
}

TEST_F(MemcachedCommands, WhatDoesNotFindAHashDoesNotChangeIt) {
  gateway.store.tables[0]["h"] = {"row", 7, {}, {.row = true}};
  for (const char* line : {"gat 1 h", "gats -1 h", "gat 1 h h none", "get h"}) EXPECT_EQ(ask(line), "END\r\n") << line;
  for (const char* line : {"mg h T1", "mg h T-1 v", "mg h v"}) EXPECT_EQ(ask(line), "EN\r\n") << line;
  EXPECT_EQ(gateway.store.tables[0]["h"].version, 7u);
  EXPECT_FALSE(gateway.store.tables[0]["h"].expires_at_ms.has_value());
  ask("set a 0 0 1\r\nx");
  EXPECT_EQ(ask("gat 100 h a"), "VALUE a 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(ask("mg a t"), "HD t100\r\n");
}

TEST_F(MemcachedCommands, TouchesThatOthersComeBefore) {
  ask("set a 0 0 1\r\nx");
  for (const char* line : {"gat 100 a", "mg a T100 v"}) {
    int tries = 0;
    gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
      if (request.kind != StoreRequest::Kind::kExpire || tries++ > 0) return std::nullopt;
      gateway.store.tables[0]["a"].value += 'y';
      gateway.store.tables[0]["a"].version += 1000;
      return std::nullopt;
    };
    EXPECT_THAT(ask(line), HasSubstr(gateway.store.tables[0]["a"].value));
    EXPECT_EQ(tries, 2) << line;
  }
  EXPECT_EQ(ask("mg a v t"), "VA 3 t100\r\nxyy\r\n");
}

TEST_F(MemcachedCommands, AToldVersionIsOfOneWrite) {
  std::vector<bool> told;
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    told.push_back(request.tells_version);
    return std::nullopt;
  };
  ask("ms a 1 c\r\nx\r\nms a 1\r\nx\r\nset a 0 0 1\r\nx");
  EXPECT_EQ(told, (std::vector<bool>{true, false, false}));
}

TEST_F(MemcachedCommands, Meta) {
  const std::string stored = ask("ms a 2 F7 T100 c k O1\r\nab");
  EXPECT_EQ(stored, "HD c" + version_of("a") + " ka O1\r\n");
  EXPECT_EQ(ask("mg a s v f c t k Ox"), "VA 2 s2 f7 c" + version_of("a") + " t100 ka Ox\r\nab\r\n");
  EXPECT_EQ(ask("mg a T9 t\r\nmg a"), "HD t9\r\nHD\r\n");
  EXPECT_EQ(ask("mg nosuch v\r\nmg nosuch q\r\nmn"), "EN\r\nMN\r\n");
  EXPECT_EQ(ask("ms a 1 ME c\r\nx"), "NS c0\r\n");
  EXPECT_EQ(ask("ms a 1 MA\r\nx\r\nms a 1 MP q\r\ny\r\nmg a v"), "HD\r\nVA 4\r\nyabx\r\n");
  EXPECT_EQ(ask("ms a 1 C1\r\nx\r\nms b 1 C1\r\nx\r\nms b 1 MR\r\nx\r\nms b 1 MA C1\r\nx"), "EX\r\nNF\r\nNS\r\nNS\r\n");
  EXPECT_EQ(ask("ms p 2\r\nMP\r\nms p 2\r\nMP\r\nmg p v"), "HD\r\nHD\r\nVA 2\r\nMP\r\n") << "a value is no flag";
  EXPECT_EQ(ask("md a C1\r\nmd a q\r\nmd a q"), "EX\r\nNF\r\n");
  EXPECT_EQ(ask("ms YQ== 2 b k\r\nab\r\nmg a v\r\nmg YQ== b k"), "HD kYQ== b\r\nVA 2\r\nab\r\nHD kYQ== b\r\n");
  EXPECT_EQ(ask("mg a v v\r\nmg a h\r\nms a 1 MX\r\nx\r\nms a 1 Tx\r\nx"),
            "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\nCLIENT_ERROR invalid mode for ms M token\r\n"
            "CLIENT_ERROR bad token in command line format\r\n");
  EXPECT_EQ(ask("me a\r\nme b"), "ME a exp=-1 cas=" + version_of("a") + " size=2\r\nEN\r\n");
}

TEST_F(MemcachedCommands, FlushAll) {
  gateway.identity.allows_flush = true;
  ask("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx");
  gateway.store.tables[3]["other"] = {};
  EXPECT_EQ(ask("flush_all 5\r\nflush_all x\r\nget a"),
            "SERVER_ERROR flush_all takes no delay\r\nCLIENT_ERROR invalid exptime argument\r\n"
            "VALUE a 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(ask("flush_all 0 noreply\r\nget a b\r\nset a 0 0 1\r\nx\r\nflush_all\r\nget a"),
            "END\r\nSTORED\r\nOK\r\nEND\r\n");
  EXPECT_EQ(gateway.store.tables[3].size(), 1U) << "clients of memcached see one table";
}

TEST_F(MemcachedCommands, TheGatewaysOwn) {
  EXPECT_EQ(ask("version\r\nverbosity 1\r\nverbosity x\r\nflush_all"),
            "VERSION 1.6.18\r\nOK\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR flush_all not allowed\r\n");
  ask("set a 0 0 1\r\nx");
  ask("get a b");
  EXPECT_THAT(ask("stats"), HasSubstr("STAT cmd_get 2\r\nSTAT cmd_set 1\r\nSTAT cmd_touch 0\r\nSTAT get_hits 1\r\n"
                                      "STAT get_misses 1\r\n"));
  for (const char* line :
       {"get", "gat", "GET a", "foo", "touch a", "incr a", "delete", "delete a b c d", "mg", "m", "mx"}) {
    EXPECT_EQ(ask(line), "ERROR\r\n") << line;
  }
  EXPECT_EQ(ask("get a " + std::string(251, 'k')), "CLIENT_ERROR bad command line format\r\n");
  EXPECT_EQ(ask("get a\tb"), "CLIENT_ERROR bad command line format\r\n");
  EXPECT_EQ(ask("gat 0"), "END\r\n");
  EXPECT_EQ(ask("quit\r\nget a"), "");
  EXPECT_TRUE(client.connection().is_over());
}

TEST_F(MemcachedCommands, AWebPageIsHungUpOn) {
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nset a 0 0 1\r\nx\r\n");
  EXPECT_TRUE(client.connection().is_over());
  EXPECT_EQ(gateway.store.request_count, 0U);
  FakeClient other(gateway, std::make_unique<MemcachedProtocol>());
  EXPECT_EQ(other.ask("GET / HTTP/1.0\r\nset a 0 0 1\r\nx"), "");
  EXPECT_TRUE(other.connection().is_over());
  EXPECT_EQ(ask("get HTTP/1.0\r\nFOO HTTP/1.0 x"), "") << "the first client is gone";
  FakeClient third(gateway, std::make_unique<MemcachedProtocol>());
  EXPECT_EQ(third.ask("get HTTP/1.0\r\nFOO HTTP/1.0 x"), "END\r\nERROR\r\n");
}

TEST_F(MemcachedCommands, FailuresOfTheStore) {
  gateway.store.on_request = [](const StoreRequest&) -> std::optional<StoreResult> {
    return StoreResult{.status = StoreResult::Status::kNotApplied, .text = "busy"};
  };
  for (const char* line :
       {"get a", "get a b", "gat 0 a", "touch a 0", "delete a", "incr a 1", "set a 0 0 1\r\nx", "append a 0 0 1\r\nx",
        "prepend a 0 0 1\r\nx", "add a 0 -1 1\r\nx", "mg a", "md a", "ma a", "me a"}) {
    EXPECT_EQ(ask(line), "SERVER_ERROR try again: busy\r\n") << line;
  }
  EXPECT_EQ(ask("set a 0 0 1 noreply\r\nx\r\nmn"), "MN\r\n");
}

TEST_F(MemcachedCommands, OfOneKeyActInTheirOrder) {
  client.send("set a 0 0 1\r\nx\r\nget a b\r\nincr a 1 noreply\r\nmg b q\r\nmn\r\n");
  EXPECT_EQ(client.waiting().size(), 2U) << "set a, mg b";
  client.answer(1);
  client.answer(0);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nMN\r\n");
  EXPECT_TRUE(client.connection().is_idle());
}

TEST_F(MemcachedCommands, WritesThatOthersComeBefore) {
  ask("set n 0 0 1\r\n5");
  int tries = 0;
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    if (request.kind != StoreRequest::Kind::kPut || tries++ > 0) return std::nullopt;
    gateway.store.tables[0]["n"].value = "7";
    gateway.store.tables[0]["n"].version += 1000;
    return std::nullopt;
  };
  EXPECT_EQ(ask("incr n 1"), "8\r\n");
  EXPECT_EQ(tries, 2);
}

}  // namespace
}  // namespace skua::kv::gateway
