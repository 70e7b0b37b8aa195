#include "rpc/association_joins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/rpc/endpoint/bundled_parts.h"

namespace skua::rpc::testing {
namespace {

constexpr PeerId kOther = 1;

class AssociationJoinsTest : public BundledPartsTest {
 protected:
  AssociationJoinsTest() { parts.host.outgoing = &outgoing; }
  ~AssociationJoinsTest() override {
    parts.lives.abort_all(why);
    outgoing.run_completions();
  }

  /// A session that we opened, which knows what its acceptor calls it.
  SessionEntry& opened(PeerId peer, uint32_t remote_index) {
    SessionEntry& entry = parts.dialled(peer);
    entry.remote_index = remote_index;
    entry.remote_generation = 1000 + remote_index;
    return entry;
  }
  /// A session that a peer opened, which has not joined.
  SessionEntry& acceptor(uint64_t nonce = 7) {
    SessionEntry& entry = parts.accepted(nonce);
    entry.version = kBundleVersion;
    return entry;
  }
  /// The peer's answer to our join.
  [[nodiscard]] Record joined_record(const SessionEntry& entry) const {
    return join_record(RecordKind::kJoined, entry.session->hot().handle, 0, peers_join(entry));
  }
  [[nodiscard]] Record join_record_of(const SessionEntry& entry) const {
    return join_record(RecordKind::kJoin, 0, entry.index, peers_join(entry));
  }
  static JoinRecord peers_join(const SessionEntry& entry) {
    return {.generation = entry.wire_generation,
            .association = kPeersAssociation,
            .epoch = kPeersEpoch,
            .session = peers_handle(entry)};
  }
  /// A join comes from a peer, in a bundle that belongs to no association.
  void receive_join(PeerId from, const Record& record, Ticks stamp = 100) {
    receive(from, {.flags = bundle_flags::kNoEcho, .stamp = stamp}, {record});
  }
  static bool is_in(const SessionEntry& entry) {
    const SessionHot& hot = entry.session->hot();
    const bool is_hindered = (hot.hindrances & SessionHot::kNotJoined) != 0;
    EXPECT_EQ(hot.association == nullptr, is_hindered);
    return hot.association != nullptr;
  }
  [[nodiscard]] DurationNs retry_ns() const { return context.options.protocol.connect_retry_ns; }

