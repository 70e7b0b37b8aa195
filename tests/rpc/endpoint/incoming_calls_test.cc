#include "rpc/incoming_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/endpoint/endpoint_parts.h"

namespace skua::rpc {
namespace {

class IncomingCallsTest : public ::testing::Test {
 protected:
  static constexpr MethodId kMethod = 9;

  IncomingCallsTest() {
    hot.handle = session_handle(3, 0);
    hot.handle_generation = 5;
    hot.wire_generation = 6;
    hot.mask = 7;
  }
  void serve() {
    incoming.serve(kMethod, [this](IncomingCall&& call) { calls.push_back(std::move(call)); }, {});
  }
  bool deliver(uint32_t number, MethodId method = kMethod) {
    const RawRecord record{.session = hot.handle, .number = number, .rest = uint32_t{method} << 16};
    return incoming.deliver_small(hot, record, kMillisecond, {as_byte_span(text), nullptr, 0});
  }

  const std::string text = "asks";
  testing::ObedientWire wire;
  SessionHot hot;
  testing::ContextAndMemory parts{wire, with_two_handlers()};
  IncomingCalls incoming{parts.context, parts.memory};
  std::vector<IncomingCall> calls;

 private:
  static EndpointOptions with_two_handlers() {
    EndpointOptions out;
    out.handlers_max = 2;
    return out;
  }
};

TEST_F(IncomingCallsTest, TheHandlerSeesWhoAsksWhat) {
  serve();
  ASSERT_TRUE(deliver(11));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].session, (SessionId{3, 5}));
  EXPECT_EQ(calls[0].method, kMethod);
  EXPECT_EQ(calls[0].received_ns, parts.context.now_ns);
  EXPECT_EQ(calls[0].deadline_ns, parts.context.now_ns + kMillisecond);
  EXPECT_EQ(as_string_view(calls[0].request.bytes()), text);
  EXPECT_TRUE(calls[0].reply);
  EXPECT_EQ(parts.context.counters.requests_served, 1u);
  EXPECT_EQ(incoming.running(), 1u);
  incoming.handler_done();
  EXPECT_EQ(incoming.running(), 0u);
}

TEST_F(IncomingCallsTest, WithoutAHandler_NothingHappens) {
  EXPECT_FALSE(deliver(11));
  serve();
  EXPECT_FALSE(deliver(11, kMethod + 1));
  incoming.drop_handlers();
  EXPECT_FALSE(deliver(11));
  EXPECT_TRUE(calls.empty());
  EXPECT_EQ(parts.context.counters.requests_served, 0u);
  EXPECT_EQ(incoming.running(), 0u);
}

TEST_F(IncomingCallsTest, OnlySoManyHandlersRun) {
  serve();
  EXPECT_TRUE(deliver(1));
  EXPECT_TRUE(deliver(2));
  EXPECT_FALSE(deliver(3));
  incoming.handler_done();
  EXPECT_TRUE(deliver(3));
  EXPECT_EQ(calls.size(), 3u);
}

TEST_F(IncomingCallsTest, TheLastPlacesAreForMethodsThatMayHaveThem) {
  constexpr MethodId kOfNodes = kMethod + 1;
  EndpointOptions options;
  options.handlers_max = 3;
  options.handlers_reserved = 2;
  testing::ContextAndMemory of_three{wire, options};
  IncomingCalls three{of_three.context, of_three.memory};
  std::vector<IncomingCall> kept;  // their reply tokens need the mailbox of `of_three`
  const auto keep = [&kept](IncomingCall&& call) { kept.push_back(std::move(call)); };
  three.serve(kMethod, keep, {});
  three.serve(kOfNodes, keep, {.may_have_reserved = true});
  const auto deliver_to = [&](MethodId method, uint32_t number) {
    const RawRecord record{.session = hot.handle, .number = number, .rest = uint32_t{method} << 16};
    return three.deliver_small(hot, record, kMillisecond, {as_byte_span(text), nullptr, 0});
  };
  EXPECT_TRUE(deliver_to(kMethod, 1));
  EXPECT_FALSE(deliver_to(kMethod, 2));
  EXPECT_TRUE(deliver_to(kOfNodes, 2));
  EXPECT_TRUE(deliver_to(kOfNodes, 3));
  EXPECT_FALSE(deliver_to(kOfNodes, 4));
  three.handler_done();
  EXPECT_FALSE(deliver_to(kMethod, 4)) << "those that are left are in the reserved places";
  EXPECT_TRUE(deliver_to(kOfNodes, 4));
  three.handler_done();
  three.handler_done();
  three.handler_done();
  EXPECT_TRUE(deliver_to(kMethod, 5));
}

TEST_F(IncomingCallsTest, HandlersThatGatherAreToldOfTheBurstsEnd) {
  serve();
  EXPECT_FALSE(incoming.gathers());
  deliver(1);
  EXPECT_FALSE(incoming.has_gathered()) << "nobody gathers";
  incoming.tell_burst_end();
  int ends = 0;
  incoming.observe_burst_end([&ends] { ++ends; });
  EXPECT_TRUE(incoming.gathers());
  EXPECT_FALSE(incoming.has_gathered());
  deliver(2);
  EXPECT_TRUE(incoming.has_gathered());
  incoming.tell_burst_end();
  EXPECT_FALSE(incoming.has_gathered());
  EXPECT_EQ(ends, 1);
}

TEST_F(IncomingCallsTest, OneWayIsForMethodsThatSaySo) {
  incoming.serve(1, [](IncomingCall&&) {}, {.one_way = true});
  incoming.serve(2, [](IncomingCall&&) {}, {});
  EXPECT_TRUE(incoming.takes_one_way(1));
  EXPECT_FALSE(incoming.takes_one_way(2));
  EXPECT_FALSE(incoming.takes_one_way(3));
  EXPECT_FALSE(incoming.takes_one_way(UINT16_MAX)) << "the number comes from a peer";
}

TEST_F(IncomingCallsTest, WhatHandlersCapturedIsDropped) {
  const auto captured = std::make_shared<int>(1);
  incoming.serve(1, [captured](IncomingCall&&) {}, {});
  incoming.observe_burst_end([captured] {});
  EXPECT_EQ(captured.use_count(), 3);
  incoming.drop_handlers();
  EXPECT_EQ(captured.use_count(), 1);
}

TEST_F(IncomingCallsTest, AMethodHasOneHandler) {
  serve();
  EXPECT_DEATH(serve(), "one handler");
  EXPECT_DEATH(incoming.serve(kRehearsalMethod, [](IncomingCall&&) {}, {}), "engine's own");
  EXPECT_DEATH(incoming.serve(kMethodMax, [](IncomingCall&&) {}, {}), "below 256");
  incoming.serve(kMethod, nullptr, {});
  serve();
}

}  // namespace
}  // namespace skua::rpc
