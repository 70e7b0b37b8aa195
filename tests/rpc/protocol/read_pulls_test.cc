#include "rpc/protocol/read_pulls.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

/// Counts what is given back.
class Memory final : public LeaseOwner {
 public:
  void return_lease(uint64_t /*cookie*/) override { ++returned; }
  int returned = 0;
};

/// A peer's memory and a message to be put together here.
struct Message {
  std::string source;
  std::string into;
  ReadList list;

  Message(uint32_t head, std::vector<uint32_t> spans, uint64_t seed) {
    uint32_t total = head;
    for (const uint32_t bytes : spans) total += bytes;
    source.resize(total);
    for (uint32_t i = 0; i < total; ++i) source[i] = static_cast<char>(mix64(seed + i));
    into.assign(total, '?');
    list.connection = 5;
    list.head = as_byte_span(source).first(head);
    std::memcpy(into.data(), source.data(), head);
    uint32_t at = head;
    for (const uint32_t bytes : spans) {
      list.spans[list.span_count++] = {reinterpret_cast<uintptr_t>(source.data() + at), 9, bytes};
      at += bytes;
    }
  }
  std::byte* to() { return reinterpret_cast<std::byte*>(into.data()); }
};

void perform(const ReadPulls::Read& read) {
  EXPECT_EQ(read.from.key, 9u);
  EXPECT_EQ(read.connection, 5u);
  std::memcpy(read.to, reinterpret_cast<const void*>(read.from.address), read.from.bytes);
}

TEST(ReadPulls, OneMessage_InChunksOverItsSpans) {
  Memory memory;
  ReadPulls pulls({.reads_max = 16, .chunk_bytes = 100});
  Message message(7, {250, 100, 1}, 1);
  pulls.start(3, {1, 2, true, 4}, message.list, message.to(), Lease(as_byte_span(message.into), &memory, 0));
  std::vector<uint32_t> sizes;
  std::vector<uint64_t> cookies;
  ReadPulls::Read read;
  while (pulls.next(read)) {
    EXPECT_EQ(read.peer, 3u);
    perform(read);
    sizes.push_back(read.from.bytes);
    cookies.push_back(read.cookie);
  }
  EXPECT_EQ(sizes, (std::vector<uint32_t>{100, 100, 50, 100, 1}));
  for (size_t i = 0; i + 1 < cookies.size(); ++i) EXPECT_FALSE(pulls.on_completion(cookies[i], true).has_value());
  std::optional<ReadPulls::Finished> finished = pulls.on_completion(cookies.back(), true);
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(finished->ok);
  EXPECT_EQ(finished->owner.req_num, 4u);
  EXPECT_EQ(as_string_view(finished->message.bytes()), message.source);
  EXPECT_EQ(memory.returned, 0);
  EXPECT_EQ(pulls.size(), 0u);
}

TEST(ReadPulls, Failure_WaitsForWhatIsInFlightAndAsksForNoMore) {
  Memory memory;
  ReadPulls pulls({.reads_max = 2, .chunk_bytes = 10});
  Message message(0, {100}, 1);
  pulls.start(0, {}, message.list, message.to(), Lease(as_byte_span(message.into), &memory, 0));
  ReadPulls::Read first;
  ReadPulls::Read second;
  ReadPulls::Read third;
  ASSERT_TRUE(pulls.next(first) && pulls.next(second));
  EXPECT_FALSE(pulls.next(third)) << "two at a time";
  EXPECT_FALSE(pulls.on_completion(first.cookie, false).has_value());
  EXPECT_FALSE(pulls.next(third)) << "the message is over";
  EXPECT_EQ(memory.returned, 0) << "the device may still write";
  const std::optional<ReadPulls::Finished> finished = pulls.on_completion(second.cookie, true);
  ASSERT_TRUE(finished.has_value());
  EXPECT_FALSE(finished->ok);
}

TEST(ReadPulls, ForEachPeer_NamesThoseWithReadsInFlight) {
  Memory memory;
  ReadPulls pulls({.reads_max = 1, .chunk_bytes = 100});
  const auto peers = [&] {
    std::vector<uint32_t> out;
    pulls.for_each_peer([&](uint32_t peer) { out.push_back(peer); });
    return out;
  };
  Message first(0, {50}, 1);
  Message second(0, {50}, 2);
  pulls.start(7, {}, first.list, first.to(), Lease(as_byte_span(first.into), &memory, 0));
  pulls.start(8, {}, second.list, second.to(), Lease(as_byte_span(second.into), &memory, 0));
  EXPECT_TRUE(peers().empty()) << "nothing was asked for yet";
  ReadPulls::Read read;
  ASSERT_TRUE(pulls.next(read));
  EXPECT_EQ(peers(), std::vector<uint32_t>{7});
  ASSERT_TRUE(pulls.on_completion(read.cookie, true).has_value());
  EXPECT_TRUE(peers().empty());
  ASSERT_TRUE(pulls.next(read));
  EXPECT_EQ(peers(), std::vector<uint32_t>{8});
  ASSERT_TRUE(pulls.on_completion(read.cookie, true).has_value());
}