  OutgoingCalls outgoing{context, parts.memory, parts.bundles};
};

// --- The opener ------------------------------------------------------------------------------------------------------

TEST_F(AssociationJoinsTest, AJoinSaysWhereTheAnswerGoes) {
  SessionEntry& entry = opened(kOther, 40);
  parts.joins.join(entry);
  ASSERT_NE(entry.association, nullptr);
  EXPECT_FALSE(is_in(entry)) << "the peer has not answered";
  const std::vector<SentBundle> sent = sent_bundles();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kOther);
  EXPECT_EQ(sent[0].head.association, kNoAssociation) << "the peer has no association yet";
  EXPECT_EQ(sent[0].records, std::vector<Record>({join_record(RecordKind::kJoin, 0, 40,
                                                              {.generation = 1040,
                                                               .association = entry.association->index,
                                                               .epoch = entry.association->epoch,
                                                               .session = entry.session->hot().handle})}));
}

TEST_F(AssociationJoinsTest, AJoinIsRepeatedUntilItIsAnswered) {
  SessionEntry& entry = opened(kOther, 40);
  parts.joins.join(entry);
  const uint32_t epoch = entry.association->epoch;
  sent_bundles();
  for (int i = 0; i < 10; ++i) {
    parts.joins.join(entry);
    EXPECT_EQ(entry.association->epoch, epoch) << "the peer never had it, so it cannot have lost it";
    EXPECT_EQ(entry.next_join_ns, context.now_ns + retry_ns());
    EXPECT_EQ(sent_records().size(), 1u);
    EXPECT_EQ(entry.association->session_count, 1u);
    parts.pass(retry_ns());
  }
  EXPECT_EQ(parts.bundles.associations().size(), 1u);
  receive(*entry.association, {joined_record(entry)});
  EXPECT_TRUE(is_in(entry));
  EXPECT_EQ(entry.next_join_ns, kTimeNever);
  EXPECT_EQ(entry.session->hot().association, entry.association);
  EXPECT_EQ(entry.session->hot().remote_handle, peers_handle(entry));
  EXPECT_EQ(entry.association->remote_index, kPeersAssociation);
  EXPECT_EQ(entry.association->remote_epoch, kPeersEpoch);
  receive(*entry.association, {joined_record(entry)});
  EXPECT_EQ(drops(DropReason::kDuplicate), 1u);
}

TEST_F(AssociationJoinsTest, WithoutRoom_TheJoinIsSentSoon) {
  wire.stopped.insert(kOther);
  SessionEntry& entry = opened(kOther, 40);
  parts.joins.join(entry);
  EXPECT_GT(entry.next_join_ns, context.now_ns);
  EXPECT_LE(entry.next_join_ns, context.now_ns + retry_ns() / 20);
  wire.stopped.clear();
  parts.joins.join(entry);
  EXPECT_EQ(sent_records().size(), 1u);
}

TEST_F(AssociationJoinsTest, SessionsToOnePeer_ShareAnAssociation) {
  SessionEntry& first = opened(kOther, 40);
  SessionEntry& second = opened(kOther, 41);
  SessionEntry& elsewhere = opened(kOther + 1, 42);
  for (SessionEntry* entry : {&first, &second, &elsewhere}) parts.joins.join(*entry);
  EXPECT_EQ(first.association, second.association);
  EXPECT_NE(first.association, elsewhere.association);
  EXPECT_EQ(first.association->session_count, 2u);
  receive(*first.association, {joined_record(first)});
  EXPECT_TRUE(is_in(first));
  EXPECT_FALSE(is_in(second)) << "each joins for itself";
}

TEST_F(AssociationJoinsTest, AnAnswerIsTakenOnlyFromThatPeer_ForThisConnection) {
  SessionEntry& entry = opened(kOther, 40);
  parts.joins.join(entry);
  const Association& a = *entry.association;
  const BundleHead head{.flags = bundle_flags::kNoEcho, .association = a.index, .epoch = a.epoch, .stamp = 100};
  BundleHead wrong = head;
  wrong.epoch += 1;
  receive(kOther, wrong, {joined_record(entry)});
  receive(kOther + 1, head, {joined_record(entry)});
  EXPECT_EQ(drops(DropReason::kUnknownAssociation), 2u);
  receive(kOther, {.flags = bundle_flags::kNoEcho, .stamp = 100}, {joined_record(entry)});
  EXPECT_EQ(drops(DropReason::kUnknownAssociation), 3u) << "the bundle is of no association";
  Record nobody = joined_record(entry);
  nobody.head.session += 1;
  receive(kOther, head, {nobody});
  EXPECT_EQ(drops(DropReason::kUnknownAssociation), 4u);
  JoinRecord before = peers_join(entry);
  before.generation -= 1;
  receive(kOther, head, {join_record(RecordKind::kJoined, entry.session->hot().handle, 0, before)});
  EXPECT_EQ(drops(DropReason::kOldGeneration), 1u);
  Record cut = joined_record(entry);
  cut.bytes.pop_back();
  cut.head.bytes -= 1;
  receive(kOther, head, {cut});
  EXPECT_EQ(drops(DropReason::kBadLength), 1u);
  EXPECT_FALSE(is_in(entry));
  receive(kOther, head, {joined_record(entry)});
  EXPECT_TRUE(is_in(entry));
}

/// Another session in the association had an answer, so the peer had the association, and may have ended it.
TEST_F(AssociationJoinsTest, AfterThreeJoinsWithoutAnAnswer_AnotherAssociationIsTried) {
  SessionEntry& first = opened(kOther, 40);
  SessionEntry& second = opened(kOther, 41);
  parts.joins.join(first);
  receive(*first.association, {joined_record(first)});
  Association* const old = first.association;
  for (int i = 0; i < 3; ++i) {
    parts.joins.join(second);
    EXPECT_EQ(second.association, old);
  }
  sent_bundles();
  parts.joins.join(second);
  EXPECT_NE(second.association, old);
  EXPECT_EQ(second.joins_unanswered, 1u);
  EXPECT_EQ(old->session_count, 1u);
  EXPECT_TRUE(is_in(first)) << "it stays where it is";
  const std::vector<SentBundle> sent = sent_bundles();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].head.association, kNoAssociation);
  SessionEntry& third = opened(kOther, 42);
  parts.joins.join(third);
  EXPECT_EQ(third.association, second.association) << "the new one is for all that join from now on";
}

