// TxQueue against a plain string, and the fate of tokens.
#include "rpc/transport/tcp/tx_queue.h"

#include <set>

#include "gtest/gtest.h"
#include "rpc/base/rng.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

constexpr uint32_t kFrameBytes = kFrameRoomMax + kFrameBytesMax;
constexpr TxQueue::Limits kLimits = {.bytes_max = 1 << 20, .inline_max_bytes = 256, .frame_bytes = kFrameBytes};

const Dialect& v1() {
  return builtin_dialects().front();
}

// A later version with a frame of another size: 4 bytes of mark, 8 of length.
void pack_v2(std::byte* to, const FramePrefix& prefix) {
  store_le(to, uint32_t{0x32323232});
  store_le(to + 4, uint64_t{prefix.payload_bytes});
}
bool unpack_v2(const std::byte* from, FramePrefix& prefix) {
  prefix = {.payload_bytes = static_cast<uint32_t>(load_le<uint64_t>(from + 4))};
  return load_le<uint32_t>(from) == 0x32323232;
}
constexpr Dialect kV2 = {2, 12, false, pack_v2, unpack_v2};

std::string frame_of(const TxPacket& packet, const Dialect& dialect) {
  std::array<std::byte, kFrameBytesMax> frame;
  dialect.pack(frame.data(), {.payload_bytes = packet.payload_bytes});
  std::string out(as_string_view(ByteSpan(frame).first(dialect.frame_bytes)));
  out += as_string_view(packet.header);
  for (size_t i = 0; i < packet.segment_count; ++i) out += as_string_view(packet.segments[i]);
  return out;
}

/// Takes up to `bytes` off the queue, as a write would.
std::string take(TxQueue& queue, size_t bytes, size_t pieces_max, TxCompletions& completions) {
  std::vector<iovec> pieces(pieces_max);
  const TxQueue::Run run = queue.gather(pieces, false);
  std::string out;
  for (size_t i = 0; i < run.count && out.size() < bytes; ++i) {
    const size_t part = std::min(pieces[i].iov_len, bytes - out.size());
    out.append(static_cast<const char*>(pieces[i].iov_base), part);
  }
  EXPECT_LE(out.size(), run.bytes);
  ZeroCopySends none;
  queue.consume(out.size(), false, none, completions);
  return out;
}

std::vector<TxToken> reap_all(TxCompletions& completions) {
  std::vector<TxToken> tokens(10'000);
  tokens.resize(completions.reap(tokens));
  return tokens;
}

TEST(TxQueue, SmallPackets_AreOnePiece) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  TransportCounters counters;
  const std::string payload = "abc";
  std::string expected;
  for (uint64_t i = 0; i < 100; ++i) {
    TxPacket packet = TestNode::make_packet(0, i, payload, i + 1);
    ASSERT_TRUE(queue.push(packet, 0, {.dialect = &v1()}, completions, counters));
    EXPECT_TRUE(packet.done);
    expected += frame_of(packet, v1());
  }
  std::array<iovec, 8> pieces;
  const TxQueue::Run run = queue.gather(pieces, false);
  EXPECT_EQ(run.count, 1U);
  EXPECT_EQ(run.bytes, expected.size());
  EXPECT_EQ(take(queue, run.bytes, 8, completions), expected);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(reap_all(completions).empty());
  EXPECT_EQ(counters.tx_packets, 100U);
  EXPECT_EQ(counters.tx_copied_bytes, 300U);
}

TEST(TxQueue, GatheredSegment_CompletesWhenFullyWritten) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  TransportCounters counters;
  const std::string body = random_text(1000, 1);
  TxPacket packet = TestNode::make_packet(0, 1, body, 42);
  completions.begin_burst({&packet, 1});
  ASSERT_TRUE(queue.push(packet, 0, {.dialect = &v1()}, completions, counters));
  EXPECT_FALSE(packet.done);
  std::array<iovec, 8> pieces;
  ASSERT_EQ(queue.gather(pieces, false).count, 2U);
  EXPECT_EQ(pieces[1].iov_base, body.data()) << "not copied";
  completions.end_burst();
  (void)take(queue, 40 + 999, 8, completions);
  EXPECT_TRUE(reap_all(completions).empty());
  (void)take(queue, 1, 8, completions);
  EXPECT_EQ(reap_all(completions), std::vector<TxToken>{42});
  EXPECT_EQ(counters.tx_zero_copy_bytes, 1000U);
}

TEST(TxQueue, WrittenWithinItsBurst_IsDoneInsteadOfReaped) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  TransportCounters counters;
  const std::string body = random_text(1000, 1);
  std::array<TxPacket, 2> packets = {TestNode::make_packet(0, 1, body, 7), TestNode::make_packet(0, 2, body, 8)};
  completions.begin_burst(packets);
  for (uint8_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(queue.push(packets[i], i, {.dialect = &v1()}, completions, counters));
  }
  (void)take(queue, 1040, 8, completions);
  completions.end_burst();
  EXPECT_TRUE(packets[0].done);
  EXPECT_FALSE(packets[1].done);
  // The next burst's packet 1 is another one.
  std::array<TxPacket, 2> later = {TestNode::make_packet(0, 3, body), TestNode::make_packet(0, 4, body)};
  completions.begin_burst(later);
  (void)take(queue, 1040, 8, completions);
  EXPECT_FALSE(later[1].done);
  EXPECT_EQ(reap_all(completions), std::vector<TxToken>{8});
}

