// MULTI, EXEC, DISCARD, WATCH and UNWATCH, over a store that is a map.
#include "kvstore/gateway/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "kvstore/codec/row.h"
#include "kvstore/gateway/command_table.h"
#include "tests/kvstore/gateway/fake_store.h"

namespace skua::kv::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Kind = StoreRequest::Kind;
using Status = StoreResult::Status;

class Transactions : public ::testing::Test {
 protected:
  std::string ask(const std::string& line) { return client.ask(line); }
  /// The reply of EXEC to these commands.
  std::string exec(const std::vector<std::string>& lines) {
    EXPECT_EQ(ask("MULTI"), "+OK\r\n");
    for (const std::string& line : lines) EXPECT_EQ(ask(line), "+QUEUED\r\n") << line;
    return ask("EXEC");
  }
  /// An inline command has 64 KiB at most.
  std::string set(const std::string& key, const std::string& value) {
    client.send("*3\r\n$3\r\nSET\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n$" +
                std::to_string(value.size()) + "\r\n" + value + "\r\n");
    client.answer_all();
    return client.take_output();
  }
  [[nodiscard]] std::string value(const std::string& key) { return gateway.store.tables[0][key].value; }
  /// Changes a key when the next batch comes, before it is applied; `times` times.
  void change_before_batch(const std::string& key, int times) {
    gateway.store.on_request = [this, key, times](const StoreRequest& request) mutable -> std::optional<StoreResult> {
      if (request.kind == Kind::kBatch) {
        ++batches;
        if (times-- > 0) {
          gateway.store.tables[0][key].version += 1000;
          gateway.store.tables[0][key].value += "0";
        }
      }
      return std::nullopt;
    };
  }
  void count_batches() { change_before_batch("", 0); }

  FakeGateway gateway;
  FakeClient client{gateway};
  FakeClient other{gateway};
  int batches = 0;
};

TEST_F(Transactions, CommandsSeeThoseBeforeThem) {
  ask("SET a 1 EX 100");
  EXPECT_EQ(exec({"INCR a", "GET a", "APPEND a 7", "TTL a", "DEL a b", "EXISTS a", "SET b x", "GETSET b y", "MGET a b",
                  "SET b z NX", "SETNX a w", "STRLEN a", "INCR b", "PING", "ECHO hi"}),
            "*15\r\n:2\r\n$1\r\n2\r\n:2\r\n:100\r\n:1\r\n:0\r\n+OK\r\n$1\r\nx\r\n*2\r\n$-1\r\n$1\r\ny\r\n"
            "$-1\r\n:1\r\n:1\r\n-ERR value is not an integer or out of range\r\n+PONG\r\n$2\r\nhi\r\n");
  EXPECT_EQ(ask("MGET a b"), "*2\r\n$1\r\nw\r\n$1\r\ny\r\n");
  EXPECT_EQ(ask("TTL a"), ":-1\r\n");
  EXPECT_EQ(exec({}), "*0\r\n");
}

TEST_F(Transactions, NothingIsVisibleBeforeExec) {
  ask("MULTI");
  EXPECT_EQ(ask("SET a 1"), "+QUEUED\r\n");
  EXPECT_EQ(other.ask("GET a"), "$-1\r\n");
  EXPECT_EQ(ask("EXEC"), "*1\r\n+OK\r\n");
  EXPECT_EQ(other.ask("GET a"), "$1\r\n1\r\n");
  EXPECT_EQ(ask("EXEC"), "-ERR EXEC without MULTI\r\n");
}

TEST_F(Transactions, TimesToLiveAreKeptOrSet) {
  for (const char* key : {"incr", "append", "range", "keep", "gone", "set"})
    ask(std::string("SET ") + key + " 1 EX 500");
  EXPECT_EQ(exec({"INCR incr", "APPEND append 1", "SETRANGE range 0 2", "SET keep 2 KEEPTTL", "PERSIST gone",
                  "SET set 2", "SET new 3 EX 70", "SETEX late 80 v", "EXPIRE set 90", "TTL set", "PTTL keep"}),
            "*11\r\n:2\r\n:2\r\n:1\r\n+OK\r\n:1\r\n+OK\r\n+OK\r\n+OK\r\n:1\r\n:90\r\n:500000\r\n");
  for (const char* key : {"incr", "append", "range", "keep"})
    EXPECT_EQ(ask(std::string("TTL ") + key), ":500\r\n") << key;
  EXPECT_EQ(ask("TTL gone"), ":-1\r\n");
  EXPECT_EQ(ask("TTL set"), ":90\r\n");
  EXPECT_EQ(ask("TTL new"), ":70\r\n");
  EXPECT_EQ(ask("TTL late"), ":80\r\n");
  EXPECT_EQ(exec({"SET keep 2 PXAT 1", "GETEX set PERSIST", "EXPIRE new 0"}), "*3\r\n+OK\r\n$1\r\n2\r\n:1\r\n");
  EXPECT_EQ(ask("EXISTS keep new"), ":0\r\n");
  EXPECT_EQ(ask("TTL set"), ":-1\r\n");
}

