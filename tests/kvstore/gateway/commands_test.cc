// Commands and their replies, over a store that is a map. tests/gateway compares them with redis-server's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/command_table.h"
#include "kvstore/gateway/glob.h"
#include "tests/kvstore/gateway/fake_store.h"

namespace skua::kv::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Commands : public ::testing::Test {
 protected:
  std::string ask(const std::string& line) { return client.ask(line); }
  FakeGateway gateway;
  FakeClient client{gateway};
};

TEST(CommandTable, FindsCommandsInUpperAndLowerCase_AndNothingElse) {
  for (const CommandSpec& spec : all_commands()) {
    const std::string lower(spec.name);
    std::string mixed = lower;
    for (size_t i = 0; i < mixed.size(); i += 2) mixed[i] = absl::ascii_toupper(static_cast<unsigned char>(mixed[i]));
    for (const std::string& name : {lower, absl::AsciiStrToUpper(lower), mixed}) {
      EXPECT_EQ(find_command(std::string_view(name)), &spec) << name;
    }
    EXPECT_EQ(find_command(std::string_view(lower + "x")), nullptr);
    EXPECT_EQ(find_command(std::string_view("x" + lower)), nullptr);
    if (!spec.is_subcommand()) continue;
    const CommandSpec* const command = find_command(spec.name.substr(0, spec.name.find('|')));
    ASSERT_NE(command, nullptr) << lower;
    EXPECT_TRUE(command->has(kHasSubcommands)) << lower;
  }
  // Bytes that differ from a name's as upper case differs from lower case, but are no letters.
  for (const char* const name : {"", "config\\get", "g\x05t", "G%T", "GE"}) {
    EXPECT_EQ(find_command(std::string_view(name)), nullptr) << name;
  }
}

TEST_F(Commands, SetAndGet) {
  EXPECT_EQ(ask("GET a"), "$-1\r\n");
  EXPECT_EQ(ask("SET a 1"), "+OK\r\n");
  EXPECT_EQ(ask("get a"), "$1\r\n1\r\n");
  EXPECT_EQ(ask("SET a 2 NX"), "$-1\r\n");
  EXPECT_EQ(ask("SET b 2 XX"), "$-1\r\n");
  EXPECT_EQ(ask("SET a 2 XX GET"), "$1\r\n1\r\n");
  EXPECT_EQ(ask("SET b 3 NX"), "+OK\r\n");
  EXPECT_EQ(ask("SET b 4 NX GET"), "$1\r\n3\r\n");
  EXPECT_EQ(ask("SET c 4 NX GET"), "$-1\r\n");
  EXPECT_EQ(ask("MGET a b c d"), "*4\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$-1\r\n");
  EXPECT_EQ(ask("MSET a 5 b 6 a 7"), "+OK\r\n");
  EXPECT_EQ(ask("MGET a b"), "*2\r\n$1\r\n7\r\n$1\r\n6\r\n");
  EXPECT_EQ(ask("GETSET a 8"), "$1\r\n7\r\n");
  EXPECT_EQ(ask("GETDEL a"), "$1\r\n8\r\n");
  EXPECT_EQ(ask("GETDEL a"), "$-1\r\n");
  EXPECT_EQ(ask("SETNX a 1"), ":1\r\n");
  EXPECT_EQ(ask("SETNX a 1"), ":0\r\n");
  EXPECT_EQ(ask("DEL a b a nosuch"), ":2\r\n");
  EXPECT_EQ(ask("EXISTS c c a"), ":2\r\n");
  EXPECT_EQ(ask("TYPE c"), "+string\r\n");
  EXPECT_EQ(ask("TYPE a"), "+none\r\n");
}

