// Sessions whose connections break, over a transport that knows its callers by their connections. Calls in flight end
// once each, with the answer of a handler that ran once; the session is the same before and afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/endpoint.h"
#include "tests/rpc/endpoint/connected_net.h"

namespace skua::rpc {
namespace {

using testing::ConnectedNet;
using testing::ConnectedTransport;

constexpr MethodId kEcho = 1;

EndpointIdentity identity(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes[0] = number;
  out.incarnation = 1;
  return out;
}

EndpointOptions options(uint64_t seed) {
  EndpointOptions out;
  out.simulation_seed = seed;
  return out;
}

/// One of two endpoints, which calls the other in a session of its own.
struct Side {
  Side(ConnectedNet& net, uint8_t number)
      : transport(net.attach(number, identity(number))), endpoint(*transport, net.clock, options(number)) {
    endpoint.serve(kEcho, [this](IncomingCall&& call) {
      ++runs[std::string(as_string_view(call.request.bytes().first(std::min<size_t>(call.request.size(), 8))))];
      std::string answer(as_string_view(call.request.bytes()));
      if (!defers) return call.reply.reply(MessagePtr::copy_of(as_byte_span(answer)));
      deferred.emplace_back(std::move(answer), std::move(call.reply));
    });
    endpoint.on_session_event([this](const SessionEvent& event) {
      ++events[event.kind];
      if (event.kind == SessionEvent::Kind::kAccepted) accepted = event.session;
    });
  }
  void open(Side& other) {
    auto offer = endpoint.begin_connect(other.transport->local_descriptor()).value();
    session = offer.session;
    const std::string answer = other.endpoint.accept_offer(as_byte_span(offer.bytes));
    ASSERT_TRUE(endpoint.finish_connect(session, as_byte_span(answer)).ok());
  }
  void call(size_t bytes) { call(session, bytes, 600 * kSecond); }
  /// In the session that the other one opened.
  void call_back(size_t bytes) { call(accepted, bytes, 600 * kSecond); }
  void call(SessionId by, size_t bytes, DurationNs timeout_ns) {
    std::string request = std::to_string(10'000'000 + ends.size());
    request.resize(std::max<size_t>(bytes, 8), 'x');
    const size_t number = ends.size();
    ends.push_back({request, 0, absl::UnknownError("none")});
    const auto started = endpoint.call(by, kEcho, MessagePtr::copy_of(as_byte_span(request)),
                                       {.timeout_ns = timeout_ns}, [this, number](CallResult&& result) {
                                         End& end = ends[number];
                                         ++end.count;
                                         end.status = result.status;
                                         end.is_echo = as_string_view(result.response.bytes()) == end.request;
                                       });
    if (!started.ok()) ends.pop_back();
  }
  void answer_one() {
    if (deferred.empty()) return;
    deferred.front().second.reply(MessagePtr::copy_of(as_byte_span(deferred.front().first)));
    deferred.erase(deferred.begin());
  }
  [[nodiscard]] size_t open_calls() const {
    return static_cast<size_t>(std::count_if(ends.begin(), ends.end(), [](const End& end) { return end.count == 0; }));
  }

  void forget() {
    ends.clear();
    runs.clear();
    events.clear();
  }