TEST_F(Transactions, TagsAreKeptByWritesThatChangeARecord) {
  gateway.store.tables[0]["a"] = {.value = "1", .version = 1, .expires_at_ms = {}, .mark = {.tag = 7}};
  gateway.store.tables[0]["b"] = {.value = "1", .version = 1, .expires_at_ms = {}, .mark = {.tag = 7}};
  exec({"INCR a", "SET b 2"});
  EXPECT_EQ(gateway.store.tables[0]["a"].mark.tag, 7U);
  EXPECT_EQ(gateway.store.tables[0]["b"].mark.tag, 0U);
}

TEST_F(Transactions, Hashes) {
  ask("HSET h a 1 b 2");
  ask("EXPIRE h 500");
  EXPECT_EQ(exec({"HSET h b 3 c 4", "HGET h b", "HINCRBY h a 5", "HDEL h c", "HLEN h", "HSET new f v", "HSET new g w",
                  "GET h", "APPEND h x", "INCR h", "SET s 1", "HSET s f v", "TYPE new", "TTL h"}),
            "*14\r\n:1\r\n$1\r\n3\r\n:6\r\n:1\r\n:2\r\n:1\r\n:1\r\n"
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n+OK\r\n"
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n+hash\r\n:500\r\n");
  EXPECT_EQ(ask("HGETALL h"), "*4\r\n$1\r\na\r\n$1\r\n6\r\n$1\r\nb\r\n$1\r\n3\r\n");
  EXPECT_EQ(ask("HGETALL new"), "*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\ng\r\n$1\r\nw\r\n");
  EXPECT_EQ(ask("TTL h"), ":500\r\n");
  EXPECT_EQ(exec({"HDEL new f g", "EXISTS new", "DEL h", "HSET h a 1"}), "*4\r\n:2\r\n:0\r\n:1\r\n:1\r\n");
  EXPECT_EQ(ask("EXISTS new"), ":0\r\n");
  EXPECT_EQ(ask("TTL h"), ":-1\r\n");
}

TEST_F(Transactions, AKeyThatOthersChange_IsReadAgain) {
  ask("SET a 1");
  change_before_batch("a", 3);
  EXPECT_EQ(exec({"INCR a", "INCR b"}), "*2\r\n:1001\r\n:1\r\n");
  EXPECT_EQ(value("a"), "1001");
  EXPECT_EQ(value("b"), "1");
  EXPECT_EQ(batches, 4);
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    gateway.now_us += 1'000'000;
    if (request.kind != Kind::kBatch) return std::nullopt;
    return StoreResult{.status = Status::kOtherVersion};
  };
  EXPECT_EQ(exec({"INCR a"}), "-TRYAGAIN others change the key all the time: nothing was written\r\n");
}

TEST_F(Transactions, ReadsAreOfOneMoment) {
  ask("MSET a 1 b 1");
  change_before_batch("a", 1);
  EXPECT_EQ(exec({"GET a", "GET b"}), "*2\r\n$2\r\n10\r\n$1\r\n1\r\n");
  EXPECT_EQ(batches, 2);
  EXPECT_EQ(exec({"GET a"}), "*1\r\n$2\r\n10\r\n");
  EXPECT_EQ(batches, 2) << "one read is of one moment anyway";
  EXPECT_EQ(exec({"GET nosuch", "TTL b"}), "*2\r\n$-1\r\n:-1\r\n");
  EXPECT_EQ(batches, 3);
}