// --- The acceptor ----------------------------------------------------------------------------------------------------

TEST_F(AssociationJoinsTest, AJoinIsAnswered_AndBindsTheSession) {
  SessionEntry& entry = acceptor();
  receive_join(kOther, join_record_of(entry));
  EXPECT_EQ(entry.peer, kOther);
  EXPECT_TRUE(is_in(entry));
  EXPECT_EQ(entry.session->hot().remote_handle, peers_handle(entry));
  const std::vector<SentBundle> sent = sent_bundles();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kOther);
  EXPECT_EQ(sent[0].head.association, kPeersAssociation);
  EXPECT_EQ(sent[0].head.epoch, kPeersEpoch);
  EXPECT_EQ(sent[0].records, std::vector<Record>({join_record(RecordKind::kJoined, peers_handle(entry), 0,
                                                              {.generation = entry.remote_generation,
                                                               .association = entry.association->index,
                                                               .epoch = entry.association->epoch,
                                                               .session = entry.session->hot().handle})}));
  receive_join(kOther, join_record_of(entry));
  EXPECT_EQ(sent_records().size(), 1u) << "the answer may have been lost";
  EXPECT_EQ(entry.association->session_count, 1u);
  SessionEntry& next = acceptor(8);
  receive_join(kOther, join_record_of(next));
  EXPECT_EQ(next.association, entry.association) << "the join names the same association";
  receive(*entry.association, {joined_record(entry)});
  EXPECT_EQ(drops(DropReason::kUnknownAssociation), 1u) << "we asked for nothing in an association of the peer's";
}

TEST_F(AssociationJoinsTest, OnlyTheSessionsPeerMayJoinIt) {
  SessionEntry& entry = acceptor();
  Record unknown = join_record_of(entry);
  unknown.head.number = 77;
  receive_join(kOther, unknown);
  EXPECT_EQ(drops(DropReason::kUnknownSession), 1u);
  JoinRecord guessed = peers_join(entry);
  guessed.generation += 1;
  receive_join(kOther, join_record(RecordKind::kJoin, 0, entry.index, guessed));
  EXPECT_EQ(drops(DropReason::kOldGeneration), 1u);
  SessionEntry& ours = opened(kOther, 40);
  receive_join(kOther, join_record_of(ours));
  EXPECT_EQ(drops(DropReason::kOldGeneration), 2u) << "we ask for those that we opened";
  SessionEntry& old = parts.accepted(9);
  receive_join(kOther, join_record_of(old));
  EXPECT_EQ(drops(DropReason::kOldGeneration), 3u) << "its opener does not speak version 2";
  ASSERT_TRUE(parts.binding.bind(entry, kOther + 1));
  receive_join(kOther, join_record_of(entry));
  EXPECT_EQ(drops(DropReason::kForeignSender), 1u);
  SessionEntry& ended = acceptor(10);
  parts.lives.end(ended, why);
  receive_join(kOther, join_record_of(ended));
  EXPECT_EQ(drops(DropReason::kOldGeneration), 4u);
  EXPECT_EQ(parts.bundles.associations().size(), 0u);
  EXPECT_TRUE(sent_records().empty());
}

