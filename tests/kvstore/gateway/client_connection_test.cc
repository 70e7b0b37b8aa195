// The order of commands and of replies, and the bounds of a connection.
#include "kvstore/gateway/client_connection.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/kvstore/gateway/fake_store.h"

namespace skua::kv::gateway {
namespace {

TEST(ClientConnection, AReadWaitsForTheWriteOfItsKey) {
  FakeGateway gateway;
  FakeClient client(gateway);
  client.send("SET a 1\r\nGET a\r\nGET b\r\nSET a 2\r\n");
  ASSERT_EQ(client.waiting().size(), 2U);  // SET a, GET b
  client.answer(1);
  EXPECT_EQ(client.take_output(), "") << "the reply of GET b waits for those before it";
  client.answer(0);
  ASSERT_EQ(client.waiting().size(), 1U) << "the second SET waits for GET a";
  EXPECT_EQ(client.waiting()[0].request.kind, StoreRequest::Kind::kGet);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n$1\r\n1\r\n$-1\r\n+OK\r\n");
  EXPECT_TRUE(client.connection().is_idle());
}

TEST(ClientConnection, AWholeTableWaitsForAll_AndAllWaitForIt) {
  FakeGateway gateway;
  FakeClient client(gateway);
  client.send("SET a 1\r\nGET b\r\nDBSIZE\r\nSET c 1\r\nPING\r\n");
  ASSERT_EQ(client.waiting().size(), 2U);
  client.answer(1);
  ASSERT_EQ(client.waiting().size(), 1U);
  client.answer(0);
  ASSERT_EQ(client.waiting().size(), 1U);
  EXPECT_EQ(client.waiting()[0].request.kind, StoreRequest::Kind::kScan);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n$-1\r\n:1\r\n+OK\r\n+PONG\r\n");
}

TEST(ClientConnection, TheSameKeyOfTwoDatabasesIsTwoKeys) {
  FakeGateway gateway;
  FakeClient client(gateway);
  client.send("SET a 1\r\nSELECT 3\r\nGET a\r\n");
  ASSERT_EQ(client.waiting().size(), 2U);
  EXPECT_EQ(client.waiting()[0].request.database, 0U);
  EXPECT_EQ(client.waiting()[1].request.database, 3U);
  client.answer_all();
}

TEST(ClientConnection, AReplyIsInTheProtocolOfItsTime) {
  FakeGateway gateway;
  FakeClient client(gateway);
  client.send("GET a\r\nHELLO 3\r\nGET a\r\n");
  client.answer_all();
  const std::string out = client.take_output();
  EXPECT_TRUE(out.starts_with("$-1\r\n%7\r\n")) << out;
  EXPECT_TRUE(out.ends_with("_\r\n")) << out;
}

TEST(ClientConnection, AnErrorOfTheProtocolEndsIt_AfterTheRepliesBeforeIt) {
  FakeGateway gateway;
  FakeClient client(gateway);
  client.send("GET a\r\n*x\r\nGET b\r\n");
  EXPECT_FALSE(client.connection().wants_input());
  EXPECT_FALSE(client.connection().is_over());
  client.answer_all();
  EXPECT_EQ(client.take_output(), "$-1\r\n-ERR Protocol error: invalid multibulk length\r\n");
  EXPECT_TRUE(client.connection().is_over());
}

TEST(ClientConnection, AWebPageIsHungUpOn) {
  FakeGateway gateway;
  FakeClient client(gateway);
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a 1\r\n");
  EXPECT_TRUE(client.connection().is_over());
  EXPECT_EQ(gateway.store.request_count, 0U);
}

TEST(ClientConnection, TakesNoMoreCommandsThanItHasRoomFor) {
  FakeGateway gateway;
  FakeClient client(gateway);
  std::string stream;
  for (int i = 0; i < 1100; ++i) stream += "GET k" + std::to_string(i) + "\r\n";
  std::string first;
  for (int i = 0; i < 100; ++i) first += "GET a" + std::to_string(i) + "\r\n";
  client.send(first);
  EXPECT_EQ(client.waiting().size(), 32U) << "nobody knows yet how large replies are";
  client.answer_all();
  client.take_output();
  std::string_view rest = client.send(stream);
  EXPECT_FALSE(client.connection().wants_input());
  EXPECT_EQ(client.waiting().size(), kCommandsMax);
  size_t replies = 0;
  while (!rest.empty() || !client.waiting().empty()) {
    client.answer_all();
    replies += client.take_output().size() / 5;
    rest = client.send(rest);
  }
  EXPECT_EQ(replies, 1100U);
}

TEST(ClientConnection, StopsWhenTheClientDoesNotTakeItsReplies) {
  FakeGateway gateway;
  FakeClient client(gateway);
  const std::string value(size_t{4} << 20, 'v');
  gateway.store.tables[0]["a"] = {.value = value, .version = 1, .expires_at_ms = {}};
  std::string stream;
  for (int i = 0; i < 200; ++i) stream += "GET a\r\n";
  // One reply tells how large the others will be.
  client.send("GET a\r\n");
  client.answer_all();
  std::string_view rest = client.send(stream);
  const size_t reply_bytes = value.size() + 12;
  const auto stays_within_bounds = [&] {
    EXPECT_LE(client.waiting().size(), kReplyBytesMax / value.size());
    client.answer_all();
    EXPECT_LE(client.connection().output().size(), kReplyBytesMax + reply_bytes);
  };
  stays_within_bounds();
  EXPECT_FALSE(client.connection().wants_input());
  size_t bytes = 0;
  while (!client.connection().output().empty() && !HasFailure()) {
    bytes += client.take_output(size_t{3} << 20).size();
    rest = client.send(rest);
    stays_within_bounds();
  }
  EXPECT_EQ(bytes, 201 * reply_bytes);
}

TEST(ClientConnection, ReadsWhoseRepliesHaveNoRoomAreCarriedOutAgain) {
  FakeGateway gateway;
  FakeClient client(gateway);
  const std::string value(size_t{8} << 20, 'v');
  gateway.store.tables[0]["a"] = {.value = value, .version = 1, .expires_at_ms = {}};
  std::string stream;
  for (int i = 0; i < 20; ++i) stream += "GET a\r\n";
  client.send(stream + "SET a 1\r\nGET a\r\n");
  EXPECT_EQ(client.waiting().size(), 20U) << "nobody knows how large the value is";
  while (!client.waiting().empty()) {
    client.answer(client.waiting().size() - 1);
    EXPECT_LE(client.connection().output().size(), kReplyBytesMax + value.size() + 12);
  }
  std::string out;
  while (!client.connection().output().empty()) {
    out += client.take_output(size_t{1} << 20);
    client.answer_all();
    EXPECT_LE(client.connection().output().size(), kReplyBytesMax + value.size() + 12);
  }
  EXPECT_EQ(out.size(), 20 * (value.size() + 12) + 5 + 7);
  EXPECT_TRUE(out.ends_with("+OK\r\n$1\r\n1\r\n"));
  EXPECT_GT(gateway.store.request_count, 22U);
}

TEST(ClientConnection, TakesNoMoreBytesOfCommandsThanItHasRoomFor) {
  FakeGateway gateway;
  FakeClient client(gateway);
  const std::string value(size_t{10} << 20, 'v');
  std::string stream;
  for (int i = 0; i < 10; ++i) {
    stream += "*3\r\n$3\r\nSET\r\n$2\r\nk" + std::to_string(i) + "\r\n$10485760\r\n" + value + "\r\n";
  }
  std::string_view rest = client.send(stream);
  EXPECT_EQ(client.waiting().size(), 4U) << "the fourth makes it more than 32 MiB";
  EXPECT_FALSE(client.connection().wants_input());
  std::string out;
  while (!client.waiting().empty()) {
    client.answer(0);
    out += client.take_output();
    rest = client.send(rest);
    EXPECT_LE(client.waiting().size(), 4U);
  }
  EXPECT_EQ(out.size(), 10 * std::string_view("+OK\r\n").size());
}

TEST(ClientConnection, BeyondTheThreadsLimit_AConnectionHasOneCommandAtATime) {
  FakeGateway gateway;
  gateway.context.held_bytes_max = size_t{1} << 20;
  FakeClient large(gateway);
  const std::string value(size_t{1} << 20, 'v');
  const std::string set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1048576\r\n" + value + "\r\n";
  const std::string two_sets = set + set;
  std::string_view large_rest = large.send(two_sets);
  EXPECT_FALSE(large.connection().wants_input());
  EXPECT_EQ(large_rest.size(), set.size());
  {
    FakeClient small(gateway);
    EXPECT_TRUE(small.connection().wants_input()) << "it holds nothing";
    const std::string_view rest = small.send("GET b\r\nGET c\r\n");
    EXPECT_EQ(rest, "GET c\r\n");
    small.answer_all();
    EXPECT_FALSE(small.connection().wants_input()) << "the reply is not taken";
    EXPECT_EQ(small.take_output(), "$-1\r\n");
    small.send(rest);
    EXPECT_EQ(small.waiting().size(), 1U);
  }
  large.answer_all();
  EXPECT_EQ(large.take_output(), "+OK\r\n");
  large.send(large_rest);
  large.answer_all();
  EXPECT_EQ(large.take_output(), "+OK\r\n");
  EXPECT_EQ(gateway.context.held_bytes, 0U);
}

TEST(ClientConnection, CountsTheValuesThatSetrangeMakes) {
  FakeGateway gateway;
  FakeClient client(gateway);
  std::string stream;
  for (int i = 0; i < 100; ++i) stream += "SETRANGE k" + std::to_string(i) + " 16777215 x\r\n";
  std::string_view rest = client.send(stream);
  EXPECT_LE(client.waiting().size(), 2U);
  std::string out;
  while (!client.waiting().empty() && out.size() < 100) {
    client.answer(0);
    EXPECT_LE(client.waiting().size(), 3U);
    out += client.take_output();
    rest = client.send(rest);
  }
  EXPECT_TRUE(out.starts_with(":16777216\r\n:16777216\r\n")) << out;
}

TEST(ClientConnection, FewCommandsHoldOldValuesAtATime) {
  FakeGateway gateway;
  FakeClient client(gateway);
  const std::string value(size_t{8} << 20, 'v');
  std::string stream;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "k" + std::to_string(i);
    gateway.store.tables[0][key] = {.value = value, .version = 1, .expires_at_ms = {}};
    stream += (i % 2 == 0 ? "GETSET " : "SET ") + key + (i % 2 == 0 ? " 1\r\n" : " 1 GET\r\n");
  }
  for (int i = 0; i < 100; ++i) client.ask("PING");  // small replies do not change what others may hold
  for (int i = 0; i < 100; ++i) client.ask("GET nosuch");
  client.send(stream);
  const size_t most_bytes = kReplyBytesMax / 2 + (kHoldingCommandsMax + 1) * (value.size() + 12);
  size_t bytes = 0;
  do {
    while (!client.waiting().empty()) {
      client.answer(client.waiting().size() - 1);
      EXPECT_LE(client.connection().output().size() + gateway.store.memory.bytes_held, most_bytes);
    }
    bytes += client.take_output(size_t{1} << 20).size();
  } while (!client.connection().output().empty() || !client.waiting().empty());
  EXPECT_EQ(bytes, 40 * (value.size() + 12));
}

TEST(ClientConnection, EndsWhileCommandsWaitForTheStore) {
  FakeGateway gateway;
  auto client = std::make_unique<FakeClient>(gateway);
  client->send("GET a\r\nAPPEND b x\r\nMSET c 1 d 2\r\nGET b\r\n");
  client->answer(0);
  client.reset();  // with leak checks: nothing stays
}

TEST(ClientConnection, ResultsOfCommandsThatAreOverAreIgnored) {
  FakeGateway gateway;
  FakeClient client(gateway);
  client.send("GET a\r\nGET b\r\n");
  const StoreTicket ticket = client.waiting()[1].ticket;
  client.answer(1);
  client.connection().complete(ticket, {}, gateway.now_us);
  client.connection().complete({.command = 77, .index = 0}, {}, gateway.now_us);
  client.connection().complete({.command = 0, .index = 7}, {}, gateway.now_us);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "$-1\r\n$-1\r\n");
}

