// How sessions join associations, and who may not.
#include "tests/rpc/endpoint/small_calls_net.h"

namespace skua::rpc::testing {
namespace {

class SmallCallsJoinTest : public SmallCallsNet {};

// --- Joining ---------------------------------------------------------------------------------------------------------

TEST_F(SmallCallsJoinTest, ASession_JoinsAndItsCallsGoInBundles) {
  start();
  run_until_joined();
  ASSERT_TRUE(echoes("the first makes the sslots"));
  packets_.clear();
  ASSERT_TRUE(echoes("a small one"));
  EXPECT_EQ(packets_.size(), 0u);
  EXPECT_EQ(records(RecordKind::kRequest), 1u);
  EXPECT_EQ(records(RecordKind::kResponse), 1u);
  run_for(kSecond);
  EXPECT_EQ(joins_, 1) << "a join that was answered is not repeated";
  expect_rest();
}

TEST_F(SmallCallsJoinTest, ASession_WorksBeforeItHasJoined) {
  loses_bundles_ = true;
  start();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(echoes("in packets"));
  EXPECT_EQ(records_.size(), 0u);
  run_for(kSecond);
  EXPECT_GE(joins_, 10) << "it asks again and again";
  loses_bundles_ = false;
  run_until_joined();
  EXPECT_TRUE(echoes("in a bundle"));
  EXPECT_EQ(records(RecordKind::kRequest), 1u);
  expect_rest();
}

TEST_F(SmallCallsJoinTest, TheAnswerToAJoin_IsRepeatedUntilItComes) {
  loses_answers_ = true;
  start();
  run_for(250 * kMillisecond);
  EXPECT_EQ(joined_, 0);
  loses_answers_ = false;
  run_until_joined();
  EXPECT_TRUE(echoes("makes the sslots"));
  EXPECT_TRUE(echoes("in a bundle"));
  EXPECT_EQ(records(RecordKind::kRequest), 1u);
}

TEST_F(SmallCallsJoinTest, ASessionWhoseAcceptorDoesNotKnowBundles_NeverAsks) {
  server_options_.bundles = false;
  start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(echoes("old"));
  run_for(kSecond);
  EXPECT_EQ(joins_ + static_cast<int>(records_.size()), 0);
  expect_rest();
}

TEST_F(SmallCallsJoinTest, ASessionWhoseOpenerDoesNotKnowBundles_NeverAsks) {
  caller_options_.bundles = false;
  start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(echoes("old"));
  run_for(kSecond);
  EXPECT_EQ(joins_ + static_cast<int>(records_.size()), 0);
  expect_rest();
}

TEST_F(SmallCallsJoinTest, SeveralSessions_ShareOneAssociation) {
  join();
  std::vector<SessionId> sessions = {session_};
  for (int i = 0; i < 3; ++i) sessions.push_back(caller_->connect(server_transport_->local_descriptor()).value());
  run([&] { return joined_ == 4; });
  for (const SessionId session : sessions) {
    session_ = session;
    EXPECT_TRUE(echoes("makes the sslots"));
  }
  run_for(10 * kMillisecond);
  std::vector<Ended*> calls;
  for (int i = 0; i < 16; ++i) {
    session_ = sessions[static_cast<size_t>(i) % sessions.size()];
    calls.push_back(&call(kEcho, "together"));
  }
  const uint64_t before = caller_->counters().packets_sent;
  run([&] { return std::all_of(calls.begin(), calls.end(), [](const Ended* one) { return one->completions > 0; }); });
  EXPECT_LE(caller_->counters().packets_sent, before + 6) << "of 16 calls, several share a bundle";
  expect_rest();
}

/// The acceptor's end of the association is gone, and the opener has other sessions in it that do not know.
TEST_F(SmallCallsJoinTest, AfterTheAcceptorRestarted_AllSessionsJoinAgain) {
  caller_options_.protocol.peer_timeout_ns = 2 * kSecond;
  join();
  const SessionId other = caller_->connect(server_transport_->local_descriptor()).value();
  run([&] { return joined_ == 2; });
  server_.reset();
  server_transport_.reset();
  server_transport_ = network_.attach(kServerAddress, identity(2, 2), {});
  server_options_.simulation_seed = 40;
  start_server();
  for (const SessionId session : {session_, other}) {
    session_ = session;
    for (int tries = 0; tries < 5 && !echoes("whose session the new one does not know"); ++tries) {
      run_for(10 * kMillisecond);
    }
  }
  run_for(kSecond);
  for (const SessionId session : {session_, other}) {
    session_ = session;
    EXPECT_TRUE(echoes("makes the sslots"));
    records_.clear();
    EXPECT_TRUE(echoes("in a bundle"));
    EXPECT_EQ(records(RecordKind::kRequest), 1u);
  }
  expect_rest();
}

TEST_F(SmallCallsJoinTest, TheAcceptor_CallsItsCallerInTheSameAssociation) {
  join();
  int completed = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(server_
                    ->call(last_caller_, kEcho, MessagePtr::copy_of(as_byte_span("back")), {},
                           [&](CallResult&& result) {
                             ++completed;
                             EXPECT_EQ(as_string_view(result.response.bytes()), "back");
                           })
                    .ok());
    run([&] { return completed == i + 1; });
  }
  EXPECT_EQ(records(RecordKind::kRequest), 2u) << "its sslots are there: it was called";
  expect_rest();
}

// --- Foreign joins ---------------------------------------------------------------------------------------------------

class ForeignJoinTest : public SmallCallsJoinTest {
 protected:
  ForeignJoinTest() {
    loses_bundles_ = true;
    caller_ = std::make_unique<Endpoint>(*caller_transport_, network_.clock(), caller_options_);
    start_server();
    auto offer = caller_->begin_connect(server_transport_->local_descriptor()).value();
    session_ = offer.session;
    const std::string answer = server_->accept_offer(as_byte_span(offer.bytes));
    answer_ = SessionAnswer::decode(as_byte_span(answer)).value();
    EXPECT_TRUE(caller_->finish_connect(session_, as_byte_span(answer)).ok());
    EXPECT_TRUE(echoes("the server knows whose session it is"));
    EndpointOptions options = caller_options_;
    options.bundles = false;  // or it joins
    stranger_ = std::make_unique<Endpoint>(*stranger_transport_, network_.clock(), options);
    const SessionId known = stranger_->connect(server_transport_->local_descriptor()).value();
    run([&] {
      stranger_->poll();
      return stranger_->is_connected(known);
    });
    loses_bundles_ = false;
  }
  ~ForeignJoinTest() override { stranger_.reset(); }

