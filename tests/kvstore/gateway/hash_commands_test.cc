// Commands of hashes and their replies, over a store that is a map. redis_differential_test.py compares them with
// redis-server's.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/row.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/hash_fields.h"
#include "kvstore/gateway/memcached_protocol.h"
#include "rpc/base/bytes.h"
#include "tests/kvstore/gateway/fake_store.h"

namespace skua::kv::gateway {
namespace {

constexpr const char* kWrongTypeLine = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

class HashCommands : public ::testing::Test {
 protected:
  std::string ask(const std::string& line) { return client.ask(line); }
  FakeStore::Entry& entry(const std::string& key) { return gateway.store.tables[0][key]; }
  FakeGateway gateway;
  FakeClient client{gateway};
};

TEST_F(HashCommands, SetAndGet) {
  EXPECT_EQ(ask("HGET h a"), "$-1\r\n");
  EXPECT_EQ(ask("HSET h a 1 b 2 a 3"), ":2\r\n");
  EXPECT_EQ(ask("HGET h a"), "$1\r\n3\r\n");
  EXPECT_EQ(ask("HSET h b 22 c 4"), ":1\r\n");
  EXPECT_EQ(ask("HSET h b 2"), ":0\r\n");
  EXPECT_EQ(ask("HGETALL h"), "*6\r\n$1\r\na\r\n$1\r\n3\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n4\r\n")
      << "in the order in which fields came";
  EXPECT_EQ(ask("HMSET h c 5 d \"\""), "+OK\r\n");
  EXPECT_EQ(ask("HSETNX h d x"), ":0\r\n");
  EXPECT_EQ(ask("HSETNX h e x"), ":1\r\n");
  EXPECT_EQ(ask("HSETNX other e x"), ":1\r\n");
  EXPECT_EQ(ask("HKEYS h"), "*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n");
  EXPECT_EQ(ask("HVALS h"), "*5\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n5\r\n$0\r\n\r\n$1\r\nx\r\n");
  EXPECT_EQ(ask("HMGET h e nosuch a e"), "*4\r\n$1\r\nx\r\n$-1\r\n$1\r\n3\r\n$1\r\nx\r\n");
  EXPECT_EQ(ask("HLEN h"), ":5\r\n");
  EXPECT_EQ(ask("HSTRLEN h b"), ":1\r\n");
  EXPECT_EQ(ask("HSTRLEN h nosuch"), ":0\r\n");
  EXPECT_EQ(ask("HEXISTS h d"), ":1\r\n");
  EXPECT_EQ(ask("HEXISTS h nosuch"), ":0\r\n");
  EXPECT_EQ(ask("HSET h a 1 b"), "-ERR wrong number of arguments for 'hset' command\r\n");
  EXPECT_EQ(ask("HMSET h a 1 b"), "-ERR wrong number of arguments for 'hmset' command\r\n");
  EXPECT_TRUE(entry("h").mark.row);
  EXPECT_TRUE(check_marked_row(as_byte_span(entry("h").value)).ok());
}

TEST_F(HashCommands, OfAbsentKeys) {
  EXPECT_EQ(ask("HGETALL h"), "*0\r\n");
  EXPECT_EQ(ask("HKEYS h"), "*0\r\n");
  EXPECT_EQ(ask("HMGET h a b"), "*2\r\n$-1\r\n$-1\r\n");
  EXPECT_EQ(ask("HLEN h"), ":0\r\n");
  EXPECT_EQ(ask("HDEL h a"), ":0\r\n");
  EXPECT_EQ(ask("HSCAN h 0 FOO"), "*2\r\n$1\r\n0\r\n*0\r\n");
  ask("HELLO 3");
  EXPECT_EQ(ask("HGETALL h"), "%0\r\n");
  EXPECT_EQ(ask("HVALS h"), "*0\r\n");
  EXPECT_EQ(ask("HGET h a"), "_\r\n");
}

TEST_F(HashCommands, TheLastFieldTakesTheHashWithIt) {
  EXPECT_EQ(ask("HSET h a 1 b 2 c 3"), ":3\r\n");
  EXPECT_EQ(ask("EXPIRE h 100"), ":1\r\n");
  EXPECT_EQ(ask("HDEL h b nosuch b"), ":1\r\n");
  EXPECT_EQ(ask("HGETALL h"), "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nc\r\n$1\r\n3\r\n");
  EXPECT_EQ(ask("HSET h c 4"), ":0\r\n");
  EXPECT_EQ(ask("HINCRBY h a 1"), ":2\r\n");
  EXPECT_EQ(ask("TTL h"), ":100\r\n") << "changes of fields keep it";
  EXPECT_EQ(ask("HDEL h a c"), ":2\r\n");
  EXPECT_EQ(ask("EXISTS h"), ":0\r\n");
  EXPECT_EQ(ask("HSET h a 1"), ":1\r\n");
  EXPECT_EQ(ask("TTL h"), ":-1\r\n");
  EXPECT_EQ(ask("DEL h"), ":1\r\n");
}

TEST_F(HashCommands, Numbers) {
  EXPECT_EQ(ask("HINCRBY h n 5"), ":5\r\n");
  EXPECT_EQ(ask("HINCRBY h n -7"), ":-2\r\n");
  EXPECT_EQ(ask("HINCRBY h n x"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(ask("HINCRBY h n -9223372036854775808"), "-ERR increment or decrement would overflow\r\n");
  EXPECT_EQ(ask("HINCRBYFLOAT h n 0.5"), "$4\r\n-1.5\r\n");
  EXPECT_EQ(ask("HINCRBY h n 1"), "-ERR hash value is not an integer\r\n");
  EXPECT_EQ(ask("HSET h s x"), ":1\r\n");
  EXPECT_EQ(ask("HINCRBYFLOAT h s 1"), "-ERR hash value is not a float\r\n");
  EXPECT_EQ(ask("HINCRBYFLOAT h n x"), "-ERR value is not a valid float\r\n");
  EXPECT_EQ(ask("HINCRBYFLOAT h n inf"), "-ERR value is NaN or Infinity\r\n");
  EXPECT_EQ(ask("HINCRBYFLOAT h f 1e3"), "$4\r\n1000\r\n");
  EXPECT_EQ(ask("HLEN h"), ":3\r\n");
}

TEST_F(HashCommands, APatternThatTakesLongIsRefused) {
  std::string command = "HSET large";
  for (int i = 0; i < 60; ++i) command += " " + std::string(900, 'a') + std::to_string(i) + " 1";
  ask(command);
  EXPECT_EQ(ask("HSCAN large 0 MATCH " + std::string(1300, '?')).substr(0, 28), "-ERR the pattern is too long");
  EXPECT_EQ(ask("HSCAN large 0 MATCH a*b"), "*2\r\n$1\r\n0\r\n*0\r\n");
}

TEST_F(HashCommands, Scan) {
  ask("HSET h a1 1 b1 2 a2 3");
  EXPECT_EQ(ask("HSCAN h 0 MATCH a* COUNT 1"), "*2\r\n$1\r\n0\r\n*4\r\n$2\r\na1\r\n$1\r\n1\r\n$2\r\na2\r\n$1\r\n3\r\n");
  EXPECT_EQ(ask("HSCAN h x"), "-ERR invalid cursor\r\n");
  EXPECT_EQ(ask("HSCAN h 0 COUNT 0"), "-ERR syntax error\r\n");
  EXPECT_EQ(ask("HSCAN h 0 TYPE hash"), "-ERR syntax error\r\n");
  ask("SET s 1");
  EXPECT_EQ(ask("SCAN 0 TYPE hash"), "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nh\r\n");
  EXPECT_EQ(ask("SCAN 0 TYPE String"), "*2\r\n$1\r\n0\r\n*1\r\n$1\r\ns\r\n");
  EXPECT_EQ(ask("SCAN 0 TYPE list"), "*2\r\n$1\r\n0\r\n*0\r\n");
  EXPECT_EQ(ask("SCAN 0"), "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nh\r\n$1\r\ns\r\n");
}

TEST_F(HashCommands, CommandsOfStringsRefuseAHash) {
  ask("HSET h a 1");
  for (const char* line :
       {"GET h", "GETSET h x", "GETDEL h", "GETEX h", "GETEX h PERSIST", "GETEX h EX 0", "SET h x GET",
        "SET h x NX GET", "APPEND h x", "STRLEN h", "GETRANGE h 0 -1", "SETRANGE h 0 x", "SETRANGE h 0 \"\"", "INCR h",
        "DECR h", "INCRBY h 2", "DECRBY h 2", "INCRBYFLOAT h 1"}) {
    EXPECT_EQ(ask(line), kWrongTypeLine) << line;
  }
  EXPECT_EQ(ask("HGETALL h"), "*2\r\n$1\r\na\r\n$1\r\n1\r\n") << "and change nothing";
  EXPECT_EQ(ask("TYPE h"), "+hash\r\n");
  EXPECT_EQ(ask("MGET h"), "*1\r\n$-1\r\n");
  EXPECT_EQ(ask("EXISTS h"), ":1\r\n");
  EXPECT_EQ(ask("SETNX h x"), ":0\r\n");
  EXPECT_EQ(ask("PERSIST h"), ":0\r\n");
  EXPECT_EQ(ask("SET h x"), "+OK\r\n");
  EXPECT_EQ(ask("TYPE h"), "+string\r\n");
  EXPECT_EQ(ask("GET h"), "$1\r\nx\r\n");
}

TEST_F(HashCommands, RefuseAString) {
  ask("SET s 1");
  for (const char* line :
       {"HSET s a 1", "HMSET s a 1", "HSETNX s a 1", "HGET s a", "HMGET s a", "HGETALL s", "HKEYS s", "HVALS s",
        "HLEN s", "HEXISTS s a", "HSTRLEN s a", "HDEL s a", "HINCRBY s a 1", "HINCRBYFLOAT s a 1", "HSCAN s 0"}) {
    EXPECT_EQ(ask(line), kWrongTypeLine) << line;
  }
  EXPECT_EQ(ask("GET s"), "$1\r\n1\r\n");
}

TEST_F(HashCommands, AValueThatLooksLikeARow_IsAString) {
  ask("HSET h a 1");
  entry("h").mark.row = false;
  EXPECT_EQ(ask("HGET h a"), kWrongTypeLine);
  EXPECT_EQ(ask("STRLEN h"), ":10\r\n");
  EXPECT_EQ(ask("TYPE h"), "+string\r\n");
}

TEST_F(HashCommands, OfAnEmptyRow_WhichOtherClientsMayWrite) {
  entry("h") = {.value = "", .version = 7, .expires_at_ms = {}, .mark = {.row = true}};
  EXPECT_EQ(ask("HLEN h"), ":0\r\n");
  EXPECT_EQ(ask("HGETALL h"), "*0\r\n");
  EXPECT_EQ(ask("HSET h a 1"), ":1\r\n");
}

TEST_F(HashCommands, Limits) {
  const std::string size_error = "-ERR a field of a hash must have a name of 1 to 1024 bytes\r\n";
  EXPECT_EQ(ask("HSET h \"\" 1"), size_error);
  EXPECT_EQ(ask("HSET h " + std::string(1025, 'f') + " 1"), size_error);
  EXPECT_EQ(ask("HSETNX h \"\" 1"), size_error);
  EXPECT_EQ(ask("HINCRBY h \"\" 1"), size_error);
  EXPECT_EQ(ask("HINCRBYFLOAT h \"\" 1"), size_error);
  EXPECT_EQ(ask("HGET h \"\""), "$-1\r\n");
  FieldsToSet fields;
  std::vector<std::string> names;
  for (size_t i = 0; i < kFieldsMax; ++i) names.push_back("f" + std::to_string(i));
  for (const std::string& name : names) fields.set(name, "v");
  entry("h") = {.value = fields.as_row(), .version = 7, .expires_at_ms = {}, .mark = {.row = true}};
  const std::string count_error = "-ERR a hash must have at most 1024 fields\r\n";
  EXPECT_EQ(ask("HSET h f0 w"), ":0\r\n");
  EXPECT_EQ(ask("HSET h one-more v"), "-ERR the row would be beyond a limit\r\n") << "the store's words";
  EXPECT_EQ(ask("HSETNX h one-more v"), "-ERR the row would be beyond a limit\r\n");
  EXPECT_EQ(ask("HINCRBY h one-more 1"), "-ERR the row would be beyond a limit\r\n");
  EXPECT_EQ(ask("HDEL h f1"), ":1\r\n");
  EXPECT_EQ(ask("HSET h one-more v"), ":1\r\n");
  std::string pairs;
  for (size_t i = 0; i <= kFieldsMax; ++i) pairs += " g" + std::to_string(i) + " v";
  const size_t requests = gateway.store.request_count;
  EXPECT_EQ(ask("HSET other" + pairs), count_error);
  EXPECT_EQ(gateway.store.request_count, requests);
  // The row of a field of 1 byte has 9 bytes besides the value.
  const std::string value(kValueBytesMax - 9, 'v');
  FieldsToSet large;
  large.set("a", value);
  entry("large") = {.value = large.as_row(), .version = 8, .expires_at_ms = {}, .mark = {.row = true}};
  EXPECT_EQ(ask("HSETNX large b v"), "-ERR the row would be beyond a limit\r\n");
  EXPECT_EQ(ask("HSET large b v"), "-ERR the row would be beyond a limit\r\n");
  EXPECT_EQ(ask("HSTRLEN large a"), ":" + std::to_string(value.size()) + "\r\n");
  EXPECT_EQ(ask("HMGET large a a a a a"),
            "-ERR the reply would be larger than 64 MiB: ask for fewer keys at a time\r\n");
  EXPECT_EQ(ask("HSET large a v b v"), ":1\r\n");
}

TEST_F(HashCommands, AHashThatOthersChange_IsReadAgain) {
  const std::pair<const char*, const char*> commands[] = {
      {"HINCRBY h n 10", ":110\r\n"}, {"HSETNX h x 1", ":1\r\n"}, {"HINCRBYFLOAT h n 1", "$3\r\n101\r\n"}};
  for (const auto& [line, reply] : commands) {
    ask("DEL h");
    ask("HSET h n 1");
    int changes = 3;
    gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
      if (!request.if_version.has_value() || changes-- <= 0) return std::nullopt;
      FieldsToSet fields;
      const std::string number = std::to_string(100 + changes);
      fields.set("n", number);
      entry("h").version += 1000;
      entry("h").value = fields.as_row();
      return std::nullopt;
    };
    EXPECT_EQ(ask(line), reply) << line;
    EXPECT_EQ(changes, -1) << line;
    gateway.store.on_request = nullptr;
  }
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    gateway.now_us += 1'000'000;
    if (request.kind == StoreRequest::Kind::kGet) return std::nullopt;
    return StoreResult{.status = StoreResult::Status::kOtherVersion};
  };
  EXPECT_EQ(ask("HINCRBY h n 1"), "-TRYAGAIN others change the key all the time: nothing was written\r\n");
}

TEST_F(HashCommands, SettingAndRemovingFields_AreOneRequest) {
  const auto requests = [this](const std::string& line) {
    const size_t before = gateway.store.request_count;
    ask(line);
    return gateway.store.request_count - before;
  };
  EXPECT_EQ(requests("HSET h a 1 b 2"), 1U);
  EXPECT_EQ(requests("HMSET h a 3 c 4"), 1U);
  EXPECT_EQ(requests("HDEL h a nosuch"), 1U);
  EXPECT_EQ(requests("HDEL h nosuch"), 1U);
  EXPECT_EQ(requests("HDEL nosuch a"), 1U);
  EXPECT_EQ(ask("HGETALL h"), "*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n4\r\n");
  EXPECT_EQ(ask("HDEL h \"\" " + std::string(1025, 'f')), ":0\r\n") << "no field has such a name";
  ask("SET s 1");
  EXPECT_EQ(ask("HDEL s \"\""), kWrongTypeLine);
}

TEST_F(HashCommands, ReadOnlyTheFieldsThatTheyName) {
  ask("HSET h a 1 b 2 c 3");
  std::vector<std::vector<std::string>> asked;
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    if (request.kind == StoreRequest::Kind::kGet) asked.emplace_back(request.fields.begin(), request.fields.end());
    return std::nullopt;
  };
  for (const char* line :
       {"HGET h b", "HEXISTS h b", "HSTRLEN h b", "HINCRBY h b 1", "HINCRBYFLOAT h b 1", "HSETNX h b 1"}) {
    asked.clear();
    ask(line);
    EXPECT_EQ(asked, (std::vector<std::vector<std::string>>{{"b"}})) << line;
  }
  asked.clear();
  EXPECT_EQ(ask("HMGET h c \"\" none a " + std::string(1025, 'f')),
            "*5\r\n$1\r\n3\r\n$-1\r\n$-1\r\n$1\r\n1\r\n$-1\r\n");
  EXPECT_EQ(asked, (std::vector<std::vector<std::string>>{{"c", "none", "a"}}))
      << "names that no field can have are left out";
  std::string names;
  for (size_t i = 0; i < kFieldsMax; ++i) names += " g" + std::to_string(i);
  asked.clear();
  EXPECT_TRUE(ask("HMGET h" + names + " a").ends_with("\r\n$1\r\n1\r\n"));
  EXPECT_EQ(asked, (std::vector<std::vector<std::string>>{{}})) << "more names than a read may have: all of the hash";
}

TEST_F(HashCommands, HdelOfMoreNamesThanAHashMayHave) {
  std::string names;
  for (size_t i = 0; i < kFieldsMax; ++i) names += " g" + std::to_string(i);
  EXPECT_EQ(ask("HDEL h a" + names), ":0\r\n");
  ask("HSET h a 1 b 2 c 3");
  EXPECT_EQ(ask("HDEL h" + names + " g0 g1"), ":0\r\n") << "a name that comes twice is one field";
  EXPECT_EQ(ask("HDEL h x" + names), ":0\r\n");
  int changes = 3;
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    if (request.if_version.has_value() && changes-- > 0) entry("h").version += 1000;
    return std::nullopt;
  };
  EXPECT_EQ(ask("HDEL h a c a" + names), ":2\r\n");
  EXPECT_EQ(changes, -1);
  EXPECT_EQ(ask("HGETALL h"), "*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
  EXPECT_EQ(ask("HDEL h b" + names), ":1\r\n");
  EXPECT_EQ(ask("EXISTS h"), ":0\r\n");
  ask("SET s 1");
  EXPECT_EQ(ask("HDEL s a" + names), kWrongTypeLine);
}

/// Somebody makes the hash between the reading and the writing.
TEST_F(HashCommands, AHashThatOthersMake_IsReadAgain) {
  int changes = 1;
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    if (!request.if_absent || changes-- <= 0) return std::nullopt;
    FieldsToSet fields;
    fields.set("n", "41");
    entry("h") = {.value = fields.as_row(), .version = 77, .expires_at_ms = {}, .mark = {.row = true}};
    return std::nullopt;
  };
  EXPECT_EQ(ask("HINCRBY h n 1"), ":42\r\n");
}

