#include "rpc/answers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/rpc/endpoint/bundled_parts.h"

namespace skua::rpc {
namespace {

using testing::Record;
using testing::SentPacket;

constexpr MethodId kServed = 9;
constexpr PeerId kAsker = 3;
constexpr size_t kAnswersLimit = 8000;

class AnswersTest : public testing::BundledPartsTest {
 protected:
  AnswersTest() : BundledPartsTest(with_small_limit()) {
    parts.host.incoming = &parts.incoming;
    parts.host.outgoing = &outgoing;
    parts.incoming.serve(kServed, [](IncomingCall&&) {}, {});  // tests answer by hand
  }
  static EndpointOptions with_small_limit() {
    EndpointOptions out;
    out.answers_limit_bytes = kAnswersLimit;
    return out;
  }
  static SessionId on_wire(const SessionEntry& entry) { return {entry.index, entry.wire_generation}; }
  static uint32_t slot_of(uint32_t number) { return number % 8; }
  /// A request comes in a record, and its handler runs.
  void ask_small(const SessionEntry& entry, uint32_t number) {
    receive(*entry.association, {{{.session = entry.session->hot().handle,
                                   .number = number,
                                   .bytes = 4,
                                   .kind = RecordKind::kRequest,
                                   .method = kServed,
                                   .time = time_code(kSecond)},
                                  "asks"}});
  }
  /// A request comes in a packet, and its handler runs.
  void ask_large(const SessionEntry& entry, uint32_t number) {
    const std::string text = "asks";
    Arrival arrival;
    arrival.header.type = PacketType::kRequest;
    arrival.header.session_index = entry.index;
    arrival.header.req_num = number;
    arrival.header.method = kServed;
    arrival.header.message_bytes = 4;
    arrival.header.stamp = to_ticks(context.now_ns);
    arrival.payload = as_byte_span(text);
    entry.session->on_packet(arrival, context.now_ns);
  }
  void give(SessionId session, uint32_t number, const absl::Status& status = absl::OkStatus(),
            MessagePtr message = MessagePtr()) {
    answers.give(session, slot_of(number), number, status, std::move(message));
  }
  bool give_bytes(SessionId session, uint32_t number, std::string_view text) {
    return answers.give_small(session, number, SentBytes(as_byte_span(text)));
  }
  [[nodiscard]] uint64_t stale() const { return context.counters.stale_replies; }
  [[nodiscard]] uint32_t running() const { return parts.incoming.running(); }

  OutgoingCalls outgoing{context, parts.memory, parts.bundles};
  Answers answers{context, parts.memory, parts.bundles, parts.incoming};
};

// --- Small answers ---------------------------------------------------------------------------------------------------

TEST_F(AnswersTest, ASmallAnswerIsARecord_AndEndsItsHandler) {
  SessionEntry& entry = joined_by(kAsker);
  ask_small(entry, 8);
  ASSERT_EQ(running(), 1u);
  EXPECT_TRUE(give_bytes(on_wire(entry), 8, "says"));
  EXPECT_EQ(running(), 0u);
  const std::vector<Record> sent = sent_records();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0],
            (Record{{.session = testing::peers_handle(entry), .number = 8, .bytes = 4, .kind = RecordKind::kResponse},
                    "says"}));
}

TEST_F(AnswersTest, WhatIsNoSmallAnswer_ChangesNothing) {
  SessionEntry& entry = joined_by(kAsker);
  ask_small(entry, 8);
  EXPECT_FALSE(give_bytes({entry.index, entry.wire_generation + 1}, 8, "the connection before"));
  EXPECT_FALSE(give_bytes(on_wire(entry), 16, "nobody asked"));
  MessagePtr message = MessagePtr::copy_of(as_byte_span(std::string(kRecordBytesMax + 1, 'x')));
  EXPECT_FALSE(answers.give_small(on_wire(entry), 8, SentMessage(message)));
  EXPECT_TRUE(message);
  EXPECT_EQ(running(), 1u) << "the handler has not answered";
  EXPECT_TRUE(sent_records().empty());
  EXPECT_EQ(stale(), 0u);
  EXPECT_TRUE(give_bytes(on_wire(entry), 8, "says"));
  EXPECT_FALSE(give_bytes(on_wire(entry), 8, "says again"));
  EXPECT_EQ(running(), 0u);
}