TEST_F(AssociationJoinsTest, WithoutRoomForTheAnswer_NoRecordsAreTaken) {
  SessionEntry& entry = acceptor();
  wire.stopped.insert(kOther);
  receive_join(kOther, join_record_of(entry));
  EXPECT_FALSE(is_in(entry));
  wire.stopped.clear();
  receive_join(kOther, join_record_of(entry));
  EXPECT_TRUE(is_in(entry));
  EXPECT_EQ(entry.association->session_count, 1u);
}

TEST_F(AssociationJoinsTest, OfSeveralJoins_TheLastCounts) {
  SessionEntry& entry = acceptor();
  const auto join_by = [&](uint32_t association, Ticks stamp) {
    JoinRecord join = peers_join(entry);
    join.association = association;
    receive_join(kOther, join_record(RecordKind::kJoin, 0, entry.index, join), stamp);
    EXPECT_TRUE(is_in(entry));
    return entry.association->remote_index;
  };
  // Stamps wrap.
  EXPECT_EQ(join_by(1, UINT32_MAX - 5), 1u);
  EXPECT_EQ(join_by(2, UINT32_MAX - 5), 1u) << "not later";
  EXPECT_EQ(join_by(2, UINT32_MAX - 6), 1u) << "earlier";
  EXPECT_EQ(drops(DropReason::kDuplicate), 2u);
  EXPECT_EQ(join_by(2, 10), 2u);
  EXPECT_EQ(join_by(1, 9), 2u) << "it took longer on its way";
  EXPECT_EQ(parts.bundles.associations().size(), 1u) << "the first has ended";
}

// --- Leaving ---------------------------------------------------------------------------------------------------------

TEST_F(AssociationJoinsTest, AnAssociationEndsWithItsLastSession) {
  SessionEntry& first = joined(kOther);
  SessionEntry& second = joined(kOther);
  Association* const both = first.association;
  ASSERT_EQ(second.association, both);
  for (SessionEntry* entry : {&first, &second}) {
    EXPECT_EQ(parts.bundles.associations().size(), 1u);
    parts.joins.leave(*entry);
    EXPECT_EQ(entry->association, nullptr);
    EXPECT_EQ(entry->next_join_ns, kTimeNever);
    EXPECT_FALSE(is_in(*entry));
    parts.joins.leave(*entry);
  }
  EXPECT_EQ(parts.bundles.associations().size(), 0u);
  parts.joins.join(first);
  EXPECT_NE(first.association, both) << "the address stays until the ended ones are buried";
}

TEST_F(AssociationJoinsTest, WhoLeaves_TakesItsCallsAlong_AndWhatWasWrittenIsSent) {
  SessionEntry& entry = joined(kOther);
  size_t completed = 0;
  for (int i = 0; i < 12; ++i) {
    CompletionFn completion = [&](CallOutcome&&) { ++completed; };
    CallId id;
    MessagePtr request = MessagePtr::copy_of(as_byte_span("asks"));
    if (outgoing.call_small(entry.handle(), 9, SentMessage(request), {}, completion, id)) continue;
    ASSERT_TRUE(outgoing.call_large(entry.handle(), 9, request, {}, completion).ok());
  }
  ASSERT_EQ(entry.session->hot().small_count, 8u);
  const Association& a = *entry.association;
  parts.joins.leave(entry);
  EXPECT_EQ(entry.session->hot().small_count, 0u);
  EXPECT_EQ(entry.session->outstanding_calls(), 12u);
  EXPECT_EQ(a.in_flight, 0u);
  size_t records = 0;
  for (const SentBundle& bundle : wire.bundles) records += bundle.records.size();
  EXPECT_EQ(records, 8u) << "the peer may run them";
  parts.lives.abort_all(why);
  outgoing.run_completions();
  EXPECT_EQ(completed, 12u);
}