TEST_F(HashCommands, FailuresOfTheStore) {
  ask("HSET h a 1");
  const auto fails = [this](StoreResult::Status status, StoreRequest::Kind kind) {
    gateway.store.on_request = [=](const StoreRequest& request) -> std::optional<StoreResult> {
      if (request.kind != kind) return std::nullopt;
      return StoreResult{.status = status, .text = "no node"};
    };
  };
  fails(StoreResult::Status::kNotApplied, StoreRequest::Kind::kGet);
  EXPECT_EQ(ask("HGETALL h"), "-TRYAGAIN no node\r\n");
  EXPECT_EQ(ask("HINCRBY h a 1"), "-TRYAGAIN no node\r\n");
  fails(StoreResult::Status::kNotApplied, StoreRequest::Kind::kEdit);
  EXPECT_EQ(ask("HSET h a 1"), "-TRYAGAIN no node\r\n");
  EXPECT_EQ(ask("HDEL h a"), "-TRYAGAIN no node\r\n");
  fails(StoreResult::Status::kUnknown, StoreRequest::Kind::kEdit);
  EXPECT_EQ(ask("HSET h a 1"), "-ERR outcome unknown: no node\r\n");
  EXPECT_EQ(ask("HINCRBY h a 1"), "-ERR outcome unknown: no node\r\n");
  fails(StoreResult::Status::kNoRight, StoreRequest::Kind::kEdit);
  EXPECT_EQ(ask("HSET new a 1"), "-NOPERM no node\r\n");
}

