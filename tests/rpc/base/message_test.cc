#include "rpc/base/message.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

using Pieces = std::array<ByteSpan, Message::kBodiesMax + 1>;

std::string joined(const Message& message, size_t offset, size_t length) {
  Pieces pieces;
  std::string out;
  const size_t count = message.slice(offset, length, pieces);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_FALSE(pieces[i].empty());
    out += as_string_view(pieces[i]);
  }
  return out;
}

void count_release(void* context) {
  ++*static_cast<int*>(context);
}

TEST(Message, AppendHead_FillsUpTo256Bytes) {
  const MessagePtr message = MessagePtr::make();
  EXPECT_EQ(message->size(), 0u);
  EXPECT_TRUE(message->append_head(as_byte_span(std::string(255, 'a'))));
  EXPECT_FALSE(message->append_head(as_byte_span("bc")));
  EXPECT_EQ(message->size(), 255u);
  EXPECT_TRUE(message->append_head(as_byte_span("b")));
  EXPECT_TRUE(message->append_head({}));
  EXPECT_EQ(message->head().size(), Message::kHeadMax);
}

TEST(Message, SetHeadSize_AfterWritingInPlace) {
  const MessagePtr message = MessagePtr::make();
  copy_bytes(message->head_room().data(), as_byte_span("hello"));
  message->set_head_size(5);
  EXPECT_EQ(as_string_view(message->head()), "hello");
}

TEST(MessageDeathTest, SetHeadSize_TooLarge) {
  const MessagePtr message = MessagePtr::make();
  EXPECT_DEATH(message->set_head_size(257), "256 bytes");
}

TEST(Message, AddBody_UpToFourAndThenRefuses) {
  int released = 0;
  const std::string bytes = "body";
  {
    const MessagePtr message = MessagePtr::make();
    for (size_t i = 0; i < Message::kBodiesMax; ++i) {
      EXPECT_TRUE(message->add_body(as_byte_span(bytes), count_release, &released));
    }
    EXPECT_FALSE(message->add_body(as_byte_span(bytes), count_release, &released));
    EXPECT_EQ(released, 0);
    EXPECT_EQ(message->size(), 16u);
    EXPECT_EQ(message->body_count(), 4u);
    EXPECT_EQ(message->body(2).data(), as_byte_span(bytes).data());  // sent from where it lies
  }
  EXPECT_EQ(released, 4);
}

TEST(Message, AppendCopy_HeadFirstThenBody) {
  const MessagePtr message = MessagePtr::make();
  message->append_copy(as_byte_span("small"));
  EXPECT_EQ(message->body_count(), 0u);
  const std::string large(1000, 'x');
  message->append_copy(as_byte_span(large));
  EXPECT_EQ(message->body_count(), 1u);
  message->append_copy(as_byte_span("tail"));  // behind a body, so it cannot go into the head
  EXPECT_EQ(joined(*message, 0, message->size()), "small" + large + "tail");
}

TEST(Message, Slice_EveryCutAgreesWithTheWhole) {
  Rng rng(6);
  for (int round = 0; round < 200; ++round) {
    const MessagePtr message = MessagePtr::make();
    std::vector<std::string> parts(1 + rng.below(Message::kBodiesMax + 1));
    std::string whole;
    for (size_t i = 0; i < parts.size(); ++i) {
      for (uint64_t n = rng.below(9); n > 0; --n) parts[i].push_back(static_cast<char>('a' + rng.below(26)));
      whole += parts[i];
      const bool added = i == 0 ? message->append_head(as_byte_span(parts[i]))
                                : message->add_body(as_byte_span(parts[i]), nullptr, nullptr);
      ASSERT_TRUE(added);
    }
    for (size_t offset = 0; offset <= whole.size(); ++offset) {
      for (size_t length = 0; offset + length <= whole.size(); ++length) {
        ASSERT_EQ(joined(*message, offset, length), whole.substr(offset, length));
      }
    }
  }
}

TEST(Message, Slice_EmptyMessage) {
  const MessagePtr message = MessagePtr::make();
  Pieces pieces;
  EXPECT_EQ(message->slice(0, 0, pieces), 0u);
}