  struct End {
    std::string request;
    int count = 0;
    absl::Status status;
    bool is_echo = false;
  };
  std::unique_ptr<ConnectedTransport> transport;
  std::map<std::string, int> runs;  // of the handler, by the request's first bytes
  std::vector<std::pair<std::string, ReplyToken>> deferred;
  std::vector<End> ends;
  std::map<SessionEvent::Kind, int> events;
  bool defers = false;
  SessionId session;
  SessionId accepted;
  Endpoint endpoint;
};

class BrokenConnections : public ::testing::Test {
 protected:
  BrokenConnections() {
    a_.open(b_);
    b_.open(a_);
    // Packets have bound both sessions to their connections.
    for (Side* side : {&a_, &b_}) side->call(1);
    run([&] { return a_.open_calls() + b_.open_calls() == 0; });
    for (int i = 0; i < 100; ++i) {
      poll();
      net_.deliver(100);
    }
    for (Side* side : {&a_, &b_}) side->forget();
  }
  void poll() {
    a_.endpoint.poll();
    b_.endpoint.poll();
  }
  void break_and_tell() {
    net_.break_connections();
    net_.tell(*a_.transport);
    net_.tell(*b_.transport);
  }
  template <typename Condition>
  void run(const Condition& condition) {
    for (int turn = 0; turn < kTurnsMax && !condition(); ++turn) {
      poll();
      net_.deliver(100);
      net_.clock.set(net_.clock.now_ns() + kMillisecond);
    }
    EXPECT_TRUE(condition());
  }
  /// All calls of both ended well, each once, and were executed once.
  void expect_all_once() {
    run([&] { return a_.open_calls() + b_.open_calls() == 0; });
    for (const auto& [caller, callee] : {std::pair(&a_, &b_), std::pair(&b_, &a_)}) {
      for (const Side::End& end : caller->ends) {
        EXPECT_EQ(end.count, 1) << end.request.substr(0, 8);
        EXPECT_TRUE(end.status.ok()) << end.status;
        EXPECT_TRUE(end.is_echo) << end.request.substr(0, 8);
        EXPECT_EQ(callee->runs[end.request.substr(0, 8)], 1) << end.request.substr(0, 8);
      }
      EXPECT_EQ(caller->endpoint.counters().sessions_broken, 0U);
      EXPECT_EQ(caller->events[SessionEvent::Kind::kClosed], 0);
    }
    run([&] { return left(a_) + left(b_) == 0; });
  }
  static size_t left(const Side& side) {
    const Endpoint::Balance balance = side.endpoint.balance();
    return balance.calls + balance.handlers + balance.lent_buffers + balance.pool_buffers + balance.messages +
           balance.credits_missing;
  }