TEST_F(Commands, Expiry) {
  EXPECT_EQ(ask("SET a 1 EX 100"), "+OK\r\n");
  EXPECT_EQ(ask("TTL a"), ":100\r\n");
  EXPECT_EQ(ask("SET a 1 EX 0 EX 100"), "+OK\r\n");
  EXPECT_EQ(ask("TTL a"), ":100\r\n");
  const size_t requests = gateway.store.request_count;
  EXPECT_EQ(ask("SET a 2 KEEPTTL"), "+OK\r\n");
  EXPECT_EQ(ask("SET a 2 XX KEEPTTL"), "+OK\r\n");
  EXPECT_EQ(ask("SET nosuch 2 XX"), "$-1\r\n");
  EXPECT_EQ(ask("SET nosuch 2 XX PXAT 1"), "$-1\r\n");
  EXPECT_EQ(gateway.store.request_count, requests + 4) << "nothing is read";
  EXPECT_EQ(ask("PTTL a"), ":100000\r\n");
  EXPECT_EQ(ask("INCR a"), ":3\r\n");
  EXPECT_EQ(ask("APPEND a x"), ":2\r\n");
  EXPECT_EQ(ask("SETRANGE a 1 yz"), ":3\r\n");
  EXPECT_EQ(ask("PTTL a"), ":100000\r\n");
  EXPECT_EQ(ask("EXPIRE a 50 GT"), ":0\r\n");
  EXPECT_EQ(ask("EXPIRE a 50 NX"), ":0\r\n");
  EXPECT_EQ(ask("EXPIRE a 50 LT"), ":1\r\n");
  EXPECT_EQ(ask("EXPIRETIME a"), ":1700000050\r\n");
  EXPECT_EQ(ask("PERSIST a"), ":1\r\n");
  EXPECT_EQ(ask("PERSIST a"), ":0\r\n");
  EXPECT_EQ(ask("EXPIRE a 50 XX"), ":0\r\n");
  EXPECT_EQ(ask("EXPIRE a 50 GT"), ":0\r\n");
  EXPECT_EQ(ask("PEXPIREAT a 1700000001000"), ":1\r\n");
  EXPECT_EQ(ask("TTL a"), ":1\r\n");
  gateway.now_us += 1'000'000;
  EXPECT_EQ(ask("TTL a"), ":-2\r\n");
  EXPECT_EQ(ask("EXPIRE a 1"), ":0\r\n");
  EXPECT_EQ(ask("SET a 1"), "+OK\r\n");
  EXPECT_EQ(ask("TTL a"), ":-1\r\n");
  EXPECT_EQ(ask("EXPIRE a -1"), ":1\r\n");
  EXPECT_EQ(ask("EXISTS a"), ":0\r\n");
  EXPECT_EQ(ask("SET a 1 PXAT 1"), "+OK\r\n");
  EXPECT_EQ(ask("EXISTS a"), ":0\r\n");
  EXPECT_EQ(ask("SETEX a 7 v"), "+OK\r\n");
  EXPECT_EQ(ask("GETEX a PERSIST"), "$1\r\nv\r\n");
  EXPECT_EQ(ask("TTL a"), ":-1\r\n");
  EXPECT_EQ(ask("GETEX a EX 9"), "$1\r\nv\r\n");
  EXPECT_EQ(ask("TTL a"), ":9\r\n");
  EXPECT_EQ(ask("GETEX a PXAT 1"), "$1\r\nv\r\n");
  EXPECT_EQ(ask("GETEX a"), "$-1\r\n");
}

TEST_F(Commands, GetexOptions) {
  for (const char* line : {"GETEX none EX 0", "GETEX none EX x", "GETEX none PERSIST PERSIST"}) {
    EXPECT_EQ(ask(line), "$-1\r\n") << line << ": the time is looked at only if there is a value";
  }
  ask("SET a v");
  EXPECT_EQ(ask("GETEX a EX 9 EX 7"), "$1\r\nv\r\n");
  EXPECT_EQ(ask("TTL a"), ":7\r\n");
  EXPECT_EQ(ask("GETEX a EX 0"), "-ERR invalid expire time in 'getex' command\r\n");
  EXPECT_EQ(ask("GETEX a PERSIST PERSIST"), "$1\r\nv\r\n");
  EXPECT_EQ(ask("TTL a"), ":-1\r\n");
  for (const char* line : {"GETEX a PERSIST EX 1", "GETEX a EX 1 PERSIST", "GETEX a EX 1 PX 1", "GETEX a EX"}) {
    EXPECT_EQ(ask(line), "-ERR syntax error\r\n") << line;
  }
}