TEST(MessagePtr, Copy_BodiesAreReleasedWithTheLastHold) {
  int released = 0;
  const std::string bytes = "body";
  MessagePtr first = MessagePtr::make();
  ASSERT_TRUE(first->add_body(as_byte_span(bytes), count_release, &released));
  MessagePtr second = first;
  MessagePtr third = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what a moved-from hold is
  second.reset();
  EXPECT_EQ(released, 0);
  const MessagePtr& same = third;
  third = same;
  EXPECT_EQ(released, 0);
  third = MessagePtr();
  EXPECT_EQ(released, 1);
}

TEST(MessagePtr, LeakAndAdopt_KeepTheHold) {
  int released = 0;
  const std::string bytes = "body";
  MessagePtr message = MessagePtr::make();
  ASSERT_TRUE(message->add_body(as_byte_span(bytes), count_release, &released));
  Message* token = message.leak();
  EXPECT_FALSE(message);
  EXPECT_EQ(released, 0);
  MessagePtr::adopt(token).reset();
  EXPECT_EQ(released, 1);
}

TEST(MessagePtr, CopyOf_OwnsItsBytes) {
  MessagePtr message;
  {
    const std::string large(5000, 'q');
    message = MessagePtr::copy_of(as_byte_span(large));
  }
  EXPECT_EQ(joined(*message, 4999, 1), "q");
}

TEST(MessagePool, Make_RecyclesCleanMessages) {
  MessagePool pool(2);
  int released = 0;
  const std::string bytes = "body";
  Message* address;
  {
    const MessagePtr message = pool.make();
    address = message.get();
    ASSERT_TRUE(message->append_head(as_byte_span("old")));
    ASSERT_TRUE(message->add_body(as_byte_span(bytes), count_release, &released));
    EXPECT_EQ(pool.outstanding_count(), 1u);
  }
  EXPECT_EQ(pool.outstanding_count(), 0u);
  EXPECT_EQ(released, 1);
  const MessagePtr again = pool.make();
  EXPECT_EQ(again.get(), address);
  EXPECT_EQ(again->size(), 0u);
  EXPECT_EQ(again->body_count(), 0u);
}

TEST(MessagePool, Make_KeepsNoMoreThanAsked) {
  MessagePool pool(3);
  std::vector<MessagePtr> held;
  held.reserve(10);
  for (int i = 0; i < 10; ++i) held.push_back(pool.make());
  EXPECT_EQ(pool.outstanding_count(), 10u);
  held.clear();  // seven go back to the heap: the leak checker watches
  EXPECT_EQ(pool.outstanding_count(), 0u);
}

TEST(MessagePoolDeathTest, Destructor_MessageOutlivesIt) {
  EXPECT_DEATH(
      {
        MessagePtr message;
        MessagePool pool(1);
        message = pool.make();
      },
      "a message outlives its pool");
}

TEST(SharedBody, Attach_FreedWithTheLastOfMakerAndMessages) {
  SharedBody* body = SharedBody::make(std::string(1000, 's'));
  MessagePtr a = MessagePtr::make();
  MessagePtr b = MessagePtr::make();
  ASSERT_TRUE(body->attach(*a));
  ASSERT_TRUE(body->attach(*b));
  EXPECT_EQ(a->body(0).data(), b->body(0).data());
  body->release();
  a.reset();
  EXPECT_EQ(joined(*b, 999, 1), "s");
}

TEST(SharedBody, Attach_NoRoomLeavesTheCountAlone) {
  SharedBody* body = SharedBody::make("x");
  {
    const MessagePtr message = MessagePtr::make();
    for (size_t i = 0; i < Message::kBodiesMax; ++i) ASSERT_TRUE(body->attach(*message));
    EXPECT_FALSE(body->attach(*message));
  }
  const MessagePtr other = MessagePtr::make();
  ASSERT_TRUE(body->attach(*other));
  EXPECT_EQ(joined(*other, 0, 1), "x");
  body->release();
}

TEST(SharedBody, Attach_FromSeveralThreads) {
  SharedBody* body = SharedBody::make(std::string(100, 't'));
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([body] {
      for (int i = 0; i < 2000; ++i) {
        const MessagePtr message = MessagePtr::make();
        ASSERT_TRUE(body->attach(*message));
        ASSERT_EQ(message->body(0)[50], std::byte{'t'});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  body->release();
}

}  // namespace
}  // namespace skua::rpc
