#include "rpc/transport/verbs/rc_join.h"

#include <gtest/gtest.h>

#include <vector>

namespace skua::rpc::verbs {
namespace {

using State = ConnectMessage::State;

JoinMessage example() {
  JoinMessage out;
  out.process = 0x1122334455667788;
  out.state = State::kReady;
  out.generation = 71;
  out.echo = 15;
  out.pair = ConnectMessage{State::kOpen, 16, 0x123456, 0x654321, 710, 150};
  return out;
}

std::optional<JoinMessage> decode_with(size_t at, uint8_t value) {
  auto bytes = example().encode();
  bytes.at(at) = std::byte{value};
  return JoinMessage::decode(bytes);
}

TEST(JoinMessage, EncodesWithAndWithoutAPair) {
  const auto bytes = example().encode();
  EXPECT_TRUE(JoinMessage::is_one(bytes));
  EXPECT_FALSE(ConnectMessage::is_one(bytes));
  EXPECT_FALSE(ConnectMessage::decode(bytes).has_value());
  EXPECT_EQ(JoinMessage::decode(bytes), example());
  JoinMessage alone = example();
  alone.pair.reset();
  EXPECT_EQ(JoinMessage::decode(alone.encode()), alone);
  EXPECT_FALSE(JoinMessage::is_one(ConnectMessage{State::kOpen, 1, 2, 3, 4, 5}.encode()));
}

TEST(JoinMessage, RejectsWhatEncodeDoesNotProduce) {
  const auto bytes = example().encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(JoinMessage::decode(ByteSpan(bytes).first(size)).has_value()) << size;
  }
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back({});
  EXPECT_FALSE(JoinMessage::decode(longer).has_value());
  EXPECT_FALSE(decode_with(0, 0).has_value()) << "magic";
  EXPECT_FALSE(decode_with(8, 2).has_value()) << "version";
  EXPECT_FALSE(decode_with(9, 0).has_value()) << "state";
  EXPECT_FALSE(decode_with(9, 4).has_value()) << "state";
  EXPECT_FALSE(decode_with(10, 0).has_value()) << "no pair, and words about it";
  EXPECT_FALSE(decode_with(10, 4).has_value()) << "the pair's state";
  EXPECT_FALSE(decode_with(11, 0).has_value()) << "READs";
  EXPECT_FALSE(decode_with(15, 1).has_value()) << "QP number";
  EXPECT_FALSE(decode_with(19, 1).has_value()) << "PSN";
  EXPECT_FALSE(decode_with(20, 1).has_value()) << "zeros";
  JoinMessage nobody = example();
  nobody.process = 0;
  EXPECT_FALSE(JoinMessage::decode(nobody.encode()).has_value());
  nobody = example();
  nobody.pair->generation = 0;
  EXPECT_FALSE(JoinMessage::decode(nobody.encode()).has_value());
}

TEST(JoinMessage, IsSettledWhenBothStand) {
  JoinMessage message = example();
  EXPECT_FALSE(message.is_settled());
  message.pair->state = State::kReady;
  EXPECT_TRUE(message.is_settled());
  message.state = State::kOpen;
  EXPECT_FALSE(message.is_settled());
  message = example();
  message.pair.reset();
  EXPECT_FALSE(message.is_settled());
}

TEST(JoinSchedule, SaysItAgainLessAndLessOftenAndGivesUp) {
  JoinSchedule schedule;
  TimeNs now = kSecond;
  schedule.begin(now);
  DurationNs pause = JoinSchedule::kRepeatFirst;
  for (uint32_t i = 0; i < JoinSchedule::kTries; ++i, pause *= 2) {
    EXPECT_FALSE(schedule.is_over(now));
    EXPECT_TRUE(schedule.due(now));
    EXPECT_FALSE(schedule.due(now)) << "once";
    EXPECT_EQ(schedule.next_due_ns(), now + pause);
    EXPECT_FALSE(schedule.due(now + pause - 1));
    now += pause;
  }
  EXPECT_FALSE(schedule.due(now));
  EXPECT_TRUE(schedule.is_over(now));
  schedule.begin(now);
  EXPECT_TRUE(schedule.due(now));
}

TEST(JoinSchedule, AnswersNowAndThen) {
  JoinSchedule schedule;
  schedule.begin(kSecond);
  EXPECT_TRUE(schedule.may_answer(kSecond));
  EXPECT_FALSE(schedule.may_answer(kSecond + JoinSchedule::kAnswerEvery - 1));
  EXPECT_TRUE(schedule.may_answer(kSecond + JoinSchedule::kAnswerEvery));
}

}  // namespace
}  // namespace skua::rpc::verbs