  static constexpr int kTurnsMax = 100'000;
  ConnectedNet net_;
  Side a_{net_, 1};
  Side b_{net_, 2};
};

TEST_F(BrokenConnections, RequestLost_IsSentAgain) {
  a_.call(100);
  a_.endpoint.poll();
  break_and_tell();
  expect_all_once();
  EXPECT_EQ(a_.events[SessionEvent::Kind::kLinkLost], 2) << "its own session, and the other's";
}

TEST_F(BrokenConnections, ResponseLost_IsSentAgainAndNotMadeAgain) {
  a_.call(100);
  run([&] { return b_.runs.size() == 1; });
  b_.endpoint.poll();
  break_and_tell();
  expect_all_once();
}

/// Opened by packets of a connection, and not by way of somebody else: it is not that connection's for good.
TEST_F(BrokenConnections, SessionThatWasOpenedByPackets) {
  a_.session = a_.endpoint.connect(b_.transport->local_descriptor()).value();
  run([&] { return a_.endpoint.is_connected(a_.session); });
  a_.call(100);
  a_.endpoint.poll();
  break_and_tell();
  expect_all_once();
}

/// The side that accepted the session calls in it, and cannot make the connection.
TEST_F(BrokenConnections, CallOfTheAcceptingSide_IsSentAgain) {
  b_.call_back(100);
  b_.endpoint.poll();
  break_and_tell();
  expect_all_once();
}

TEST_F(BrokenConnections, HandlerThatAnswersWhileThereIsNoConnection) {
  b_.defers = true;
  a_.call(100);
  run([&] { return b_.deferred.size() == 1; });
  break_and_tell();
  poll();
  b_.answer_one();
  b_.endpoint.poll();
  expect_all_once();
}

TEST_F(BrokenConnections, ResponseThatIsDueLater_ComesByTheNewConnection) {
  b_.defers = true;
  a_.call(100);
  run([&] { return b_.deferred.size() == 1; });
  break_and_tell();
  for (int i = 0; i < 1000; ++i) {
    poll();
    net_.deliver(100);
    net_.clock.set(net_.clock.now_ns() + kMillisecond);
  }
  EXPECT_EQ(b_.runs.size(), 1U);
  b_.answer_one();
  expect_all_once();
}

TEST_F(BrokenConnections, AnotherCallAfterwards_GoesByTheNewConnection) {
  break_and_tell();
  run([&] { return a_.events[SessionEvent::Kind::kLinkLost] == 2; });
  a_.call(1);
  b_.call(1);
  expect_all_once();
}

TEST_F(BrokenConnections, BrokenAgainBeforeThePingIsAnswered) {
  a_.call(100);
  a_.endpoint.poll();
  break_and_tell();
  for (int again = 0; again < 5; ++again) {
    net_.clock.set(net_.clock.now_ns() + kSecond / 5);
    a_.endpoint.poll();  // asks for a connection
    break_and_tell();
  }
  expect_all_once();
}

/// The listener hears of it only after the caller has made another connection.
TEST_F(BrokenConnections, ListenerThatHearsOfItLate) {
  a_.call(100);
  a_.endpoint.poll();
  net_.break_connections();
  net_.tell(*a_.transport);
  for (int i = 0; i < 500; ++i) {
    poll();
    net_.deliver(100);
    net_.clock.set(net_.clock.now_ns() + kMillisecond);
  }
  EXPECT_EQ(b_.runs.size(), 0U) << "the session is another connection's still";
  net_.tell(*b_.transport);
  expect_all_once();
}

TEST_F(BrokenConnections, NobodyComesBack_TheSessionEndsAndTheCallsWithIt) {
  b_.defers = true;
  a_.call(a_.session, 100, 40 * kSecond);
  run([&] { return b_.deferred.size() == 1; });
  break_and_tell();
  net_.unreachable = true;
  run([&] { return a_.open_calls() == 0 && b_.events[SessionEvent::Kind::kClosed] == 1; });
  EXPECT_EQ(a_.ends[0].count, 1);
  EXPECT_EQ(a_.ends[0].status.code(), absl::StatusCode::kUnavailable) << a_.ends[0].status;
  EXPECT_EQ(a_.events[SessionEvent::Kind::kBroken], 1);
  b_.answer_one();
  net_.unreachable = false;
  b_.defers = false;
  run([&] { return a_.endpoint.is_connected(a_.session); });
  EXPECT_EQ(a_.events[SessionEvent::Kind::kReconnected], 1);
  a_.call(1);
  run([&] { return a_.open_calls() == 0; });
  EXPECT_TRUE(a_.ends.back().status.ok()) << a_.ends.back().status;
  EXPECT_EQ(a_.ends[0].count, 1);
}

/// Both call each other all the time; connections break anywhere, and each side hears of it when it does.
TEST_F(BrokenConnections, AnySequence_EachCallOnce) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    for (int step = 0; step < 400; ++step) {
      Side& side = rng.chance(0.5) ? a_ : b_;
      switch (rng.below(12)) {
        case 0: side.call(rng.chance(0.1) ? 100'000 : rng.below(3000)); break;
        case 1: side.call_back(rng.below(3000)); break;
        case 2:
        case 3:
        case 4: side.endpoint.poll(); break;
        case 5:
        case 6:
        case 7: net_.deliver(rng.below(4)); break;
        case 8: side.answer_one(); break;
        case 9: side.defers = rng.chance(0.5); break;
        case 10:
          if (rng.chance(0.2)) net_.break_connections();
          if (rng.chance(0.5)) net_.tell(*side.transport);
          break;
        default: net_.clock.set(net_.clock.now_ns() + static_cast<DurationNs>(rng.below(100 * kMillisecond)));
      }
    }
    for (Side* side : {&a_, &b_}) {
      net_.tell(*side->transport);
      side->defers = false;
      while (!side->deferred.empty()) side->answer_one();
    }
    // What a handler gets from now on it answers at once.
    expect_all_once();
    if (HasFailure()) return;
    for (Side* side : {&a_, &b_}) side->forget();
  }
  EXPECT_GT(net_.broken_count(), 300U);
}

/// A token has the session's name on the wire, the application another one.
TEST_F(BrokenConnections, ATokenNamesTheSessionOfItsCallUntilThatEnds) {
  b_.defers = true;
  a_.call(1);
  a_.call(100'000);
  run([&] { return b_.deferred.size() == 2; });
  for (const auto& [request, token] : b_.deferred) EXPECT_EQ(token.session(), b_.accepted);
  b_.endpoint.close(b_.accepted);
  for (const auto& [request, token] : b_.deferred) EXPECT_EQ(token.session(), SessionId{});
  b_.deferred.clear();
  run([&] { return a_.open_calls() == 0; });
}

}  // namespace
}  // namespace skua::rpc
