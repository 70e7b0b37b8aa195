// FrameReceiver over a socketpair: every state, byte by byte and in random pieces.
#include "rpc/transport/tcp/receiver.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "gtest/gtest.h"
#include "rpc/transport/tcp/socket.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "rpc/wire/bundle.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

// What the transport believes of bundles is what they are.
static_assert(kBundleBytesMin == kBundleHeadBytes + kRecordHeadBytes);
static_assert(kBundleVersion == 2);

using State = FrameReceiver::State;

std::string frame(uint64_t number, const std::string& payload) {
  std::array<std::byte, 8> prefix;
  builtin_dialects().front().pack(prefix.data(), {.payload_bytes = static_cast<uint32_t>(payload.size())});
  const auto header = make_header(number);
  return std::string(as_string_view(prefix)) + std::string(as_string_view(header)) + payload;
}

/// Framed as the transport frames a bundle; `said`: what it says of its length.
std::string bundle_frame(uint64_t number, uint32_t bytes, uint32_t said) {
  std::string bundle = make_bundle(number, bytes);
  store_le(reinterpret_cast<std::byte*>(bundle.data()) + 4, said);
  std::array<std::byte, 8> prefix;
  builtin_dialects().front().pack(prefix.data(), {.payload_bytes = static_cast<uint32_t>(bytes - kPacketHeaderBytes)});
  return std::string(as_string_view(prefix)) + bundle;
}
std::string bundle_frame(uint64_t number, uint32_t bytes) {
  return bundle_frame(number, bytes, bytes);
}

struct Got {
  uint64_t number;
  bool placed;
  std::string payload;
  bool operator==(const Got&) const = default;
};

class ReceiverTest : public ::testing::Test {
 protected:
  void SetUp() override { make(4096, 8, 1000); }

  void make(uint32_t chunk_bytes, uint32_t chunk_count, uint32_t place_above) {
    chunks_ = std::move(*ChunkPool::create(chunk_bytes, chunk_count));
    context_.chunks = chunks_.get();
    context_.placer = &placer_;
    context_.counters = &counters_;
    context_.payload_max_bytes = 1 << 20;
    context_.place_above_bytes = place_above;
    context_.packets = packets_;
    std::array<int, 2> fds;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    in_ = UniqueFd(fds[0]);
    out_ = UniqueFd(fds[1]);
    receiver_ = {};
    receiver_.open(3, builtin_dialects().front());
  }

  void write(std::string_view bytes) {
    ASSERT_EQ(send(out_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  /// One burst; lent packets are released unless `hold`.
  RxOutcome receive(bool hold = false) {
    context_.count = 0;
    const RxOutcome outcome = receiver_.receive(in_.get(), context_);
    for (const RxPacket& packet : std::span(packets_).first(context_.count)) {
      EXPECT_EQ(packet.from, 3U);
      if (is_bundle_header(packet.header.data())) {
        EXPECT_EQ(packet.payload.data(), packet.header.data() + kPacketHeaderBytes);
        EXPECT_NE(packet.buffer, kNoBuffer);
      } else {
        const auto expected = make_header(number_of(packet.header));
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), packet.header.begin()));
      }
      got_.push_back({number_of(packet.header), packet.placed, std::string(as_string_view(packet.payload))});
      if (packet.placed) placer_.buffers.erase(packet.placement);
      if (packet.buffer == kNoBuffer) continue;
      if (hold) {
        held_.push_back(packet.buffer);
      } else {
        chunks_->drop_ref(static_cast<uint32_t>(packet.buffer));
      }
    }
    return outcome;
  }

  std::unique_ptr<ChunkPool> chunks_;
  TestPlacer placer_;
  TransportCounters counters_;
  RxContext context_;
  std::array<RxPacket, kBurstMax> packets_;
  UniqueFd in_;
  UniqueFd out_;
  FrameReceiver receiver_;
  std::vector<Got> got_;
  std::vector<RxBufferId> held_;
};