TEST_F(HashCommands, OfAPipeline_ActInTheirOrder) {
  client.send("HSET h a 1\r\nHINCRBY h a 5\r\nHGET h a\r\nHDEL h a\r\nHLEN h\r\n");
  EXPECT_EQ(client.waiting().size(), 1U);
  client.answer_all();
  EXPECT_EQ(client.take_output(), ":1\r\n:6\r\n$1\r\n6\r\n:1\r\n:0\r\n");
}

TEST_F(HashCommands, ClientsOfMemcached) {
  ask("HSET h a 1");
  FakeClient memcached{gateway, std::make_unique<MemcachedProtocol>()};
  EXPECT_EQ(memcached.ask("set s 5 0 1\r\nx"), "STORED\r\n");
  EXPECT_EQ(memcached.ask("get h s"), "VALUE s 5 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(memcached.ask("gat 0 h"), "END\r\n");
  EXPECT_EQ(memcached.ask("mg h v t"), "EN\r\n");
  const std::string error = "SERVER_ERROR the key holds a hash\r\n";
  EXPECT_EQ(memcached.ask("incr h 1"), error);
  EXPECT_EQ(memcached.ask("append h 0 0 1\r\nx"), error);
  EXPECT_EQ(memcached.ask("prepend h 0 0 1\r\nx"), error);
  EXPECT_EQ(memcached.ask("ms h 1 MA\r\nx"), error);
  EXPECT_EQ(memcached.ask("ma h"), error);
  EXPECT_EQ(memcached.ask("add h 0 0 1\r\nx"), "NOT_STORED\r\n");
  EXPECT_EQ(memcached.ask("touch h 100"), "TOUCHED\r\n");
  EXPECT_EQ(ask("HGETALL h"), "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
  EXPECT_EQ(memcached.ask("set h 0 0 1\r\nx"), "STORED\r\n");
  EXPECT_EQ(ask("TYPE h"), "+string\r\n");
}

}  // namespace
}  // namespace skua::kv::gateway
