// SETs that come together, as their client sees them and as the store does.
#include "kvstore/gateway/command_burst.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/gateway/put_groups.h"
#include "rpc/base/rng.h"
#include "rpc/base/status.h"
#include "tests/kvstore/gateway/fake_store.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;
using Status = StoreResult::Status;

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

class CommandBursts : public ::testing::Test {
 protected:
  /// How many PUTs each request has that waits.
  std::vector<size_t> sizes() {
    std::vector<size_t> out;
    for (const IssuedRequest& issued : client.waiting()) {
      out.push_back(issued.request.kind == Kind::kPuts ? burst_size(*issued.request.puts) : 1);
    }
    return out;
  }
  using Sizes = std::vector<size_t>;

  FakeGateway gateway;
  FakeClient client{gateway};
};

TEST_F(CommandBursts, AreOneRequestAndHaveAReplyForEachCommand) {
  client.send("SET a 1\r\nset b 2\r\nSet c 3\r\n");
  EXPECT_EQ(sizes(), Sizes{3});
  EXPECT_EQ(gateway.identity.commands.load(), 3U);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n+OK\r\n+OK\r\n");
  EXPECT_EQ(client.ask("MGET a b c"), "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

TEST_F(CommandBursts, ASetAloneIsAPut) {
  client.send("SET a 1\r\n");
  ASSERT_EQ(client.waiting().size(), 1U);
  EXPECT_EQ(client.waiting()[0].request.kind, Kind::kPut);
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n");
}

TEST_F(CommandBursts, HaveAKeyOnce) {
  client.send("SET a 1\r\nSET b 2\r\nSET a 3\r\nSET c 4\r\n");
  EXPECT_EQ(sizes(), Sizes{2}) << "the second burst waits for the first";
  client.answer(0);
  EXPECT_EQ(sizes(), Sizes{2});
  client.answer(0);
  EXPECT_EQ(client.take_output(), repeated("+OK\r\n", 4));
  EXPECT_EQ(client.ask("GET a"), "$1\r\n3\r\n");
}

TEST_F(CommandBursts, AnyOtherCommandEndsThem) {
  client.send("SET a 1\r\nPING\r\nSET b 2\r\nGET x\r\nSET c 3\r\nSET d 4 EX 10\r\nSET e 5\r\n");
  EXPECT_EQ(sizes(), (Sizes{1, 1, 1, 1, 1, 1}));
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n+PONG\r\n+OK\r\n$-1\r\n+OK\r\n+OK\r\n+OK\r\n");
}

TEST_F(CommandBursts, AnErrorEndsThem) {
  client.send("SET a 1\r\nSET b\r\nSET c 3\r\n");
  EXPECT_EQ(sizes(), (Sizes{1, 1}));
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n-ERR wrong number of arguments for 'set' command\r\n+OK\r\n");
}

TEST_F(CommandBursts, LargeValuesGoAlone) {
  const std::string large(kGroupedValueBytesMax + 1, 'x');
  client.send(absl::StrCat("SET a 1\r\nSET b 2\r\nSET c ", large, "\r\nSET d 4\r\n"));
  EXPECT_EQ(sizes(), (Sizes{2, 1, 1}));
}

TEST_F(CommandBursts, AreOfOneDatabase) {
  client.send("SET a 1\r\nSELECT 3\r\nSET a 2\r\nSET b 3\r\n");
  EXPECT_EQ(sizes(), (Sizes{1, 2}));
  client.answer_all();
  EXPECT_EQ(client.take_output(), repeated("+OK\r\n", 4));
  EXPECT_EQ(gateway.store.tables[0].size(), 1U);
  EXPECT_EQ(gateway.store.tables[3].size(), 2U);
}

TEST_F(CommandBursts, HaveALimit) {
  std::string sets;
  for (size_t i = 0; i < 2 * kBurstCommandsMax + 1; ++i) absl::StrAppend(&sets, "SET key", i, " ", i, "\r\n");
  client.send(sets);
  EXPECT_EQ(sizes(), (Sizes{kBurstCommandsMax, kBurstCommandsMax, 1}));
  client.answer(1);
  EXPECT_EQ(client.take_output(), "") << "replies are in the order of their commands";
  client.answer_all();
  EXPECT_EQ(client.take_output(), repeated("+OK\r\n", 2 * kBurstCommandsMax + 1));
}

TEST_F(CommandBursts, NoSetWaitsForInputThatMayComeLater) {
  client.send("SET a 1\r\nSET b 2\r\nSET c");
  EXPECT_EQ(sizes(), Sizes{2});
  client.send(" 3\r\n");
  EXPECT_EQ(sizes(), (Sizes{2, 1}));
}

TEST_F(CommandBursts, OthersOfTheirKeysWait) {
  client.send("SET a 1\r\nSET b 2\r\nGET b\r\nGET c\r\nSET d 1\r\nSET a 5\r\n");
  EXPECT_EQ(client.waiting().size(), 2U) << "the first burst and GET c";
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n+OK\r\n$1\r\n2\r\n$-1\r\n+OK\r\n+OK\r\n");
  EXPECT_EQ(client.ask("GET a"), "$1\r\n5\r\n");
}

TEST_F(CommandBursts, EachCommandIsToldOfItsOwnFailure) {
  gateway.store.on_request = [](const StoreRequest& put) -> std::optional<StoreResult> {
    if (put.key == "b") return StoreResult{.status = Status::kNotApplied, .text = "busy"};
    if (put.key == "d") return StoreResult{.status = Status::kUnknown, .text = "no answer"};
    return std::nullopt;
  };
  client.send("SET a 1\r\nSET b 2\r\nSET c 3\r\nSET d 4\r\nSET e 5\r\n");
  EXPECT_EQ(sizes(), Sizes{5});
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n-TRYAGAIN busy\r\n+OK\r\n-ERR outcome unknown: no answer\r\n+OK\r\n");
}

TEST_F(CommandBursts, InsideMultiThereAreNone) {
  client.send("MULTI\r\nSET a 1\r\nSET b 2\r\nEXEC\r\nSET c 3\r\nSET d 4\r\n");
  client.answer_all();
  EXPECT_EQ(client.take_output(), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
}

TEST_F(CommandBursts, CountAsManyCommands) {
  client.ask("PING");
  for (int i = 0; i < 60; ++i) client.ask("SET key value");  // now it knows how large replies are
  std::string sets;
  for (size_t i = 0; i < 2 * kCommandsMax; ++i) absl::StrAppend(&sets, "SET key", i, " value\r\n");
  std::string_view rest = client.send(sets);
  EXPECT_FALSE(client.connection().wants_input());
  EXPECT_EQ(client.waiting().size(), kCommandsMax / kBurstCommandsMax);
  std::string replies;
  while (!rest.empty() || !client.waiting().empty()) {
    client.answer_all();
    replies += client.take_output();
    rest = client.send(rest);
  }
  EXPECT_EQ(replies, repeated("+OK\r\n", 2 * kCommandsMax));
}

TEST_F(CommandBursts, CountForTheConnectionsMemory) {
  const std::string value(kGroupedValueBytesMax, 'x');
  std::string sets;
  for (size_t i = 0; i < kBurstCommandsMax; ++i) absl::StrAppend(&sets, "SET key", i, " ", value, "\r\n");
  client.send(sets);
  EXPECT_GE(gateway.context.held_bytes, kBurstCommandsMax * kGroupedValueBytesMax);
  client.answer_all();
  client.take_output();
  EXPECT_EQ(gateway.context.held_bytes, 0U);
}

/// The dumb twin: a map, and one command after the other.
TEST_F(CommandBursts, LeaveWhatCommandsOneByOneWould) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    FakeGateway fresh;
    FakeClient many(fresh);
    Rng rng(seed);
    std::map<std::string, std::string> twin;
    std::string expected;
    std::string replies;
    for (int round = 0; round < 5; ++round) {
      std::string input;
      for (uint64_t i = rng.below(60); i > 0; --i) {
        const std::string key = absl::StrCat("k", rng.below(20));
        if (rng.below(8) == 0) {
          absl::StrAppend(&input, "GET ", key, "\r\n");
          const auto found = twin.find(key);
          absl::StrAppend(&expected, found == twin.end()
                                         ? "$-1\r\n"
                                         : absl::StrCat("$", found->second.size(), "\r\n", found->second, "\r\n"));
        } else {
          twin[key] = absl::StrCat(rng.next());
          absl::StrAppend(&input, "SET ", key, " ", twin[key], "\r\n");
          expected += "+OK\r\n";
        }
      }
      const size_t cut = input.empty() ? 0 : rng.below(input.size());
      many.send(std::string_view(input).substr(0, cut));
      while (rng.below(3) != 0 && !many.waiting().empty()) many.answer(rng.below(many.waiting().size()));
      many.send(std::string_view(input).substr(cut));
      while (!many.waiting().empty()) many.answer(rng.below(many.waiting().size()));
      replies += many.take_output();
    }
    ASSERT_EQ(replies, expected) << "seed " << seed;
    for (const auto& [key, value] : twin) ASSERT_EQ(fresh.store.tables[0][key].value, value) << "seed " << seed;
  }
}

}  // namespace
}  // namespace skua::kv::gateway