TEST_F(AnswersTest, GivenAsAMessage_ASmallAnswerIsARecordToo) {
  SessionEntry& entry = joined_by(kAsker);
  ask_small(entry, 8);
  ask_small(entry, 9);
  give(on_wire(entry), 9, absl::OkStatus(), MessagePtr::copy_of(as_byte_span("says")));
  give(on_wire(entry), 8);
  EXPECT_EQ(running(), 0u);
  const std::vector<Record> sent = sent_records();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].head.number, 9u);
  EXPECT_EQ(sent[0].bytes, "says");
  EXPECT_EQ(sent[1].head.number, 8u);
  EXPECT_EQ(sent[1].bytes, "") << "no message is an empty one";
}

// --- Large answers ---------------------------------------------------------------------------------------------------

TEST_F(AnswersTest, AnAnswerTakesTheWayOfItsRequest) {
  SessionEntry& entry = joined_by(kAsker);
  ask_large(entry, 8);
  EXPECT_FALSE(give_bytes(on_wire(entry), 8, "not in a record"));
  EXPECT_EQ(running(), 1u);
  give(on_wire(entry), 8, absl::OkStatus(), MessagePtr::copy_of(as_byte_span("says")));
  EXPECT_EQ(running(), 0u);
  EXPECT_TRUE(sent_records().empty());
  ask_large(entry, 9);
  give(on_wire(entry), 9);
  const std::vector<SentPacket> sent = sent_packets(PacketType::kResponse);
  ASSERT_EQ(sent.size(), 2u);
  for (const size_t i : {0u, 1u}) {
    EXPECT_EQ(sent[i].to, kAsker);
    EXPECT_EQ(sent[i].header.req_num, 8 + i);
    EXPECT_EQ(sent[i].header.method, 0) << "the status is OK";
    EXPECT_EQ(sent[i].header.flags & packet_flags::kEngineStatus, 0);
  }
  EXPECT_EQ(sent[0].payload, "says");
  EXPECT_EQ(sent[1].payload, "") << "no message is an empty one";
}

TEST_F(AnswersTest, AnErrorTellsItsCodeAndTheBeginningOfItsText) {
  SessionEntry& entry = joined_by(kAsker);
  ask_small(entry, 8);
  ask_large(entry, 9);
  give(on_wire(entry), 8, absl::NotFoundError("no such key"), MessagePtr::copy_of(as_byte_span("is dropped")));
  give(on_wire(entry), 9, absl::InternalError(std::string(1025, 'e')));
  EXPECT_EQ(running(), 0u);
  EXPECT_TRUE(wire.bundles.empty()) << "a record says OK";
  const std::vector<SentPacket> sent = sent_packets(PacketType::kResponse);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].header.req_num, 8u);
  EXPECT_EQ(sent[0].header.method, static_cast<uint16_t>(absl::StatusCode::kNotFound));
  EXPECT_EQ(sent[0].payload, "no such key");
  EXPECT_EQ(sent[0].header.flags & packet_flags::kEngineStatus, 0) << "a handler ran";
  EXPECT_EQ(sent[1].header.method, static_cast<uint16_t>(absl::StatusCode::kInternal));
  EXPECT_EQ(sent[1].header.message_bytes, 1024u);
}

TEST_F(AnswersTest, AnAnswerTooLargeForARecord_GoesInPackets) {
  SessionEntry& entry = joined_by(kAsker);
  ask_small(entry, 8);
  give(on_wire(entry), 8, absl::OkStatus(), MessagePtr::copy_of(as_byte_span(std::string(5000, 'a'))));
  EXPECT_TRUE(wire.bundles.empty());
  const std::vector<SentPacket> sent = sent_packets(PacketType::kResponse);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.message_bytes, 5000u);
  EXPECT_EQ(stale(), 0u);
}

// --- Stale answers ---------------------------------------------------------------------------------------------------

TEST_F(AnswersTest, AnAnswerForSomethingOlder_IsCountedAndEndsItsHandler) {
  SessionEntry& entry = joined_by(kAsker);
  const SessionId before = on_wire(entry);
  ask_small(entry, 8);
  ask_small(entry, 16);
  ask_large(entry, 9);
  ask_large(entry, 17);
  ASSERT_EQ(running(), 4u);
  give(before, 8);
  EXPECT_EQ(stale(), 1u) << "the small call's sslot has a newer request";
  give(before, 9);
  EXPECT_EQ(stale(), 2u) << "the large call's sslot has a newer request";
  give({before.index, before.generation + 1}, 16);
  EXPECT_EQ(stale(), 3u) << "another connection";
  give({before.index + 7, before.generation}, 17, absl::InternalError("why"));
  EXPECT_EQ(stale(), 4u) << "no session";
  EXPECT_EQ(running(), 0u);
  EXPECT_TRUE(sent_records().empty());
  EXPECT_TRUE(sent_packets(PacketType::kResponse).empty());
  give(before, 16);
  EXPECT_EQ(stale(), 4u);
}