TEST_F(ReceiverTest, ByteByByte_EveryState) {
  const std::string small = random_text(100, 1);
  const std::string large = random_text(1500, 2);
  std::string stream = frame(1, "") + frame(2, small) + frame(3, large);
  const size_t refused_at = stream.size();
  stream += frame(4, large) + frame(5, small);
  std::vector<State> seen;
  for (size_t i = 0; i < stream.size(); ++i) {
    placer_.refuse = i >= refused_at;
    write(stream.substr(i, 1));
    ASSERT_EQ(receive(), RxOutcome::kDrained) << i;
    if (seen.empty() || seen.back() != receiver_.state()) seen.push_back(receiver_.state());
  }
  const std::vector<Got> expected = {{1, false, ""}, {2, false, small}, {3, true, large}, {5, false, small}};
  EXPECT_EQ(got_, expected);
  const std::vector<State> states = {State::kFrameHeader, State::kPacketHeader,  // packet 1 has no payload
                                     State::kFrameHeader, State::kPacketHeader, State::kPayloadInChunk,  // 2
                                     State::kFrameHeader, State::kPacketHeader, State::kPayloadPlaced,   // 3
                                     State::kFrameHeader, State::kPacketHeader, State::kDiscard,         // 4
                                     State::kFrameHeader, State::kPacketHeader, State::kPayloadInChunk,  // 5
                                     State::kFrameHeader};
  EXPECT_EQ(seen, states);
  EXPECT_EQ(counters_.rx_dropped, 1U);
  EXPECT_EQ(chunks_->ref_count(), 0U);
}

TEST_F(ReceiverTest, ManySmallFrames_AreLentFromOneRead) {
  std::string stream;
  for (uint64_t i = 0; i < 20; ++i) stream += frame(i, random_text(10, i));
  write(stream);
  EXPECT_EQ(receive(true), RxOutcome::kDrained);
  ASSERT_EQ(got_.size(), 20U);
  EXPECT_EQ(counters_.rx_copied_bytes, 0U);
  EXPECT_EQ(counters_.rx_zero_copy_bytes, 200U);
  EXPECT_EQ(chunks_->ref_count(), 20U);
  for (const RxBufferId buffer : held_) EXPECT_EQ(buffer, held_[0]);
}

TEST_F(ReceiverTest, BurstFull_GoesOnWithoutReading) {
  std::string stream;
  for (uint64_t i = 0; i < kBurstMax + 5; ++i) stream += frame(i, "x");
  write(stream);
  EXPECT_EQ(receive(), RxOutcome::kMore);
  EXPECT_EQ(got_.size(), kBurstMax);
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(got_.size(), kBurstMax + 5);
}

TEST_F(ReceiverTest, Placement_WaitsUntilEarlierPacketsAreHandedOver) {
  write(frame(1, "first") + frame(2, random_text(1500, 1)).substr(0, 600));
  EXPECT_EQ(receive(), RxOutcome::kMore);
  EXPECT_EQ(got_.size(), 1U);
  EXPECT_EQ(placer_.placed, 0) << "the engine has not seen packet 1 yet";
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(placer_.placed, 1);
  EXPECT_EQ(receiver_.state(), State::kPayloadPlaced);
}

TEST_F(ReceiverTest, Progress_ChangesWhileALargePayloadComes) {
  const std::string large = frame(1, random_text(3000, 1));
  EXPECT_EQ(receiver_.progress(), 0U);
  uint64_t before = 0;
  for (size_t from = 0; from < 3000; from += 1000) {
    write(large.substr(from, 1000));
    receive();
    EXPECT_GT(receiver_.progress(), before);
    before = receiver_.progress();
  }
  receive();
  EXPECT_EQ(receiver_.progress(), before) << "nothing came";
  write(large.substr(3000));
  receive();
  EXPECT_EQ(got_.size(), 1U);
  EXPECT_EQ(receiver_.progress(), 0U);
}