  void send_join(SimTransport& from, uint32_t generation) {
    Record join;
    join.head = {0, answer_.session_index, JoinRecord::kBytes, RecordKind::kJoin};
    std::byte bytes[JoinRecord::kBytes];
    JoinRecord{generation, 1, 2, session_handle(3, 4)}.write(bytes);
    join.bytes = as_string_view(bytes);
    send(from, *server_transport_, seal({.flags = bundle_flags::kNoEcho, .records = 1}, false, encode_records({join})));
  }

  std::unique_ptr<SimTransport> stranger_transport_ = network_.attach(3, identity(3), {});
  std::unique_ptr<Endpoint> stranger_;
  SessionAnswer answer_;
};

TEST_F(ForeignJoinTest, OfAStrangerThatKnowsTheNumbers_IsRefused) {
  const uint64_t before = drops(*server_, DropReason::kForeignSender);
  send_join(*stranger_transport_, answer_.session_generation);
  EXPECT_EQ(drops(*server_, DropReason::kForeignSender), before + 1);
  EXPECT_EQ(joined_, 0) << "and is not answered";
  run_until_joined();  // the caller itself
  EXPECT_TRUE(echoes("in a bundle"));
  EXPECT_EQ(records(RecordKind::kResponse), 1u);
}

TEST_F(ForeignJoinTest, OfAnotherGeneration_IsRefused) {
  const uint64_t before = drops(*server_, DropReason::kOldGeneration);
  send_join(*caller_transport_, answer_.session_generation - 1);
  EXPECT_EQ(drops(*server_, DropReason::kOldGeneration), before + 1);
  EXPECT_EQ(joined_, 0);
}

TEST_F(ForeignJoinTest, OfASessionThatIsNoneHere_IsRefused) {
  answer_.session_index = 1'000'000;
  const uint64_t before = drops(*server_, DropReason::kUnknownSession);
  send_join(*caller_transport_, answer_.session_generation);
  EXPECT_EQ(drops(*server_, DropReason::kUnknownSession), before + 1);
}

TEST_F(ForeignJoinTest, SentBeforeTheOneThatCounts_ChangesNothing) {
  run_until_joined();
  EXPECT_TRUE(echoes("in a bundle"));
  // Of the session's peer, with the right generation, and a time stamp of long ago.
  send_join(*caller_transport_, answer_.session_generation);
  records_.clear();
  EXPECT_TRUE(echoes("in a bundle"));
  EXPECT_EQ(records(RecordKind::kResponse), 1u);
}

// --- Foreign answers to joins ----------------------------------------------------------------------------------------

TEST_F(SmallCallsJoinTest, AnAnswer_ThatNamesNoSessionIsRefused) {
  join();
  Record joined;
  joined.bytes.assign(JoinRecord::kBytes, '\xff');
  const uint64_t before = drops(*caller_, DropReason::kUnknownAssociation);
  uint64_t sent = 0;
  for (const uint32_t session :
       {UINT32_MAX, 0u, 1u, session_handle(kRecordSessionsMax - 1, 0), session_handle(0, 77)}) {
    joined.head = {session, 0, JoinRecord::kBytes, RecordKind::kJoined};
    BundleHead head = to_caller_;
    head.records = 1;
    ++head.sequence;
    send(*server_transport_, *caller_transport_, seal(head, false, encode_records({joined})));
    EXPECT_EQ(drops(*caller_, DropReason::kUnknownAssociation), before + ++sent) << session;
  }
  EXPECT_TRUE(echoes("the session stands"));
}

}  // namespace
}  // namespace skua::rpc::testing