TEST_F(Commands, TimesBeyondBounds) {
  const std::string bad = "-ERR invalid expire time in 'set' command\r\n";
  for (const char* option :
       {"EX 0", "EX -1", "PX 0", "EX 9223372036854775807", "PX 9223372036854775807", "EXAT 0", "EXAT 99999999999"}) {
    EXPECT_EQ(ask(std::string("SET a 1 ") + option), bad) << option;
  }
  EXPECT_EQ(ask("SET a 1 EX x"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(ask("SETEX a 0 v"), "-ERR invalid expire time in 'setex' command\r\n");
  EXPECT_EQ(ask("EXPIRE a 9223372036854775807"), "-ERR invalid expire time in 'expire' command\r\n");
  EXPECT_EQ(ask("EXPIRE a 1 NX XX"), "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
  EXPECT_EQ(ask("EXPIRE a 1 FOO"), "-ERR Unsupported option FOO\r\n");
  for (const char* words : {"NX XX", "EX", "EX 1 PX 1", "EX 1 KEEPTTL", "KEEPTTL EX 1", "FOO"}) {
    EXPECT_EQ(ask(std::string("SET a 1 ") + words), "-ERR syntax error\r\n") << words;
  }
  EXPECT_EQ(gateway.store.request_count, 0U);
}

TEST_F(Commands, NumbersAndParts) {
  EXPECT_EQ(ask("INCR n"), ":1\r\n");
  EXPECT_EQ(ask("DECRBY n 10"), ":-9\r\n");
  EXPECT_EQ(ask("INCRBY n 9223372036854775807"), ":9223372036854775798\r\n");
  EXPECT_EQ(ask("INCRBY n 10"), "-ERR increment or decrement would overflow\r\n");
  EXPECT_EQ(ask("DECRBY n -9223372036854775808"), "-ERR decrement would overflow\r\n");
  EXPECT_EQ(ask("INCRBY n 1.5"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(ask("SET f 10.50"), "+OK\r\n");
  EXPECT_EQ(ask("INCR f"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(ask("INCRBYFLOAT f 0.1"), "$4\r\n10.6\r\n");
  EXPECT_THAT(ask("INCRBYFLOAT large 1e300"), StartsWith("$301\r\n100000000000000000000"));
  EXPECT_THAT(ask("INCRBYFLOAT large 1e300"), StartsWith("$301\r\n200000000000000000"));
  EXPECT_EQ(ask("INCRBYFLOAT f x"), "-ERR value is not a valid float\r\n");
  EXPECT_EQ(ask("INCRBYFLOAT f inf"), "-ERR increment would produce NaN or Infinity\r\n");
  EXPECT_EQ(ask("APPEND s Hello"), ":5\r\n");
  EXPECT_EQ(ask("APPEND s World"), ":10\r\n");
  EXPECT_EQ(ask("STRLEN s"), ":10\r\n");
  EXPECT_EQ(ask("STRLEN nosuch"), ":0\r\n");
  EXPECT_EQ(ask("GETRANGE s 0 4"), "$5\r\nHello\r\n");
  EXPECT_EQ(ask("GETRANGE s -5 -1"), "$5\r\nWorld\r\n");
  EXPECT_EQ(ask("GETRANGE s -1 -5"), "$0\r\n\r\n");
  EXPECT_EQ(ask("GETRANGE s 20 30"), "$0\r\n\r\n");
  EXPECT_EQ(ask("GETRANGE s 0 -100"), "$1\r\nH\r\n");
  EXPECT_EQ(ask("SETRANGE s 12 !"), ":13\r\n");
  EXPECT_EQ(ask("GETRANGE s 9 -1"), std::string("$4\r\nd\0\0!\r\n", 10));
  EXPECT_EQ(ask("SETRANGE nosuch 5 \"\""), ":0\r\n");
  EXPECT_EQ(ask("SETRANGE s -1 x"), "-ERR offset is out of range\r\n");
  EXPECT_EQ(ask("SETRANGE s 16777216 x"), "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
}

TEST_F(Commands, Scans) {
  for (int i = 0; i < 25; ++i) ask("SET key:" + std::to_string(100 + i) + " v");
  ask("SET other v");
  gateway.store.on_request = [](const StoreRequest& request) -> std::optional<StoreResult> {
    EXPECT_TRUE(request.kind != StoreRequest::Kind::kScan || request.keys_only || request.count_only);
    return std::nullopt;
  };
  EXPECT_EQ(ask("DBSIZE"), ":26\r\n");
  EXPECT_EQ(ask("KEYS o*"), "*1\r\n$5\r\nother\r\n");
  EXPECT_EQ(ask("KEYS key:10[13]"), "*2\r\n$7\r\nkey:101\r\n$7\r\nkey:103\r\n");
  EXPECT_THAT(ask("SCAN 0"), StartsWith("*2\r\n$13\r\n5497558138881\r\n"));  // the gateway's id is in the high bits
  EXPECT_EQ(ask("SCAN 0 MATCH key:1?4 COUNT 1000"),
            "*2\r\n$1\r\n0\r\n*3\r\n$7\r\nkey:104\r\n$7\r\nkey:114\r\n$7\r\nkey:124\r\n");
  EXPECT_EQ(ask("SCAN 0 TYPE hash COUNT 1000"), "*2\r\n$1\r\n0\r\n*0\r\n");
  EXPECT_EQ(ask("SCAN x"), "-ERR invalid cursor\r\n");
  EXPECT_THAT(ask("SCAN 77"), StartsWith("-ERR invalid cursor: this gateway does not know it"));
  EXPECT_EQ(ask("SCAN 0 COUNT 0"), "-ERR syntax error\r\n");
  EXPECT_EQ(ask("SCAN 0 COUNT"), "-ERR syntax error\r\n");
  // No key is as long as these patterns' beginnings.
  const size_t requests = gateway.store.request_count;
  EXPECT_EQ(ask("KEYS " + std::string(1025, 'k') + "*"), "*0\r\n");
  EXPECT_EQ(ask("SCAN 0 MATCH " + std::string(1025, 'k') + "*"), "*2\r\n$1\r\n0\r\n*0\r\n");
  EXPECT_EQ(gateway.store.request_count, requests);
}

TEST_F(Commands, AScanGoesOnAtItsCursor_AlsoOverAnotherConnection) {
  for (int i = 0; i < 95; ++i) ask("SET key:" + std::to_string(100 + i) + " v");
  std::string cursor = "0";
  size_t keys = 0;
  size_t calls = 0;
  do {
    FakeClient other(gateway);
    const std::string page = other.ask("SCAN " + cursor + " MATCH key:* COUNT 20");
    const size_t begin = page.find("\r\n", 4) + 2;
    cursor = page.substr(begin, page.find("\r\n", begin) - begin);
    for (size_t at = page.find("key:"); at != std::string::npos; at = page.find("key:", at + 1)) ++keys;
    ++calls;
  } while (cursor != "0");
  EXPECT_EQ(keys, 95U);
  EXPECT_EQ(calls, 5U);
}

TEST_F(Commands, RandomKey) {
  EXPECT_EQ(ask("RANDOMKEY"), "$-1\r\n");
  ask("SET a v\r\nSET b v");
  std::set<std::string> found;
  for (int i = 0; i < 1000 && found.size() < 2; ++i) found.insert(ask("RANDOMKEY"));
  EXPECT_EQ(found, (std::set<std::string>{"$1\r\na\r\n", "$1\r\nb\r\n"}));
}

TEST_F(Commands, MsetnxSetsAllKeysOrNone) {
  EXPECT_EQ(ask("MSETNX a 1 b 2 a 3"), ":1\r\n");
  EXPECT_EQ(ask("MGET a b"), "*2\r\n$1\r\n3\r\n$1\r\n2\r\n") << "of a key that comes twice the last value counts";
  EXPECT_EQ(ask("MSETNX c 1 b 3"), ":0\r\n");
  EXPECT_EQ(ask("MGET b c"), "*2\r\n$1\r\n2\r\n$-1\r\n");
  EXPECT_EQ(ask("MSETNX a 1 b"), "-ERR wrong number of arguments for 'msetnx' command\r\n");
  gateway.store.shard_of_key = [](std::string_view key) { return static_cast<uint32_t>(key[0]); };
  EXPECT_THAT(ask("MSETNX x 1 y 2"), StartsWith("-CROSSSLOT"));
  EXPECT_EQ(ask("MSETNX x 1"), ":1\r\n");
  std::string many = "MSETNX";
  for (int i = 0; i < 1025; ++i) absl::StrAppend(&many, " x", i, " v");
  EXPECT_EQ(ask(many), "-ERR MSETNX takes at most 1024 keys\r\n");
}

TEST_F(Commands, MsetnxInATransaction) {
  EXPECT_EQ(ask("MULTI\r\nMSETNX a 1 b 2\r\nMSETNX b 3 c 4\r\nEXEC"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:0\r\n");
  EXPECT_EQ(ask("MGET a b c"), "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
}

TEST_F(Commands, Flush) {
  for (int i = 0; i < 300; ++i) ask("SET key:" + std::to_string(i) + " v");
  ask("SELECT 3");
  ask("SET other v");
  EXPECT_THAT(ask("FLUSHDB"), StartsWith("-ERR the gateway removes whole tables only with --allow-flush"));
  EXPECT_EQ(ask("DBSIZE"), ":1\r\n");
  gateway.identity.allows_flush = true;
  EXPECT_EQ(ask("FLUSHALL now"), "-ERR syntax error\r\n");
  EXPECT_EQ(ask("FLUSHALL ASYNC x"), "-ERR syntax error\r\n");
  EXPECT_EQ(ask("FLUSHDB async"), "+OK\r\n");
  EXPECT_EQ(gateway.store.tables[3].size(), 0U);
  EXPECT_EQ(gateway.store.tables[0].size(), 300U);
  // Commands behind it in the pipeline wait, and the selected database stays.
  EXPECT_EQ(ask("SET a 1\r\nFLUSHALL\r\nGET a\r\nSET a 2\r\nDBSIZE"), "+OK\r\n+OK\r\n$-1\r\n+OK\r\n:1\r\n");
  EXPECT_EQ(gateway.store.tables[3].size(), 1U);
  EXPECT_EQ(gateway.store.tables[0].size(), 0U);
  EXPECT_EQ(ask("FLUSHALL"), "+OK\r\n") << "nothing is there";
}

TEST_F(Commands, AFlushThatFails_SaysHowFarItCame) {
  gateway.identity.allows_flush = true;
  for (int i = 0; i < 300; ++i) ask("SET key:" + std::to_string(100 + i) + " v");
  gateway.store.on_request = [](const StoreRequest& request) -> std::optional<StoreResult> {
    if (request.kind != StoreRequest::Kind::kRemove || request.key != "key:300") return std::nullopt;
    return StoreResult{.status = StoreResult::Status::kNotApplied, .text = "busy"};
  };
  EXPECT_EQ(ask("FLUSHALL"), "-ERR outcome unknown: 255 of 256 keys were written before this failure: busy\r\n");
  EXPECT_EQ(ask("DBSIZE"), ":45\r\n");
}

TEST_F(Commands, WordsThatAreNoCommand) {
  EXPECT_EQ(ask("FOO a bb"), "-ERR unknown command 'FOO', with args beginning with: 'a' 'bb' \r\n");
  EXPECT_EQ(ask("GET"), "-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_EQ(ask("MSET a 1 b"), "-ERR wrong number of arguments for 'mset' command\r\n");
  EXPECT_EQ(ask("CONFIG"), "-ERR wrong number of arguments for 'config' command\r\n");
  EXPECT_EQ(ask("config foo"), "-ERR unknown subcommand 'foo'. Try CONFIG HELP.\r\n");
  EXPECT_EQ(ask("CONFIG GET"), "-ERR wrong number of arguments for 'config|get' command\r\n");
  EXPECT_EQ(ask("config|get a"), "-ERR unknown command 'config|get', with args beginning with: 'a' \r\n");
  EXPECT_EQ(ask("GET \"\""), "-ERR a key must have 1 to 1024 bytes\r\n");
  EXPECT_EQ(ask("SET " + std::string(1025, 'k') + " v"), "-ERR a key must have 1 to 1024 bytes\r\n");
}

TEST_F(Commands, OfASession) {
  EXPECT_EQ(ask("PING"), "+PONG\r\n");
  EXPECT_EQ(ask("PING hi"), "$2\r\nhi\r\n");
  EXPECT_EQ(ask("ECHO hi"), "$2\r\nhi\r\n");
  EXPECT_EQ(ask("SELECT 9999999999"), "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n");
  EXPECT_EQ(ask("SELECT 1"), "-ERR DB index is out of range\r\n");
  EXPECT_EQ(ask("SET a 0"), "+OK\r\n");
  EXPECT_EQ(ask("SELECT 3"), "+OK\r\n");
  EXPECT_EQ(ask("GET a"), "$-1\r\n");
  EXPECT_EQ(ask("CLIENT SETNAME me"), "+OK\r\n");
  EXPECT_EQ(ask("CLIENT GETNAME"), "$2\r\nme\r\n");
  EXPECT_THAT(ask("CLIENT INFO"), HasSubstr(" name=me age=0 db=3 resp=2 "));
  EXPECT_THAT(ask("HELLO 3"), StartsWith("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"));
  EXPECT_EQ(ask("GET a"), "_\r\n");
  EXPECT_THAT(ask("CLIENT INFO"), HasSubstr("\r\ntxt:id="));
  EXPECT_THAT(ask("INFO server"), HasSubstr("\r\ntxt:# Server\r\n"));
  EXPECT_EQ(ask("HELLO 4"), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(ask("RESET"), "+RESET\r\n");
  EXPECT_EQ(ask("GET a"), "$1\r\n0\r\n");
  EXPECT_THAT(ask("HELLO"), StartsWith("*14\r\n"));
  EXPECT_THAT(ask("AUTH x"), StartsWith("-ERR AUTH <password> called without any password configured"));
  EXPECT_EQ(ask("AUTH default x"), "+OK\r\n");
  EXPECT_EQ(ask("AUTH other x"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  EXPECT_EQ(ask("TIME"), "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n");
  EXPECT_THAT(ask("INFO"), HasSubstr("\r\nloading:0\r\n"));
  EXPECT_EQ(ask("CONFIG GET sav*"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_EQ(ask("CONFIG GET nosuch"), "*0\r\n");
  EXPECT_THAT(ask("COMMAND INFO get nosuch"),
              StartsWith("*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"));
  EXPECT_EQ(ask("QUIT"), "+OK\r\n");
  EXPECT_TRUE(client.connection().is_over());
  EXPECT_EQ(ask("PING"), "");
}

TEST_F(Commands, FailuresOfTheStore) {
  const auto fails = [this](StoreResult::Status status, StoreRequest::Kind kind) {
    gateway.store.on_request = [=](const StoreRequest& request) -> std::optional<StoreResult> {
      if (request.kind != kind) return std::nullopt;
      return StoreResult{.status = status, .text = "no node"};
    };
  };
  fails(StoreResult::Status::kNotApplied, StoreRequest::Kind::kGet);
  EXPECT_EQ(ask("GET a"), "-TRYAGAIN no node\r\n");
  EXPECT_EQ(ask("MGET a b"), "-TRYAGAIN no node\r\n");
  EXPECT_EQ(ask("APPEND a b"), "-TRYAGAIN no node\r\n");
  fails(StoreResult::Status::kUnknown, StoreRequest::Kind::kPut);
  EXPECT_EQ(ask("SET a 1"), "-ERR outcome unknown: no node\r\n");
  EXPECT_EQ(ask("GETSET a 1"), "-ERR outcome unknown: no node\r\n");
  fails(StoreResult::Status::kNotApplied, StoreRequest::Kind::kRemove);
  EXPECT_EQ(ask("DEL a b"), "-TRYAGAIN no node\r\n");
  fails(StoreResult::Status::kRefused, StoreRequest::Kind::kPut);
  EXPECT_EQ(ask("SET a 1"), "-ERR no node\r\n");
  fails(StoreResult::Status::kNoRight, StoreRequest::Kind::kPut);
  EXPECT_EQ(ask("SET a 1"), "-NOPERM no node\r\n");
  gateway.store.on_request = [](const StoreRequest& request) -> std::optional<StoreResult> {
    if (request.key != "b") return std::nullopt;
    return StoreResult{.status = StoreResult::Status::kNotApplied, .text = "no node"};
  };
  EXPECT_EQ(ask("MSET a 1 b 2"), "-ERR outcome unknown: 1 of 2 keys were written before this failure: no node\r\n");
}

TEST_F(Commands, OfManyKeys_HoldNoMoreValuesThanAReplyMayHave) {
  const std::string value(size_t{8} << 20, 'v');
  std::string keys;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    gateway.store.tables[0][key] = {.value = value, .version = 1, .expires_at_ms = {}};
    keys += " " + key;
  }
  EXPECT_EQ(ask("EXISTS" + keys), ":20\r\n");
  EXPECT_EQ(gateway.store.memory.most_bytes_held, value.size());
  gateway.store.memory.most_bytes_held = 0;
  EXPECT_EQ(ask("MGET" + keys), "-ERR the reply would be larger than 64 MiB: ask for fewer keys at a time\r\n");
  EXPECT_LE(gateway.store.memory.most_bytes_held, kManyValuesBytesMax + value.size());
  EXPECT_EQ(ask("STRLEN k1"), ":8388608\r\n");
  EXPECT_EQ(ask("MGET k1 k2").size(), 2 * (value.size() + 12) + 4);
}

TEST_F(Commands, ThatCostTheGatewaysTime_AreBounded) {
  const std::string pattern(4097, '*');
  EXPECT_EQ(ask("KEYS " + pattern), "-ERR a pattern must have at most 4096 bytes\r\n");
  EXPECT_EQ(ask("SCAN 0 MATCH " + pattern), "-ERR a pattern must have at most 4096 bytes\r\n");
  // Comparing them must not keep the thread.
  size_t scans = 0;
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    EXPECT_LE(request.rows_max * kKeyBytesMax * (pattern.size() - 1), kMatchStepsMax);
    EXPECT_GT(request.rows_max, 0u);
    ++scans;
    return std::nullopt;
  };
  ask("SCAN 0 COUNT 10000 MATCH *" + pattern.substr(2));
  ask("KEYS *" + pattern.substr(2));
  EXPECT_EQ(scans, 2u);
  EXPECT_EQ(ask("CONFIG GET save " + pattern), "-ERR a pattern must have at most 4096 bytes\r\n");
  EXPECT_EQ(ask("KEYS " + pattern.substr(1)), "*0\r\n");
  std::string words;
  for (int i = 0; i < 256; ++i) words += " x";
  for (const char* command : {"COMMAND INFO", "CONFIG GET", "INFO"}) {
    EXPECT_FALSE(ask(command + words).starts_with("-")) << command;
    EXPECT_EQ(ask(command + words + " x"), "-ERR too many arguments: ask for at most 256 at a time\r\n") << command;
  }
}

TEST_F(Commands, MsetOfAFullGroup_AndAKeyThatCameAlready) {
  std::string pairs = " k1 first";
  for (size_t i = 1; i <= kRequestsPerCommandMax; ++i) pairs += " k" + std::to_string(i) + " v";
  EXPECT_EQ(ask("MSET" + pairs), "+OK\r\n");
  EXPECT_EQ(ask("GET k1"), "$1\r\nv\r\n");
}

TEST_F(Commands, OfManyKeys_StopAfterAFailure) {
  gateway.store.on_request = [](const StoreRequest& request) -> std::optional<StoreResult> {
    if (request.key != "k1") return std::nullopt;
    return StoreResult{.status = StoreResult::Status::kNotApplied, .text = "no node"};
  };
  std::string pairs;
  std::string keys;
  for (int i = 300; i >= 1; --i) pairs += " k" + std::to_string(i) + " v";  // the last pairs are written first
  for (int i = 1; i <= 300; ++i) keys += " k" + std::to_string(i);
  EXPECT_EQ(ask("MSET" + pairs), "-ERR outcome unknown: 127 of 300 keys were written before this failure: no node\r\n");
  EXPECT_EQ(gateway.store.request_count, kRequestsPerCommandMax);
  EXPECT_EQ(ask("DEL" + keys + " k300"),
            "-ERR outcome unknown: 127 of 300 keys were written before this failure: no node\r\n");
  EXPECT_EQ(gateway.store.request_count, 2 * kRequestsPerCommandMax);
}

TEST_F(Commands, AKeyThatOthersChange_IsReadAgain) {
  ask("SET a 1");
  int changes = 3;
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    if (!request.if_version.has_value() || changes-- <= 0) return std::nullopt;
    gateway.store.tables[0]["a"].version += 1000;
    gateway.store.tables[0]["a"].value += "x";
    return std::nullopt;
  };
  EXPECT_EQ(ask("APPEND a y"), ":5\r\n");
  EXPECT_EQ(gateway.store.tables[0]["a"].value, "1xxxy");
  // Others may change it for so long; then the client hears of it.
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    gateway.now_us += 1'000'000;
    if (request.kind == StoreRequest::Kind::kGet) return std::nullopt;
    return StoreResult{.status = StoreResult::Status::kOtherVersion};
  };
  EXPECT_EQ(ask("GETSET a z"), "-TRYAGAIN others change the key all the time: nothing was written\r\n");
}

TEST(CommandTable, KeysOfWords) {
  FakeGateway gateway;
  const auto keys_of = [](const std::vector<std::string>& list) {
    CommandArguments words;
    for (const std::string& word : list) {
      words.append(word);
      words.end_argument();
    }
    std::string keys;
    for_each_key(*find_command(list[0]), words, [&](std::string_view key) { keys += std::string(key) + ","; });
    return keys;
  };
  EXPECT_EQ(keys_of({"mset", "a", "1", "b", "2"}), "a,b,");
  EXPECT_EQ(keys_of({"DEL", "a", "b"}), "a,b,");
  EXPECT_EQ(keys_of({"set", "a", "b"}), "a,");
  EXPECT_EQ(keys_of({"ping", "a"}), "");
}

}  // namespace
}  // namespace skua::kv::gateway
