// One suite for every transport: what an application may rely on, whatever carries its packets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/conformance_fixture.h"

namespace skua::rpc::conformance {
namespace {

using ::testing::HasSubstr;

// --- Messages --------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Sizes_AroundEveryLimit) {
  const uint32_t payload = std::min<uint32_t>(client_->transport->capabilities().payload_max_bytes, 1 << 20);
  const uint32_t head = Message::kHeadMax;
  std::vector<uint32_t> sizes = {
      0,       1,           31,           head - 1,     head,         head + 1,         payload - 1,
      payload, payload + 1, 15 * payload, 16 * payload, 17 * payload, 63 * payload + 1, 64 * payload};
  for (uint32_t size : sizes) {
    if (size > options().protocol.message_max_bytes) continue;
    SCOPED_TRACE(size);
    const std::string request = bytes_of(size, size);
    const Outcome outcome = call(kEcho, as_byte_span(request), {.timeout_ns = 60 * kSecond});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(outcome.response == request);
    EXPECT_TRUE(outcome.from_peer);
  }
}

TEST_P(Conformance, Sizes_LargestAndOneMore) {
  const uint32_t largest = options().protocol.message_max_bytes;
  Outcome outcome = call_for_size(largest);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.response, bytes_of(largest));
  outcome = call_for_size(largest + 1);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal) << outcome.status;
  const std::string request(largest + 1, 'x');
  outcome = call(kEcho, as_byte_span(request));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(outcome.may_have_executed);
}

TEST_P(Conformance, Bodies_SeveralSpansAndOneBodyForManyCalls) {
  SharedBody* shared = SharedBody::make(bytes_of(5000));
  int done = 0;
  for (int i = 0; i < 8; ++i) {
    MessagePtr message = client_->endpoint->make_message();
    ASSERT_TRUE(message->append_head(as_byte_span(absl::StrCat(i))));
    ASSERT_TRUE(shared->attach(*message));
    ASSERT_TRUE(shared->attach(*message));
    auto started = client_->endpoint->call(session_, kEcho, std::move(message), {}, [&, i](CallResult&& result) {
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(as_string_view(result.response.bytes()), absl::StrCat(i, bytes_of(5000), bytes_of(5000)));
      ++done;
    });
    ASSERT_TRUE(started.ok());
  }
  shared->release();
  EXPECT_TRUE(run_until([&] { return done == 8; }));
}

TEST_P(Conformance, Copies_SinglePacketMessagesAreLentNotCopied) {
  if (GetParam().name == "SimLossy") GTEST_SKIP() << "repeated packets count as well";
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  const uint64_t before = server_->endpoint->counters().rx_copied_bytes;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(call(kEcho, as_byte_span(bytes_of(500))).status.ok());
  EXPECT_EQ(server_->endpoint->counters().rx_copied_bytes, before);
  EXPECT_EQ(client_->endpoint->counters().rx_copied_bytes, 0u);
  EXPECT_GE(server_->endpoint->counters().rx_zero_copy_bytes, 100u * 500);
}

TEST_P(Conformance, Copies_LargeMessagesAreSentInPlace) {
  if (client_->transport->capabilities().keyed) GTEST_SKIP() << "sealing writes what is sent into frames, once";
  ASSERT_TRUE(call(kEcho, as_byte_span("warm")).status.ok());
  for (const size_t size : std::initializer_list<size_t>{4096, 65'536, 1'048'576}) {
    const uint64_t client_before = client_->transport->counters().tx_copied_bytes;
    const uint64_t server_before = server_->transport->counters().tx_copied_bytes;
    const uint64_t in_place_before =
        client_->transport->counters().tx_zero_copy_bytes + server_->endpoint->counters().rx_read_bytes;
    ASSERT_TRUE(call(kEcho, as_byte_span(bytes_of(size))).status.ok());
    // Acknowledgements, pulls and the last piece may be small enough to be copied; the message itself is not.
    EXPECT_LE(client_->transport->counters().tx_copied_bytes - client_before, 256 + size / 50) << size;
    EXPECT_LE(server_->transport->counters().tx_copied_bytes - server_before, 256 + size / 50) << size;
    // Sent from where it lies, or read there by the server.
    const uint64_t in_place =
        client_->transport->counters().tx_zero_copy_bytes + server_->endpoint->counters().rx_read_bytes;
    EXPECT_GE(in_place - in_place_before, size - 256) << size;
  }
}

TEST_P(Conformance, Copies_LargeMessagesAreReadInPlaceWhereTheTransportCan) {
  if (!client_->transport->capabilities().one_sided) GTEST_SKIP() << "the transport has no one-sided operations";
  if (GetParam().name == "SimOneSidedLossy") GTEST_SKIP() << "READs fail there, and packets are copied";
  // The connection that READs go by comes with the first that is wanted.
  const bool connected = run_until([&] {
    return call(kEcho, as_byte_span(bytes_of(65'536))).status.ok() && server_->endpoint->counters().rx_read_bytes > 0 &&
           client_->endpoint->counters().rx_read_bytes > 0;
  });
  ASSERT_TRUE(connected);
  const uint64_t client_before = client_->endpoint->counters().rx_copied_bytes;
  const uint64_t server_before = server_->endpoint->counters().rx_copied_bytes;
  for (int i = 0; i < 5; ++i) {
    const std::string request = bytes_of(1'048'576, static_cast<uint64_t>(i));
    const Outcome outcome = call(kEcho, as_byte_span(request), {.timeout_ns = 60 * kSecond});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(outcome.response == request);
  }
  EXPECT_EQ(client_->endpoint->counters().rx_copied_bytes, client_before);
  EXPECT_EQ(server_->endpoint->counters().rx_copied_bytes, server_before);
}

// --- Handlers --------------------------------------------------------------------------------------------------------

TEST_P(Conformance, Handler_Statuses) {
  Outcome outcome = call(kFail, as_byte_span("x"));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(outcome.status.message(), "no such thing");
  EXPECT_TRUE(outcome.from_peer);
  outcome = call(kDrop, as_byte_span("x"));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("dropped its reply token"));
  outcome = call(200, as_byte_span("x"));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(outcome.may_have_executed);
}

TEST_P(Conformance, Handler_AnswersLaterAndKeepsTheLease) {
  const std::string request = bytes_of(700);
  auto box = start(kHold, as_byte_span(request));
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(call(kEcho, as_byte_span("other traffic")).status.ok());
  IncomingCall held = std::move(server_->held.front());
  server_->held.pop_front();
  EXPECT_EQ(as_string_view(held.request.bytes()), request);
  held.reply.reply(server_->copy(held.request.bytes()));
  ASSERT_TRUE(run_until([&] { return box->has_value(); }));
  EXPECT_EQ((*box)->response, request);
}

TEST_P(Conformance, Handler_AnswersFromAnotherThread) {
  for (int i = 0; i < 20; ++i) {
    const Outcome outcome = call(kThread, as_byte_span("x"));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.response, "from afar");
  }
}

TEST_P(Conformance, Handler_CallsItsCallerOnTheSameSession) {
  const Outcome outcome = call(kCallBack, as_byte_span("there and back"));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.response, "there and back");
  EXPECT_EQ(client_->echoes, 1u);
}

TEST_P(Conformance, OneWay_IsDeliveredAndCompletes) {
  const Outcome outcome = call(kEcho, as_byte_span("note"), {.timeout_ns = 5 * kSecond, .one_way = true});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.response, "");
  EXPECT_EQ(server_->echoes, 1u);
}

