// The conformance suite: bounds, the life of sessions, and threads, over every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace skua::rpc::conformance {
namespace {

using ::testing::HasSubstr;

// --- Bounds ----------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Backlog_IsBoundedAndSaysSo) {
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  std::vector<std::shared_ptr<std::optional<Outcome>>> boxes;
  for (int i = 0; i < 24; ++i) boxes.push_back(start(kEcho, as_byte_span("x")));  // 8 slots and 16 waiting
  const Outcome refused = *(*start(kEcho, as_byte_span("one too many")));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("backlog"));
  for (auto& box : boxes) {
    ASSERT_TRUE(run_until([&] { return box->has_value(); }));
    EXPECT_TRUE((*box)->status.ok());
  }
}

TEST_P(Conformance, Sessions_ManyAtOnceAndOneTooMany) {
  std::vector<SessionId> sessions;
  for (int i = 0; i < 50; ++i) {
    absl::StatusOr<SessionId> session = open_session(*client_->endpoint, *server_->endpoint);
    ASSERT_TRUE(session.ok());
    sessions.push_back(*session);
  }
  int done = 0;
  for (SessionId session : sessions) {
    ASSERT_TRUE(client_->endpoint
                    ->call(session, kEcho, client_->copy(as_byte_span("hi")), {.timeout_ns = 30 * kSecond},
                           [&](CallResult&& result) {
                             EXPECT_TRUE(result.status.ok()) << result.status;
                             ++done;
                           })
                    .ok());
  }
  EXPECT_TRUE(run_until([&] { return done == 50; }));
  for (SessionId session : sessions) client_->endpoint->close(session);
  EXPECT_TRUE(run_until([&] { return client_->endpoint->session_count() == 1; }));
}

// --- Life of sessions ------------------------------------------------------------------------------------------------

TEST_P(Conformance, Close_CompletesCallsAndRefusesNewOnes) {
  auto box = start(kHold, as_byte_span("x"));
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  client_->endpoint->close(session_);
  turn();
  ASSERT_TRUE(box->has_value());
  EXPECT_EQ((*box)->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*start(kEcho, as_byte_span("y")))->status.code(), absl::StatusCode::kNotFound);
  server_->held.clear();
  connect();
  EXPECT_TRUE(call(kEcho, as_byte_span("anew")).status.ok());
}

TEST_P(Conformance, Handshake_CarriedBySomebodyElse) {
  absl::StatusOr<Endpoint::Offer> offer = client_->endpoint->begin_connect(server_->endpoint->local_descriptor());
  ASSERT_TRUE(offer.ok());
  const std::string answer = server_->endpoint->accept_offer(as_byte_span(offer->bytes), test_origin());
  EXPECT_EQ(server_->endpoint->accept_offer(as_byte_span(offer->bytes), test_origin()), answer)
      << "a repeated offer, the same answer";
  ASSERT_TRUE(client_->endpoint->finish_connect(offer->session, as_byte_span(answer)).ok());
  session_ = offer->session;
  EXPECT_TRUE(client_->endpoint->is_connected(session_));
  EXPECT_TRUE(call(kEcho, as_byte_span("hello")).status.ok());
}

TEST_P(Conformance, Handshake_BadRecordsAreRefusedInWords) {
  const std::string answer = server_->endpoint->accept_offer(as_byte_span("garbage"));
  absl::StatusOr<Endpoint::Offer> offer = client_->endpoint->begin_connect(server_->endpoint->local_descriptor());
  ASSERT_TRUE(offer.ok());
  EXPECT_FALSE(client_->endpoint->finish_connect(offer->session, as_byte_span(answer)).ok());
  EXPECT_FALSE(client_->endpoint->finish_connect(offer->session, as_byte_span("x")).ok());
  client_->endpoint->close(offer->session);
}

TEST_P(Conformance, PeerGone_CallsGetATypedOutcome) {
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  auto box = start(kHold, as_byte_span("x"), {.timeout_ns = 50 * kSecond});
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  server_.reset();
  ASSERT_TRUE(run_until([&] { return box->has_value(); }));
  const auto code = (*box)->status.code();
  EXPECT_TRUE(code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kAborted ||
              code == absl::StatusCode::kInternal)
      << (*box)->status;
  EXPECT_TRUE((*box)->may_have_executed);
}

TEST_P(Conformance, Idle_ThenCall) {
  ASSERT_TRUE(call(kEcho, as_byte_span("first")).status.ok());
  const TimeNs until = fabric_->clock().now_ns() + 300 * kMillisecond;
  ASSERT_TRUE(run_until([&] { return fabric_->clock().now_ns() >= until; }));
  EXPECT_TRUE(call(kEcho, as_byte_span("after the pause")).status.ok());
}

TEST_P(Conformance, Shutdown_WithCallsInFlight) {
  int completed = 0;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(client_->endpoint
                    ->call(session_, kEcho, client_->copy(as_byte_span(bytes_of(200'000))), {},
                           [&](CallResult&&) { ++completed; })
                    .ok());
  }
  for (int i = 0; i < 10; ++i) turn();
  client_.reset();
  EXPECT_EQ(completed, 8);
}

// --- Threads ---------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Mailbox_RunsTasksOnTheOwnersThread) {
  std::atomic<int> ran = 0;
  const auto owner = std::this_thread::get_id();
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      while (!client_->endpoint->post([&] {
        EXPECT_EQ(std::this_thread::get_id(), owner);
        ++ran;
      })) {
        std::this_thread::yield();
      }
    }
  });
  while (ran < 100) turn();
  other.join();
}

TEST_P(Conformance, WrongThread_IsReportedInEveryBuild) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        std::thread other([&] { client_->endpoint->poll(); });
        other.join();
      },
      "used from another thread");
}

}  // namespace
}  // namespace skua::rpc::conformance