TEST_F(Transactions, WhatIsOnlyWritten_IsNotReadAndHasNoCondition) {
  const size_t requests = gateway.store.request_count;
  EXPECT_EQ(exec({"SET a 1", "MSET b 2 c 3", "SETEX d 9 4", "INCR a"}), "*4\r\n+OK\r\n+OK\r\n+OK\r\n:2\r\n");
  EXPECT_EQ(gateway.store.request_count, requests + 1);
  change_before_batch("a", 1);
  EXPECT_EQ(exec({"SET a 5", "GET a", "DEL a", "SET a 6"}), "*4\r\n+OK\r\n$1\r\n5\r\n:1\r\n+OK\r\n");
  EXPECT_EQ(batches, 1);
  EXPECT_EQ(value("a"), "6");
  EXPECT_EQ(exec({"SET e 1", "DEL e", "GET e"}), "*3\r\n+OK\r\n:1\r\n$-1\r\n");
  EXPECT_EQ(ask("EXISTS e"), ":0\r\n");
}

TEST_F(Transactions, WatchedKeys) {
  ask("SET a 1");
  EXPECT_EQ(ask("WATCH a b"), "+OK\r\n");
  EXPECT_EQ(exec({"SET c 1"}), "*1\r\n+OK\r\n");
  // By another client, by the same one, before and after MULTI, of a key that was absent.
  ask("WATCH a b");
  other.ask("SET b 2");
  EXPECT_EQ(exec({"SET c 2"}), "*-1\r\n");
  ask("WATCH a");
  ask("APPEND a x");
  EXPECT_EQ(exec({"SET c 2", "GET a"}), "*-1\r\n");
  ask("WATCH b");
  ask("MULTI");
  ask("SET c 2");
  other.ask("DEL b");
  EXPECT_EQ(ask("EXEC"), "*-1\r\n");
  EXPECT_EQ(value("c"), "1");
  // They are forgotten with EXEC, DISCARD, UNWATCH and RESET, and not with an EXEC that is none.
  other.ask("SET b 3");
  EXPECT_EQ(exec({"SET c 4"}), "*1\r\n+OK\r\n");
  for (const char* forget : {"UNWATCH", "RESET", "MULTI\r\nDISCARD"}) {
    ask("WATCH a");
    ask(forget);
    other.ask("APPEND a x");
    EXPECT_EQ(exec({"SET c 5"}), "*1\r\n+OK\r\n") << forget;
  }
  ask("WATCH a");
  ask("EXEC");
  other.ask("APPEND a x");
  EXPECT_EQ(exec({}), "*-1\r\n");
  ask("HELLO 3");
  ask("WATCH a");
  other.ask("APPEND a x");
  EXPECT_EQ(exec({"PING"}), "_\r\n");
}

TEST_F(Transactions, AWatchedKeyThatIsOverwrittenOrChangesLate) {
  ask("SET a 1");
  ask("WATCH a");
  change_before_batch("a", 1);
  EXPECT_EQ(exec({"SET a 5"}), "*-1\r\n");
  EXPECT_EQ(batches, 1) << "not tried again";
  EXPECT_EQ(value("a"), "10");
  ask("WATCH a");
  EXPECT_EQ(exec({"SET a 5"}), "*1\r\n+OK\r\n");
  EXPECT_EQ(value("a"), "5");
  // The first WATCH of a key counts.
  ask("WATCH a");
  other.ask("SET a 6");
  ask("WATCH a");
  EXPECT_EQ(exec({"SET a 7"}), "*-1\r\n");
}

TEST_F(Transactions, AWatchThatFails_CountsAsAChange) {
  gateway.store.on_request = [](const StoreRequest& /*request*/) -> std::optional<StoreResult> {
    return StoreResult{.status = Status::kNotApplied, .text = "no node"};
  };
  EXPECT_EQ(ask("WATCH a"), "-TRYAGAIN no node\r\n");
  gateway.store.on_request = nullptr;
  EXPECT_EQ(exec({"SET a 1"}), "*-1\r\n");
  std::string keys;
  for (size_t i = 0; i < kWatchedKeysMax; ++i) keys += " k" + std::to_string(i);
  EXPECT_EQ(ask("WATCH" + keys), "+OK\r\n");
  EXPECT_EQ(ask("WATCH k1 k2"), "+OK\r\n");
  EXPECT_EQ(ask("WATCH k1 more"), "-ERR too many watched keys: at most 1024 at a time\r\n");
  std::string one_key;
  for (size_t i = 0; i <= kWatchedKeysMax; ++i) one_key += " k1";
  EXPECT_EQ(ask("WATCH" + one_key), "-ERR too many watched keys: at most 1024 at a time\r\n");
  EXPECT_EQ(exec({"SET k0 1"}), "*-1\r\n");
}