TEST(TxQueue, Full_RefusesAndChangesNothing) {
  TxQueue queue({.bytes_max = 5000, .inline_max_bytes = 256});
  TxCompletions completions;
  TransportCounters counters;
  const std::string body = random_text(4000, 1);
  TxPacket packet = TestNode::make_packet(0, 1, body, 1);
  EXPECT_TRUE(queue.push(packet, 0, {.dialect = &v1()}, completions, counters));
  EXPECT_TRUE(queue.push(packet, 0, {.dialect = &v1()}, completions, counters)) << "one may overshoot";
  const size_t bytes = queue.bytes();
  EXPECT_FALSE(queue.push(packet, 0, {.dialect = &v1()}, completions, counters));
  EXPECT_EQ(queue.bytes(), bytes);
  EXPECT_EQ(counters.tx_packets, 2U);
}

TEST(TxQueue, Drop_CompletesEveryToken) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  TransportCounters counters;
  const std::string body = random_text(1000, 1);
  for (TxToken token = 1; token <= 3; ++token) {
    TxPacket packet = TestNode::make_packet(0, token, body, token);
    ASSERT_TRUE(queue.push(packet, 0, {.dialect = &v1()}, completions, counters));
  }
  (void)take(queue, 500, 8, completions);
  queue.drop(nullptr, completions);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(reap_all(completions), (std::vector<TxToken>{1, 2, 3}));
  TxPacket packet = TestNode::make_packet(0, 9, body, 9);
  EXPECT_TRUE(queue.push(packet, 0, {.dialect = &v1()}, completions, counters)) << "usable again";
  EXPECT_EQ(take(queue, 2000, 8, completions), frame_of(packet, v1()));
}

TEST(TxQueue, Repack_TurnsProvisionalFramesIntoTheChosenVersion) {
  for (const bool back : {false, true}) {
    const Dialect& from = back ? v1() : kV2;
    const Dialect& to = back ? kV2 : v1();
    TxQueue queue(kLimits);
    TxCompletions completions;
    TransportCounters counters;
    const std::string small = "xyz";
    const std::string large = random_text(3000, 2);
    std::string expected;
    for (uint64_t i = 0; i < 20; ++i) {
      TxPacket packet = TestNode::make_packet(0, i, i % 2 == 0 ? small : large);
      ASSERT_TRUE(queue.push(packet, 0, {.dialect = &from, .provisional = true}, completions, counters));
      expected += frame_of(packet, to);
    }
    queue.repack(from, to);
    EXPECT_EQ(queue.bytes(), expected.size());
    TxPacket packet = TestNode::make_packet(0, 99, small);
    ASSERT_TRUE(queue.push(packet, 0, {.dialect = &to}, completions, counters));
    expected += frame_of(packet, to);
    std::string got;
    while (!queue.empty()) got += take(queue, 777, 5, completions);
    EXPECT_EQ(got, expected);
  }
}

TEST(TxQueue, ReservedRoom_IsThereWhateverIsPushed) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  TransportCounters counters;
  const std::string payload = random_text(250, 1);
  const std::string bytes = random_text(kFrameBytes, 2);
  std::string expected;
  std::string got;
  for (int round = 0; round < 20; ++round) {
    size_t reserved = 0;
    while (queue.has_room_for_burst()) {
      queue.reserve_frame();
      ++reserved;
    }
    ASSERT_GT(reserved, 0U);
    TxPacket packet = TestNode::make_packet(0, 1, payload);
    while (queue.push(packet, 0, {.dialect = &v1()}, completions, counters)) expected += frame_of(packet, v1());
    for (; reserved > 0; --reserved) {
      queue.give_up_frame();
      queue.push_frame(as_byte_span(bytes));
      expected += bytes;
    }
    EXPECT_FALSE(queue.has_room_for_burst());
    // Not to the end, so that the ring wraps everywhere.
    while (queue.bytes() > 50'000 + 1000 * static_cast<size_t>(round)) got += take(queue, 7777, 5, completions);
  }
  while (!queue.empty()) got += take(queue, 100'000, 64, completions);
  EXPECT_TRUE(got == expected);
}

TEST(TxQueue, ReservedRoom_OutlivesADrop) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  queue.reserve_frame();
  queue.drop(nullptr, completions);
  queue.give_up_frame();
  queue.push_frame(as_byte_span(std::string_view("bytes")));
  EXPECT_EQ(take(queue, 5, 1, completions), "bytes");
}