/// It had an sslot, but no credit for a small call.
TEST_F(AssociationJoinsTest, WhoLeaves_StartsTheCallsThatWaited) {
  SessionEntry& entry = joined(kOther);
  SessionHot& hot = entry.session->hot();
  hot.credits_barred = hot.credits;
  MessagePtr request = MessagePtr::copy_of(as_byte_span("asks"));
  CompletionFn completion = [](CallOutcome&&) {};
  ASSERT_TRUE(outgoing.call_large(entry.handle(), 9, request, {}, completion).ok());
  const auto large = [&hot] {
    return std::count_if(hot.client, hot.client + hot.window(),
                         [](const ClientSlot& slot) { return slot.state == ClientSlot::State::kLarge; });
  };
  EXPECT_EQ(large(), 0);
  parts.joins.leave(entry);
  EXPECT_EQ(large(), 1);
}

/// The opener does not receive what was sent through the association before.
TEST_F(AssociationJoinsTest, AfterALaterJoin_CallsAreSentAgain) {
  SessionEntry& entry = joined_by(kOther);
  entry.session->make_slots();
  CompletionFn completion = [](CallOutcome&&) {};
  CallId id;
  ASSERT_TRUE(outgoing.call_small(entry.handle(), 9, SentBytes(as_byte_span("asks")), {}, completion, id));
  EXPECT_EQ(sent_records().size(), 1u);
  parts.pass(kMicrosecond);
  JoinRecord later = peers_join(entry);
  later.association += 1;
  receive_join(kOther, join_record(RecordKind::kJoin, 0, entry.index, later), to_ticks(context.now_ns));
  EXPECT_EQ(entry.association->remote_index, later.association);
  EXPECT_EQ(sent_packets(PacketType::kRequest).size(), 1u);
}

// --- What an association is like -------------------------------------------------------------------------------------

TEST_F(AssociationJoinsTest, BundlesFitThePathsOfAllSessions) {
  SessionEntry& wide = opened(kOther, 40);
  SessionEntry& narrow = opened(kOther, 41);
  SessionTerms terms = narrow.session->terms();
  terms.payload_bytes = 600;
  parts.lives.open(narrow, terms);
  parts.joins.join(wide);
  EXPECT_EQ(wide.association->bundle_bytes_max, 1000 + kPacketHeaderBytes);
  parts.joins.join(narrow);
  EXPECT_EQ(wide.association->bundle_bytes_max, 600 + kPacketHeaderBytes);
  parts.joins.join(opened(kOther, 42));
  EXPECT_EQ(wide.association->bundle_bytes_max, 600 + kPacketHeaderBytes);
}

TEST_F(AssociationJoinsTest, OnlyWhereBundlesGetLost_TheyAreRemembered) {
  SessionEntry& entry = joined(kOther);
  EXPECT_NE(entry.association->sent, nullptr);
  EXPECT_EQ(entry.association->probe_ticks, to_ticks(context.options.protocol.rto_initial_ns));
  SessionEntry& accepted = joined_by(kOther + 1);
  EXPECT_NE(accepted.association->sent, nullptr);
}

class StreamJoinsTest : public ::testing::Test {
 protected:
  struct Stream : FramedWire {
    Stream() { capabilities_.reliable = true; }
  };
  Stream wire;
  SessionParts parts{wire};
};

TEST_F(StreamJoinsTest, OnAStream_NothingIsRemembered) {
  SessionEntry& entry = parts.dialled(kOther);
  parts.joins.join(entry);
  EXPECT_EQ(entry.association->probe_ticks, to_ticks(parts.context.options.protocol.ping_after_ns));
  const std::string answer =
      bytes_of({.generation = entry.wire_generation, .association = 1, .epoch = 2, .session = 3});
  const RawRecord record{.session = entry.session->hot().handle,
                         .number = 0,
                         .rest = uint32_t{JoinRecord::kBytes} | static_cast<uint32_t>(RecordKind::kJoined) << 12};
  parts.joins.on_record({.association = entry.association->index, .epoch = entry.association->epoch}, record,
                        as_byte_span(answer), kOther);
  EXPECT_EQ(entry.session->hot().association, entry.association);
  EXPECT_EQ(entry.association->sent, nullptr);
  parts.joins.leave(entry);
}

}  // namespace
}  // namespace skua::rpc::testing