TEST_F(AnswersTest, AnAnswerForASessionThatEnded_IsCounted) {
  SessionEntry& entry = joined_by(kAsker);
  const SessionId session = on_wire(entry);
  for (const uint32_t number : {8u, 9u, 10u}) ask_small(entry, number);
  parts.lives.end(entry, why);
  give(session, 8, absl::OkStatus(), MessagePtr::copy_of(as_byte_span("says")));
  EXPECT_EQ(stale(), 1u) << "it is not buried yet";
  parts.lives.bury();
  EXPECT_FALSE(give_bytes(session, 9, "says"));
  give(session, 9);
  SessionEntry& next = joined_by(kAsker, 8);
  ASSERT_EQ(next.index, session.index);
  give(session, 10);
  EXPECT_EQ(stale(), 3u);
  EXPECT_EQ(running(), 0u);
}

// --- Who asked -------------------------------------------------------------------------------------------------------

TEST_F(AnswersTest, TheSessionIsNamedUntilItsConnectionEnds) {
  SessionEntry& entry = joined_by(kAsker);
  const SessionId accepted = on_wire(entry);
  EXPECT_EQ(answers.session_of(accepted), entry.handle());
  EXPECT_EQ(answers.session_of({entry.index, entry.wire_generation + 1}), SessionId());
  parts.lives.end(entry, why);
  EXPECT_EQ(answers.session_of(accepted), SessionId());
  parts.lives.bury();
  EXPECT_EQ(answers.session_of(accepted), SessionId());
  // The peer may call the opener, too.
  SessionEntry& ours = joined(kAsker);
  const SessionId dialled = on_wire(ours);
  EXPECT_EQ(answers.session_of(dialled), ours.handle());
  parts.lives.break_off(ours, why);
  EXPECT_EQ(answers.session_of(dialled), SessionId()) << "the next connection is another one";
  parts.lives.end(ours, why);
}

// --- Shares ----------------------------------------------------------------------------------------------------------

TEST_F(AnswersTest, ACallersSharesAreItsPeers) {
  SessionEntry& entry = joined_by(kAsker);
  SessionEntry& second = joined_by(kAsker, 8);
  SessionEntry& others = joined_by(kAsker + 1, 9);
  std::optional<Lease> first = answers.reserve(on_wire(entry), kAnswersLimit / 8);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->size(), 0u) << "a share has no bytes";
  EXPECT_FALSE(answers.reserve(on_wire(entry), 1).has_value());
  EXPECT_FALSE(answers.reserve(on_wire(second), 1).has_value()) << "another session of the same peer";
  EXPECT_TRUE(answers.reserve(on_wire(others), 1).has_value());
  first->reset();
  EXPECT_TRUE(answers.reserve(on_wire(second), 1).has_value());
}

TEST_F(AnswersTest, AnswersThatNobodyWaitsForNeedNoShare) {
  SessionEntry& entry = joined_by(kAsker);
  const SessionId session = on_wire(entry);
  const std::optional<Lease> all = answers.reserve(session, kAnswersLimit);
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(answers.reserve({session.index, session.generation + 1}, kAnswersLimit).has_value());
  EXPECT_FALSE(answers.reserve(session, 1).has_value());
  parts.lives.end(entry, why);
  parts.lives.bury();
  EXPECT_TRUE(answers.reserve(session, kAnswersLimit).has_value());
  // What they got counts nowhere: the share of the peer is still the first one's.
  EXPECT_FALSE(answers.reserve(on_wire(joined_by(kAsker, 8)), 1).has_value());
}

TEST_F(AnswersTest, CallersOfOurOwnSessionsHaveNoLimit) {
  const SessionId session = on_wire(joined(kAsker));
  const std::optional<Lease> first = answers.reserve(session, 10 * kAnswersLimit);
  const std::optional<Lease> second = answers.reserve(session, 10 * kAnswersLimit);
  EXPECT_TRUE(first.has_value() && second.has_value());
}

}  // namespace
}  // namespace skua::rpc