TEST(TxQueue, LargeSegments_AreRunsOfTheirOwnAndWaitForTheKernel) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  ZeroCopySends sends;
  sends.turn_on(true);
  TransportCounters counters;
  const Dialect& v2 = *find_dialect(builtin_dialects(), 2);
  const TxFraming framing{.dialect = &v2, .has = 9, .zero_copy_above_bytes = 4000, .asks = true};
  const std::string large = random_text(5000, 1);
  const std::string middle = random_text(4000, 2);
  TxPacket first = TestNode::make_packet(0, 1, large, 71);
  first.segments[1] = as_byte_span(middle);
  first.segment_count = 2;
  first.payload_bytes = 9000;
  TxPacket second = TestNode::make_packet(0, 2, middle, 72);
  for (TxPacket* packet : {&first, &second}) ASSERT_TRUE(queue.push(*packet, 0, framing, completions, counters));

  std::array<iovec, 8> pieces;
  TxQueue::Run run = queue.gather(pieces, true);
  EXPECT_FALSE(run.by_zero_copy);
  EXPECT_TRUE(run.goes_on);
  ASSERT_EQ(run.bytes, 40U);
  FramePrefix prefix;
  ASSERT_TRUE(v2.unpack(static_cast<const std::byte*>(pieces[0].iov_base), prefix));
  EXPECT_EQ(prefix, (FramePrefix{.payload_bytes = 9000, .has = 9, .asks = true}));
  queue.consume(40, run.by_zero_copy, sends, completions);

  run = queue.gather(pieces, true);
  EXPECT_TRUE(run.by_zero_copy);
  EXPECT_EQ(run.bytes, 5000U);
  queue.consume(1000, true, sends, completions);
  queue.consume(4000, true, sends, completions);
  EXPECT_FALSE(sends.has_waiting()) << "not whole";

  run = queue.gather(pieces, true);
  EXPECT_FALSE(run.by_zero_copy);
  EXPECT_EQ(run.bytes, 4000U + 40 + 4000) << "up to the end, the next packet has none";
  queue.consume(run.bytes, false, sends, completions);
  EXPECT_EQ(reap_all(completions), std::vector<TxToken>{72}) << "which the kernel copied";
  EXPECT_EQ(sends.waiting_count(), 1U);
  sends.on_writes_done(0, 0, completions);
  EXPECT_EQ(sends.waiting_count(), 1U);
  sends.on_writes_done(1, 1, completions);
  EXPECT_EQ(reap_all(completions), std::vector<TxToken>{71});
}

TEST(TxQueue, Drop_LeavesThePacketThatTheKernelReads) {
  TxQueue queue(kLimits);
  TxCompletions completions;
  ZeroCopySends sends;
  sends.turn_on(true);
  TransportCounters counters;
  const TxFraming framing{.dialect = find_dialect(builtin_dialects(), 2), .zero_copy_above_bytes = 4000, .asks = true};
  const std::string large = random_text(5000, 1);
  for (const TxToken token : {TxToken{71}, TxToken{72}}) {
    TxPacket packet = TestNode::make_packet(0, 1, large, token);
    ASSERT_TRUE(queue.push(packet, 0, framing, completions, counters));
  }
  queue.consume(40, false, sends, completions);
  queue.consume(1, true, sends, completions);
  queue.drop(&sends, completions);
  EXPECT_EQ(reap_all(completions), std::vector<TxToken>{72});
  EXPECT_FALSE(sends.on_peer_has(1, completions)) << "it was not sent whole";
  sends.on_writes_done(0, 0, completions);
  EXPECT_EQ(reap_all(completions), std::vector<TxToken>{71});
}

TEST(TxQueue, RandomTraffic_EqualsAString) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Rng rng(seed);
    const std::string memory = random_text(40'000, seed);
    TxQueue queue(kLimits);
    TxCompletions completions;
    TransportCounters counters;
    std::string expected;
    std::string got;
    std::set<TxToken> waiting;
    for (uint64_t i = 1; i < 4000; ++i) {
      TxPacket packet;
      packet.peer = 0;
      packet.header = make_header(i);
      packet.token = i;
      packet.segment_count = static_cast<uint8_t>(rng.below(kTxSegmentsMax + 1));
      packet.payload_bytes = 0;
      for (size_t s = 0; s < packet.segment_count; ++s) {
        const size_t size = rng.below(rng.chance(0.5) ? 100 : 5000);
        packet.segments[s] = as_byte_span(memory).subspan(rng.below(30'000), size);
        packet.payload_bytes += static_cast<uint32_t>(size);
      }
      completions.begin_burst({&packet, 1});
      if (queue.push(packet, 0, {.dialect = &v1()}, completions, counters)) {
        expected += frame_of(packet, v1());
        if (!packet.done) waiting.insert(i);
      }
      completions.end_burst();
      if (rng.chance(0.6)) got += take(queue, rng.below(9000), 1 + rng.below(9), completions);
      for (const TxToken token : reap_all(completions)) EXPECT_EQ(waiting.erase(token), 1U);
    }
    while (!queue.empty()) got += take(queue, 100'000, 64, completions);
    for (const TxToken token : reap_all(completions)) EXPECT_EQ(waiting.erase(token), 1U);
    EXPECT_TRUE(waiting.empty());
    EXPECT_TRUE(got == expected);
  }
}

}  // namespace
}  // namespace skua::rpc::tcp