TEST_F(Transactions, ErrorsWhenCommandsCome) {
  ask("MULTI");
  EXPECT_EQ(ask("MULTI"), "-ERR MULTI calls can not be nested\r\n");
  EXPECT_EQ(ask("WATCH a"), "-ERR WATCH inside MULTI is not allowed\r\n");
  EXPECT_EQ(ask("EXEC"), "*0\r\n");
  EXPECT_EQ(ask("DISCARD"), "-ERR DISCARD without MULTI\r\n");
  for (const char* bad : {"FOO", "GET", "SELECT 0", "SCAN 0", "KEYS *", "DBSIZE", "HELLO 3", "AUTH x", "WATCH",
                          "GET \"\"", "CONFIG FOO"}) {
    ask("MULTI");
    EXPECT_EQ(ask("SET a 1"), "+QUEUED\r\n");
    EXPECT_THAT(ask(bad), StartsWith("-ERR ")) << bad;
    EXPECT_EQ(ask("SET a 1"), "+QUEUED\r\n");
    EXPECT_EQ(ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n") << bad;
    EXPECT_EQ(ask("EXISTS a"), ":0\r\n");
  }
  ask("MULTI");
  EXPECT_EQ(ask("SELECT 0"), "-ERR Command not allowed inside a transaction\r\n");
  EXPECT_EQ(ask("DISCARD"), "+OK\r\n");
  ask("MULTI");
  EXPECT_EQ(ask("EXEC x"),
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n");
  EXPECT_EQ(ask("EXEC"), "-ERR EXEC without MULTI\r\n");
  // Words that only the command itself understands.
  EXPECT_EQ(exec({"SET a 1 FOO", "SET a 2"}), "*2\r\n-ERR syntax error\r\n+OK\r\n");
}

TEST_F(Transactions, KeysOfSeveralShardsOrDatabases) {
  gateway.store.shard_of_key = [](std::string_view key) { return static_cast<uint32_t>(key[0]); };
  EXPECT_EQ(exec({"SET a 1", "SET b 1"}), "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
  EXPECT_EQ(ask("EXISTS a b"), ":0\r\n");
  EXPECT_EQ(exec({"SET a 1", "INCR a"}), "*2\r\n+OK\r\n:2\r\n");
  ask("WATCH a");
  ask("SELECT 3");
  EXPECT_EQ(exec({"SET a 1"}), "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
  EXPECT_EQ(exec({"SET a 1"}), "*1\r\n+OK\r\n");
  EXPECT_EQ(gateway.store.tables[3]["a"].value, "1");
}

TEST_F(Transactions, FailuresOfTheStore) {
  const auto fails = [this](Status status, Kind kind) {
    gateway.store.on_request = [=](const StoreRequest& request) -> std::optional<StoreResult> {
      if (request.kind != kind) return std::nullopt;
      return StoreResult{.status = status, .text = "no node"};
    };
  };
  fails(Status::kNotApplied, Kind::kGet);
  EXPECT_EQ(exec({"INCR a"}), "-TRYAGAIN no node\r\n");
  fails(Status::kUnknown, Kind::kBatch);
  EXPECT_EQ(exec({"SET a 1"}), "-ERR outcome unknown: no node\r\n");
  fails(Status::kNotApplied, Kind::kBatch);
  EXPECT_EQ(exec({"SET a 1"}), "-TRYAGAIN no node\r\n");
  fails(Status::kNoRight, Kind::kBatch);
  EXPECT_EQ(exec({"SET a 1"}), "-NOPERM no node\r\n");
}

TEST_F(Transactions, APipelineActsInItsOrder) {
  client.send(
      "SET a 1\r\nWATCH a\r\nGET a\r\nMULTI\r\nINCR a\r\nUNWATCH\r\nEXEC\r\nGET a\r\nWATCH a\r\nMULTI\r\nINCR a\r\n"
      "EXEC\r\nMULTI\r\nSET b 1\r\nDISCARD\r\nEXISTS a b\r\n");
  // The latest request is answered first.
  while (!client.waiting().empty()) client.answer(client.waiting().size() - 1);
  EXPECT_EQ(
      client.take_output(),
      "+OK\r\n+OK\r\n$1\r\n1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n+OK\r\n$1\r\n2\r\n+OK\r\n+OK\r\n+QUEUED\r\n"
      "*1\r\n:3\r\n+OK\r\n+QUEUED\r\n+OK\r\n:1\r\n");
}

/// Otherwise a client could act on a value that is older than the version that WATCH has kept.
TEST_F(Transactions, AReadBehindWatchWaitsForIt) {
  ask("SET a 1");
  client.send("WATCH a\r\nGET a\r\n");
  EXPECT_EQ(client.waiting().size(), 1U);
  client.answer(0);
  EXPECT_EQ(client.waiting().size(), 1U);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n$1\r\n1\r\n");
}

TEST_F(Transactions, ManyCommandsAndKeys) {
  std::vector<std::string> lines;
  std::string replies;
  for (size_t i = 0; i < kQueuedCommandsMax; ++i) {
    lines.push_back("INCR k" + std::to_string(i));
    replies += ":1\r\n";
  }
  EXPECT_EQ(exec(lines), "*1024\r\n" + replies);
  EXPECT_EQ(gateway.store.tables[0].size(), kQueuedCommandsMax);
  ask("MULTI");
  for (const std::string& line : lines) ask(line);
  EXPECT_EQ(ask("PING"),
            "-ERR the transaction is too large: it has at most 1024 commands, and these take at most 32 MiB\r\n");
  EXPECT_EQ(ask("PING"), "+QUEUED\r\n");
  EXPECT_THAT(ask("EXEC"), StartsWith("-EXECABORT"));
  std::string keys = "DEL more";
  for (size_t i = 0; i < 1024; ++i) keys += " k" + std::to_string(i);
  EXPECT_EQ(exec({keys}), "-ERR the transaction has too many keys: at most 1024. Nothing was written\r\n");
  EXPECT_EQ(gateway.store.tables[0].size(), kQueuedCommandsMax);
}

TEST_F(Transactions, BytesAreBounded) {
  const std::string value(size_t{12} << 20, 'v');
  ask("MULTI");
  EXPECT_EQ(set("a", value), "+QUEUED\r\n");
  EXPECT_GE(gateway.context.held_bytes, value.size());
  EXPECT_EQ(set("b", value), "+QUEUED\r\n");
  EXPECT_THAT(set("c", value), StartsWith("-ERR the transaction is too large"));
  EXPECT_LT(gateway.context.held_bytes, 10'000U);
  EXPECT_THAT(ask("EXEC"), StartsWith("-EXECABORT"));
  EXPECT_EQ(gateway.context.held_bytes, 0U);
  // Values that are read, and replies.
  for (int i = 0; i < 6; ++i) {
    gateway.store.tables[0]["k" + std::to_string(i)] = {.value = value, .version = 1, .expires_at_ms = {}};
  }
  EXPECT_THAT(exec({"GET k1", "GET k1", "GET k1", "GET k1", "GET k1", "GET k1"}),
              StartsWith("-ERR the values of the transaction, or its replies"));
  EXPECT_THAT(exec({"STRLEN k0", "STRLEN k1", "STRLEN k2", "STRLEN k3", "STRLEN k4", "STRLEN k5"}),
              HasSubstr("64 MiB"));
  EXPECT_EQ(gateway.store.memory.bytes_held, 0U);
  // Copies that take the thread's time.
  EXPECT_THAT(exec(std::vector<std::string>(22, "APPEND k0 x")), StartsWith("-ERR the values of the transaction"));
  EXPECT_THAT(exec(std::vector<std::string>(15, "APPEND k0 x")), StartsWith("*15\r\n"));
}

TEST_F(Transactions, EditsThatChangeNothingTakeTimeAllTheSame) {
  std::string row;
  append_field(row, {"f", as_byte_span(std::string(size_t{12} << 20, 'v'))});
  gateway.store.tables[0]["h"] = {.value = row, .version = 1, .expires_at_ms = {}, .mark = {.tag = 7, .row = true}};
  EXPECT_THAT(exec(std::vector<std::string>(50, "HDEL h nosuch")), StartsWith("-ERR the values of the transaction"));
  EXPECT_THAT(exec(std::vector<std::string>(30, "HDEL h nosuch")), StartsWith("*30\r\n:0\r\n"));
}

TEST_F(Transactions, EditsOfAHashKeepItsTag) {
  std::string row;
  append_field(row, {"f", as_byte_span("1")});
  gateway.store.tables[0]["h"] = {.value = row, .version = 1, .expires_at_ms = {}, .mark = {.tag = 7, .row = true}};
  EXPECT_EQ(exec({"HSET h g 2", "HDEL h f"}), "*2\r\n:1\r\n:1\r\n");
  EXPECT_EQ(gateway.store.tables[0]["h"].mark, (RecordMark{.tag = 7, .row = true}));
}

TEST_F(Transactions, AreReadOnWhenTheThreadHasNoRoom) {
  gateway.context.held_bytes_max = 3000;
  ask("MULTI");
  EXPECT_EQ(ask("SET a " + std::string(3000, 'v')), "+QUEUED\r\n");
  EXPECT_TRUE(client.connection().wants_input());
  EXPECT_EQ(ask("SET b 1"), "-TRYAGAIN the gateway has no room for the command\r\n");
  EXPECT_THAT(ask("EXEC"), StartsWith("-EXECABORT"));
  EXPECT_EQ(gateway.context.held_bytes, 0U);
}

TEST_F(Transactions, TheThreadsRoomForValuesIsBounded) {
  gateway.context.working_value_bytes_max = 9000;  // EXEC has a value twice for a moment
  for (const char* key : {"a", "b", "c", "d"}) ask("SET " + std::string(key) + " " + std::string(2000, 'v'));
  EXPECT_EQ(exec({"STRLEN a", "STRLEN b"}), "*2\r\n:2000\r\n:2000\r\n");
  EXPECT_EQ(exec({"STRLEN a", "STRLEN b", "STRLEN c"}),
            "-TRYAGAIN the gateway has no room for the values: nothing was written\r\n");
  EXPECT_EQ(exec({"GET a", "GET a", "GET a"}),
            "-TRYAGAIN the gateway has no room for the values: nothing was written\r\n")
      << "replies count, too";
  EXPECT_EQ(gateway.context.working_value_bytes, 0U);
  // What one client's command holds is not there for another's.
  other.send("MGET a b c d\r\n");
  for (int i = 0; i < 3; ++i) other.answer(0);
  EXPECT_EQ(gateway.context.working_value_bytes, 6000U);
  EXPECT_THAT(exec({"STRLEN a"}), StartsWith("-TRYAGAIN"));
  EXPECT_THAT(ask("MGET a b"), StartsWith("-TRYAGAIN"));
  EXPECT_THAT(ask("GET a"), StartsWith("$2000")) << "a single value has room";
  other.answer(0);
  EXPECT_THAT(other.take_output(), StartsWith("*4"));
  EXPECT_THAT(exec({"STRLEN a"}), StartsWith("*1"));
  EXPECT_EQ(gateway.context.working_value_bytes, 0U);
}

TEST_F(Transactions, AClientThatGoesAwayLeavesNothing) {
  {
    FakeClient gone(gateway);
    gone.ask("SET a " + std::string(1000, 'v'));
    gone.ask("WATCH a");
    gone.send("MULTI\r\nGET a\r\nSET b 1\r\nEXEC\r\nWATCH b\r\nMULTI\r\nSET c 1\r\n");
    EXPECT_FALSE(gone.waiting().empty());
    FakeClient amid_values(gateway);
    amid_values.send("MGET a a\r\n");
    amid_values.answer(0);
    EXPECT_EQ(gateway.context.working_value_bytes, 1000U);
  }
  EXPECT_EQ(gateway.context.working_value_bytes, 0U);
  EXPECT_EQ(gateway.context.held_bytes, 0U);
  EXPECT_EQ(gateway.store.memory.bytes_held, 0U);
  EXPECT_EQ(ask("EXISTS b c"), ":0\r\n");
}

/// A command that joins this list must be one whose requests TransactionStore understands; others have kNotInMulti.
TEST(CommandTable, CommandsWithKeysThatMayBeQueued) {
  std::string names;
  for (const CommandSpec& spec : all_commands()) {
    if (spec.has(kNotInMulti) || spec.has(kNotQueued) || spec.has(kLocal)) continue;
    EXPECT_NE(spec.first_key, 0) << spec.name;
    names += std::string(spec.name) + " ";
  }
  EXPECT_EQ(
      names,
      "append decr decrby del exists expire expireat expiretime get getdel getex getrange getset hdel hexists hget "
      "hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hscan hset hsetnx hstrlen hvals incr incrby incrbyfloat "
      "mget mset msetnx persist pexpire pexpireat pexpiretime psetex pttl set setex setnx setrange strlen ttl type "
      "unlink ");
}

}  // namespace
}  // namespace skua::kv::gateway