TEST_F(ReceiverTest, LargePayloadThatIsComplete_IsLentNotPlaced) {
  const std::string payload = random_text(2000, 1);
  write(frame(1, payload));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  const std::vector<Got> expected = {{1, false, payload}};
  EXPECT_EQ(got_, expected);
}

TEST_F(ReceiverTest, StreamOfLargePayloads_CopiesLittle) {
  make(64 * 1024, 8, 16 * 1024);
  const int count = 20;
  const size_t size = 150'000;
  std::string stream;
  for (int i = 0; i < count; ++i) stream += frame(static_cast<uint64_t>(i), random_text(size, 1));
  size_t sent = 0;
  while (got_.size() < count) {
    const ssize_t part = send(out_.get(), stream.data() + sent, stream.size() - sent, 0);
    if (part > 0) sent += static_cast<size_t>(part);
    (void)receive();
  }
  for (const Got& got : got_) EXPECT_TRUE(got.placed && got.payload == random_text(size, 1));
  // The first one could not be foreseen.
  EXPECT_LT(counters_.rx_copied_bytes, 64 * 1024 + count * 2048);
}

TEST_F(ReceiverTest, AllChunksLent_StopsWithoutLoss) {
  make(2048, 3, 1000);
  std::string stream;
  for (uint64_t i = 0; i < 30; ++i) stream += frame(i, random_text(900, i));
  write(stream);
  while (receive(true) != RxOutcome::kStarved) {
  }
  EXPECT_LT(got_.size(), 30U);
  EXPECT_EQ(receive(true), RxOutcome::kStarved) << "and stays so";
  while (got_.size() < 30) {
    ASSERT_FALSE(held_.empty());
    for (const RxBufferId buffer : held_) chunks_->drop_ref(static_cast<uint32_t>(buffer));
    held_.clear();
    (void)receive(true);
  }
  for (uint64_t i = 0; i < 30; ++i) EXPECT_EQ(got_[i], (Got{i, false, random_text(900, i)}));
}

TEST_F(ReceiverTest, Spill_FreesTheChunkAndGoesOn) {
  const std::string whole = frame(1, random_text(500, 1));
  write(whole.substr(0, 300));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(chunks_->ref_count(), 1U);
  receiver_.spill(context_);
  EXPECT_EQ(chunks_->ref_count(), 0U);
  write(whole.substr(300));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(got_.at(0).payload, random_text(500, 1));
  EXPECT_EQ(chunks_->ref_count(), 0U);
}

TEST_F(ReceiverTest, Bundle_IsLentInOnePieceWhateverItsSize) {
  const uint32_t largest = 4096 - 8;
  for (const uint32_t bytes : {kBundleBytesMin, 100U, 1500U, largest}) {
    got_.clear();
    const std::string stream = bundle_frame(bytes, bytes);
    for (size_t at = 0; at < stream.size(); at += 700) {
      write(std::string_view(stream).substr(at, 700));
      ASSERT_EQ(receive(), RxOutcome::kDrained);
    }
    const std::vector<Got> expected = {{bytes, false, make_bundle(bytes, bytes).substr(kPacketHeaderBytes)}};
    EXPECT_EQ(got_, expected);
  }
  EXPECT_EQ(placer_.placed, 0);
  EXPECT_EQ(chunks_->ref_count(), 0U);
}

TEST_F(ReceiverTest, BundleThatStraddlesTwoChunks_IsMovedToTheNext) {
  std::string stream = frame(1, random_text(900, 1)) + bundle_frame(2, 3500);
  write(stream.substr(0, 4096));
  EXPECT_EQ(receive(true), RxOutcome::kDrained);
  ASSERT_EQ(got_.size(), 1U);
  const uint64_t begun = 4096 - (8 + 32 + 900);
  write(stream.substr(4096));
  EXPECT_EQ(receive(true), RxOutcome::kDrained);
  ASSERT_EQ(got_.size(), 2U);
  EXPECT_EQ(got_[1].payload, make_bundle(2, 3500).substr(kPacketHeaderBytes));
  EXPECT_NE(held_[0], held_[1]);
  EXPECT_EQ(counters_.rx_copied_bytes, begun);
}