TEST_P(Conformance, OneWay_OfAMethodThatAnswersIsRefused) {
  const Outcome outcome = call(kHold, as_byte_span("note"), {.timeout_ns = 5 * kSecond, .one_way = true});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition) << outcome.status;
  EXPECT_TRUE(server_->held.empty());
}

TEST_P(Conformance, Leases_MoreThanTheRingIsCopiedOut) {
  // Every response stays lent to the application; the ring must not run dry.
  std::deque<Lease> kept;
  const std::string request = bytes_of(600);
  const size_t wanted = client_->transport->capabilities().lendable_count + 100;
  size_t answered = 0;
  size_t started = 0;
  while (started < wanted) {
    while (started - answered < 8 && started < wanted) {
      ++started;
      ASSERT_TRUE(client_->endpoint
                      ->call(session_, kEcho, client_->copy(as_byte_span(request)), {.timeout_ns = 60 * kSecond},
                             [&](CallResult&& result) {
                               EXPECT_TRUE(result.status.ok()) << result.status;
                               kept.push_back(std::move(result.response));
                               ++answered;
                             })
                      .ok());
    }
    const size_t target = answered + 1;
    ASSERT_TRUE(run_until([&] { return answered >= target; }));
  }
  ASSERT_TRUE(run_until([&] { return answered == wanted; }));
  for (const Lease& lease : kept) EXPECT_EQ(as_string_view(lease.bytes()), request);
}

// --- Deadlines and cancellation --------------------------------------------------------------------------------------

TEST_P(Conformance, Deadline_EndsACallThatIsNotAnswered) {
  const Outcome outcome = call(kHold, as_byte_span("x"), {.timeout_ns = 30 * kMillisecond});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDeadlineExceeded) << outcome.status;
  server_->held.clear();  // its answer is stale now, and harmless
  EXPECT_TRUE(call(kEcho, as_byte_span("next")).status.ok());
}

TEST_P(Conformance, Cancel_InEachState) {
  // Before it was sent.
  CallId id;
  auto unsent = start(kEcho, as_byte_span("x"), {}, &id);
  client_->endpoint->cancel(id);
  ASSERT_TRUE(unsent->has_value());
  EXPECT_EQ((*unsent)->status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE((*unsent)->may_have_executed);
  // While its handler runs.
  auto running = start(kHold, as_byte_span("y"), {}, &id);
  ASSERT_TRUE(run_until([&] { return !server_->held.empty(); }));
  client_->endpoint->cancel(id);
  ASSERT_TRUE(running->has_value());
  EXPECT_EQ((*running)->status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE((*running)->may_have_executed);
  server_->held.front().reply.reply(MessagePtr());
  server_->held.clear();
  // While a large message is under way.
  auto large = start(kEcho, as_byte_span(bytes_of(4 << 20)), {}, &id);
  for (int i = 0; i < 30; ++i) turn();
  client_->endpoint->cancel(id);
  EXPECT_TRUE(large->has_value());
  // After it completed: nothing happens.
  client_->endpoint->cancel(id);
  EXPECT_TRUE(call(kEcho, as_byte_span("still well")).status.ok());
}

/// Where a device is promised (SKUA_CONFORMANCE_REQUIRED names kinds), leaving its tests out is a failure.
TEST(Fabrics, RequiredOnesAreThere) {
  const char* required = std::getenv("SKUA_CONFORMANCE_REQUIRED");  // NOLINT(concurrency-mt-unsafe): one thread yet
  std::istringstream names(required == nullptr ? "" : required);
  for (std::string name; names >> name;) {
    std::string why_not = "no such device, or not built";
    bool there = false;
    for (const FabricKind& kind : all_fabrics()) there = there || (kind.name == name && kind.make(why_not) != nullptr);
    EXPECT_TRUE(there) << name << ": " << why_not;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, ::testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace skua::rpc::conformance