/// A command over few keys, so that they meet.
std::string random_command(std::mt19937_64& random) {
  const auto key = [&] { return std::string(1, static_cast<char>('a' + random() % 4)); };
  const std::string value = std::to_string(random() % 100);
  switch (random() % 16) {
    case 0: return "SET " + key() + " " + value;
    case 1: return "GET " + key();
    case 2: return "DEL " + key() + " " + key();
    case 3: return "INCR " + key();
    case 4: return "APPEND " + key() + " " + value;
    case 5: return "MGET " + key() + " " + key() + " " + key();
    case 6: return "MSET " + key() + " " + value + " " + key() + " " + value;
    case 7: return "GETSET " + key() + " " + value;
    case 8: return "EXISTS " + key() + " " + key();
    case 9: return "DBSIZE";
    case 10: return "KEYS *";
    case 11: return "SETNX " + key() + " " + value;
    case 12: return "SELECT " + std::string(random() % 2 == 0 ? "0" : "3");
    case 13: return "GETDEL " + key();
    case 14: return "STRLEN " + key();
    default: return "PING " + value;
  }
}

TEST(ClientConnection, PipelinedCommandsActInTheirOrder_InWhateverOrderTheStoreAnswers) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    FakeGateway one_by_one;
    FakeGateway pipelined;
    FakeClient patient(one_by_one);
    FakeClient hasty(pipelined);
    std::string stream;
    std::string expected;
    for (int i = 0; i < 60; ++i) {
      const std::string line = random_command(random);
      stream += line + "\r\n";
      expected += patient.ask(line);
    }
    std::string got;
    std::string_view rest = stream;
    while (!rest.empty() || !hasty.waiting().empty()) {
      if (!rest.empty() && (hasty.waiting().empty() || random() % 3 == 0)) {
        const size_t size = std::min<size_t>(rest.size(), 1 + random() % 64);
        hasty.send(rest.substr(0, size));
        rest.remove_prefix(size);
      } else {
        hasty.answer(random() % hasty.waiting().size());
      }
      got += hasty.take_output(random() % 20);
    }
    got += hasty.take_output();
    ASSERT_EQ(got, expected) << "seed " << seed << "\n" << stream;
  }
}

}  // namespace
}  // namespace skua::kv::gateway