TEST_F(ReceiverTest, BundleThatSaysNonsense_IsMalformed) {
  const std::vector<std::string> bad = {
      bundle_frame(1, kBundleBytesMin - 1),  // too short
      bundle_frame(1, kBundleBytesMin, 39),  // says so
      bundle_frame(1, 100, 101),             // longer than its frame
      bundle_frame(1, 100, 99),              // shorter
      bundle_frame(1, 100, UINT32_MAX),      // beyond all bounds
      bundle_frame(1, 4096 - 8 + 1),         // larger than a chunk
  };
  for (const std::string& stream : bad) {
    SCOPED_TRACE(stream.size());
    SetUp();
    got_.clear();
    write(bundle_frame(7, 64) + stream);
    EXPECT_EQ(receive(), RxOutcome::kMalformed);
    EXPECT_EQ(got_.size(), 1U) << "what came before counts";
  }
  make(256 * 1024, 4, 1000);
  write(bundle_frame(1, kBundleBytesMax));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  write(bundle_frame(1, kBundleBytesMax + 1).substr(0, 40));
  EXPECT_EQ(receive(), RxOutcome::kMalformed);
  EXPECT_EQ(placer_.placed, 0);
}

/// As dialect 2 has it; nothing but a prefix if it is alone.
std::string frame_v2(FramePrefix prefix, uint64_t number, const std::string& payload) {
  prefix.payload_bytes = static_cast<uint32_t>(payload.size());
  std::array<std::byte, 8> bytes;
  find_dialect(builtin_dialects(), 2)->pack(bytes.data(), prefix);
  const auto header = make_header(number);
  return std::string(as_string_view(bytes)) + (prefix.is_alone ? "" : std::string(as_string_view(header)) + payload);
}

TEST_F(ReceiverTest, Asked_CountsWhatIsWithTheEngineOrThrownAway) {
  receiver_ = {};
  receiver_.open(3, *find_dialect(builtin_dialects(), 2));
  const FramePrefix asks{.asks = true};
  write(frame_v2({}, 1, "does not ask") + frame_v2(asks, 2, "") + frame_v2(asks, 3, "small"));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(receiver_.asked_count(), 2U);
  const std::string placed = frame_v2(asks, 4, random_text(1500, 1));
  write(placed.substr(0, 1000));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(receiver_.asked_count(), 2U) << "not whole";
  write(placed.substr(1000));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(receiver_.asked_count(), 3U);
  placer_.refuse = true;
  const std::string refused = frame_v2(asks, 5, random_text(1500, 1));
  write(refused.substr(0, 1000));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(receiver_.asked_count(), 3U);
  write(refused.substr(1000));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(receiver_.asked_count(), 4U) << "nobody wants it, so nobody needs it";
}

TEST_F(ReceiverTest, FramesThatAreAlone_SayWhatThePeerHas) {
  receiver_ = {};
  receiver_.open(3, *find_dialect(builtin_dialects(), 2));
  std::string stream;
  for (uint32_t i = 1; i <= 100; ++i) {
    stream += frame_v2({.has = i, .is_alone = true}, 0, "");
    if (i % 10 == 0) stream += frame_v2({.has = i}, i, "x");
  }
  for (size_t at = 0; at < stream.size(); at += 13) {
    write(stream.substr(at, 13));
    ASSERT_EQ(receive(), RxOutcome::kDrained);
  }
  EXPECT_EQ(got_.size(), 10U);
  EXPECT_EQ(receiver_.peer_has(), 100U);
  EXPECT_EQ(receiver_.asked_count(), 0U);
  EXPECT_TRUE(receiver_.is_between_frames());
  EXPECT_EQ(chunks_->ref_count(), 0U);
}