TEST(ReadPulls, LateCompletion_DoesNotTouchTheNextMessage) {
  Memory memory;
  ReadPulls pulls({.reads_max = 4, .chunk_bytes = 100});
  Message message(0, {50}, 1);
  pulls.start(0, {0, 0, true, 1}, message.list, message.to(), Lease(as_byte_span(message.into), &memory, 0));
  ReadPulls::Read old;
  ASSERT_TRUE(pulls.next(old));
  ASSERT_TRUE(pulls.on_completion(old.cookie, true).has_value());
  pulls.start(0, {0, 0, true, 2}, message.list, message.to(), Lease(as_byte_span(message.into), &memory, 0));
  ReadPulls::Read current;
  ASSERT_TRUE(pulls.next(current));
  EXPECT_FALSE(pulls.on_completion(old.cookie, true).has_value());
  EXPECT_FALSE(pulls.on_completion(UINT64_MAX, false).has_value());
  const auto finished = pulls.on_completion(current.cookie, true);
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->owner.req_num, 2u);
}

TEST(ReadPulls, SeveralMessages_TakeTurns) {
  ReadPulls pulls({.reads_max = 6, .chunk_bytes = 10});
  Message large(0, {1000}, 1);
  Message small(0, {20}, 2);
  pulls.start(1, {}, large.list, large.to(), Lease());
  pulls.start(2, {}, small.list, small.to(), Lease());
  std::vector<uint32_t> peers;
  std::vector<uint64_t> cookies;
  ReadPulls::Read read;
  while (pulls.next(read)) {
    peers.push_back(read.peer);
    cookies.push_back(read.cookie);
  }
  EXPECT_EQ(peers, (std::vector<uint32_t>{1, 2, 1, 2, 1, 1}));
  for (const uint64_t cookie : cookies) static_cast<void>(pulls.on_completion(cookie, false));
}

/// Random sizes, posts that are refused, completions in any order and failures: what is reported whole is whole.
TEST(ReadPulls, Random) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    Memory memory;
    ReadPulls pulls({.reads_max = static_cast<uint32_t>(rng.between(1, 8)),
                     .chunk_bytes = static_cast<uint32_t>(rng.between(1, 300))});
    std::map<uint32_t, std::unique_ptr<Message>> messages;
    std::vector<ReadPulls::Read> in_flight;
    uint32_t started = 0;
    size_t finished_count = 0;
    while (finished_count < 40) {
      if (started < 40 && rng.chance(0.3)) {
        std::vector<uint32_t> spans(rng.between(1, 4));
        for (uint32_t& bytes : spans) bytes = static_cast<uint32_t>(rng.between(1, 900));
        auto message = std::make_unique<Message>(static_cast<uint32_t>(rng.below(50)), spans, rng.next());
        pulls.start(0, {0, 0, false, started}, message->list, message->to(),
                    Lease(as_byte_span(message->into), &memory, 0));
        messages[started++] = std::move(message);
      }
      if (ReadPulls::Read read; rng.chance(0.6) && pulls.next(read)) {
        if (rng.chance(0.2)) {
          pulls.take_back(read);
        } else {
          in_flight.push_back(read);
        }
      }
      if (!in_flight.empty() && rng.chance(0.5)) {
        const size_t pick = rng.below(in_flight.size());
        const bool ok = !rng.chance(0.01);
        if (ok) perform(in_flight[pick]);
        auto finished = pulls.on_completion(in_flight[pick].cookie, ok);
        in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(pick));
        if (finished.has_value()) {
          ++finished_count;
          const Message& message = *messages.at(finished->owner.req_num);
          if (finished->ok) {
            ASSERT_TRUE(message.into == message.source) << "seed " << seed;
          }
        }
      }
    }
    EXPECT_EQ(pulls.size(), 0u);
    EXPECT_EQ(pulls.reads_in_flight(), 0u);
    EXPECT_EQ(memory.returned, 40);
  }
}

}  // namespace
}  // namespace skua::rpc