TEST_F(ReceiverTest, Malformed_IsTold) {
  std::string too_large = frame(1, "");
  store_le(reinterpret_cast<std::byte*>(too_large.data()), uint32_t{(1 << 20) + 1});
  write(too_large);
  EXPECT_EQ(receive(), RxOutcome::kMalformed);
  SetUp();
  std::string flagged = frame(1, "");
  flagged[5] = 1;
  write(frame(7, "good") + flagged);
  EXPECT_EQ(receive(), RxOutcome::kMalformed);
  EXPECT_EQ(got_.at(0).number, 7U) << "what came before counts";
}

TEST_F(ReceiverTest, EndAndReset_AbandonThePlacement) {
  write(frame(1, random_text(3000, 1)).substr(0, 1200));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(receiver_.state(), State::kPayloadPlaced);
  out_.reset();
  EXPECT_EQ(receive(), RxOutcome::kEnd);
  receiver_.reset(context_);
  EXPECT_EQ(placer_.abandoned, 1);
  EXPECT_EQ(receiver_.state(), State::kClosed);
  EXPECT_EQ(chunks_->ref_count(), 0U);
}

TEST_F(ReceiverTest, CancelPlacement_DiscardsTheRestAndGoesOn) {
  const std::string large = frame(1, random_text(3000, 1));
  write(large.substr(0, 1200));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  receiver_.cancel_placement(&placer_);
  EXPECT_EQ(placer_.abandoned, 1);
  write(large.substr(1200) + frame(2, "next"));
  while (got_.empty()) (void)receive();
  EXPECT_EQ(got_[0], (Got{2, false, "next"}));
}

TEST_F(ReceiverTest, NoPlacer_DiscardsLargePayloads) {
  context_.placer = nullptr;
  write(frame(1, random_text(3000, 1)).substr(0, 2000));
  EXPECT_EQ(receive(), RxOutcome::kDrained);
  EXPECT_EQ(receiver_.state(), State::kDiscard);
  EXPECT_EQ(counters_.rx_dropped, 1U);
}

TEST_F(ReceiverTest, RandomPieces_EqualWhatWasSent) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    make(4096, 4, 1000);
    got_.clear();
    std::string stream;
    std::vector<std::string> payloads;
    for (uint64_t i = 0; i < 100; ++i) {
      const uint64_t sizes[] = {0, 40, 990, 3000, 20'000};
      if (rng.chance(0.3)) {
        const auto bytes = static_cast<uint32_t>(kBundleBytesMin + rng.below(4000));
        payloads.push_back(make_bundle(i, bytes).substr(kPacketHeaderBytes));
        stream += bundle_frame(i, bytes);
        continue;
      }
      payloads.push_back(random_text(rng.below(sizes[rng.below(5)] + 1), i));
      stream += frame(i, payloads.back());
    }
    size_t sent = 0;
    while (got_.size() < payloads.size()) {
      const size_t piece = std::min(stream.size() - sent, rng.below(rng.chance(0.5) ? 60 : 9000));
      const ssize_t part = piece == 0 ? 0 : send(out_.get(), stream.data() + sent, piece, 0);
      if (part > 0) sent += static_cast<size_t>(part);
      context_.packets = std::span(packets_).first(1 + rng.below(kBurstMax));
      const RxOutcome outcome = receive(rng.chance(0.3));
      ASSERT_NE(outcome, RxOutcome::kMalformed);
      if (outcome == RxOutcome::kStarved || rng.chance(0.3)) {
        if (rng.chance(0.3)) receiver_.spill(context_);
        for (const RxBufferId buffer : held_) chunks_->drop_ref(static_cast<uint32_t>(buffer));
        held_.clear();
      }
    }
    for (size_t i = 0; i < payloads.size(); ++i) {
      ASSERT_EQ(got_[i].number, i);
      ASSERT_TRUE(got_[i].payload == payloads[i]);
    }
    for (const RxBufferId buffer : held_) chunks_->drop_ref(static_cast<uint32_t>(buffer));
    held_.clear();
    EXPECT_EQ(chunks_->ref_count(), 0U);
    EXPECT_TRUE(placer_.buffers.empty());
  }
}

}  // namespace
}  // namespace skua::rpc::tcp
