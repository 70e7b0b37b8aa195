// TransmitStage against a wire that takes what it likes, and completes when it likes.
#include "rpc/transmit_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/wire/packet_header.h"
#include "tests/rpc/endpoint/idle_session_host.h"

namespace skua::rpc {
namespace {

constexpr PeerId kListener = 3;
constexpr PeerId kStopped = 4;
constexpr uint32_t kPieceBytes = 100;

/// A packet as the wire saw it: peer, header and payload.
using Sent = std::pair<PeerId, std::string>;

class StageWire final : public Transport {
 public:
  StageWire() {
    capabilities_.segments_max = kTxSegmentsMax;
    capabilities_.inline_max_bytes = 4096;
    capabilities_.tx_completion = true;
    capabilities_.frames = true;
  }
  Capabilities capabilities_;
  std::vector<Sent> sent;
  size_t takes = kBurstMax;           // packets of each burst
  std::function<bool()> reads_later;  // decides for each packet; unset: it is done at once
  size_t frames_left = SIZE_MAX;      // that take_frame() gives
  uint32_t frame_room = kFrameRoomMin;
  size_t frames_out = 0;        // taken, and not given back
  std::deque<TxToken> reading;  // tokens of packets that are read later
  bool abandoned = false;

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const TransportCounters& counters() const override { return counters_; }
  [[nodiscard]] Descriptor local_descriptor() const override { return {}; }
  absl::StatusOr<PeerId> resolve(const Descriptor& /*peer*/) override { return kListener; }
  bool has_room(PeerId peer) override { return peer != kStopped; }
  size_t tx_burst(std::span<TxPacket> packets) override {
    const size_t count = std::min(packets.size(), takes);
    for (TxPacket& packet : packets.first(count)) {
      std::string bytes(as_string_view(packet.header));
      for (size_t i = 0; i < packet.segment_count; ++i) bytes += as_string_view(packet.segments[i]);
      EXPECT_EQ(bytes.size(), kPacketHeaderBytes + packet.payload_bytes);
      sent.emplace_back(packet.peer, bytes);
      packet.done = !reads_later || !reads_later();
      if (!packet.done && packet.token != kNoToken) reading.push_back(packet.token);
    }
    return count;
  }
  TxFrame take_frame(PeerId peer) override {
    if (frames_left == 0) return {};
    --frames_left;
    ++frames_out;
    auto memory = std::make_unique<std::byte[]>(frame_room + kFrameSlack);
    TxFrame frame{.peer = peer, .bytes = memory.get(), .room = frame_room, .cookie = ++last_frame_};
    memory_[frame.cookie] = std::move(memory);
    return frame;
  }
  void send_frames(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) {
      if (frame.size > 0) sent.emplace_back(frame.peer, as_string_view(ByteSpan(frame.bytes, frame.size)));
      EXPECT_EQ(memory_.erase(frame.cookie), 1u);
      --frames_out;
    }
  }
  size_t rx_burst(std::span<RxPacket> /*packets*/) override { return 0; }
  void release(std::span<const RxBufferId> /*buffers*/) override {}
  size_t reap(std::span<TxToken> tokens) override {
    size_t count = 0;
    for (; count < tokens.size() && !reading.empty() && (abandoned || may_finish > 0); ++count) {
      tokens[count] = reading.front();
      reading.pop_front();
      if (!abandoned) --may_finish;
    }
    return count;
  }
  void abandon_tx() override { abandoned = true; }
  void wait(DurationNs /*timeout_ns*/) override {}
  void wake() override {}

  size_t may_finish = 0;  // packets that are read later, and now to their end

 private:
  TransportCounters counters_;
  std::map<uint64_t, std::unique_ptr<std::byte[]>> memory_;
  uint64_t last_frame_ = 0;
};

class TransmitStageTest : public ::testing::Test {
 protected:
  TransmitStageTest() { session.set_sealed(true); }

  /// Of a body of `bytes`, which counts in `alive` until its release.
  MessagePtr message(std::string bytes) {
    auto* body = new Body{*this, std::move(bytes), {}};
    return message_of(body);
  }
  struct Body {
    TransmitStageTest& test;
    std::string bytes;
    std::function<void()> on_release;
  };
  MessagePtr message_of(Body* body) {
    ++alive;
    MessagePtr out = messages.make();
    EXPECT_TRUE(out->add_body(as_byte_span(body->bytes), &TransmitStageTest::release, body));
    return out;
  }
  static void release(void* context) {
    std::unique_ptr<Body> body(static_cast<Body*>(context));
    --body->test.alive;
    if (body->on_release) body->on_release();
  }
  static PacketHeader header(uint32_t number) {
    PacketHeader out;
    out.req_num = number;
    return out;
  }
  void emit(uint32_t number, const MessagePtr& of) { stage->emit(session, header(number), of, 0, of ? of->size() : 0); }
  void start() { stage.emplace(wire, counters); }

  StageWire wire;
  EndpointCounters counters;
  MessagePool messages{64};
  int alive = 0;
  testing::IdleSessionHost host;
  ProtocolOptions options;
  Session session{host, options, 0, nullptr, kListener};
  std::optional<TransmitStage> stage;
};

TEST_F(TransmitStageTest, PacketsLeaveInOrderAndAreHeldAsLongAsTheWireReadsThem) {
  start();
  Rng rng(7);
  wire.reads_later = [&] { return rng.below(2) == 0; };
  std::vector<std::string> emitted;
  uint32_t number = 0;
  const auto step = [&] {
    wire.takes = rng.below(kBurstMax + 1);
    stage->flush();
    wire.may_finish = rng.below(8);
    stage->reap();
    EXPECT_EQ(stage->in_wire_count(), wire.reading.size());
    // The dumb count: each body is staged or read by the wire, and nothing else is alive.
    EXPECT_EQ(static_cast<size_t>(alive), emitted.size() - wire.sent.size() + wire.reading.size());
  };
  for (int turn = 0; turn < 2000; ++turn) {
    for (uint64_t i = rng.below(kBurstMax); i > 0 && stage->has_room(); --i) {
      emitted.push_back(std::string(1 + rng.below(50), static_cast<char>('a' + rng.below(26))));
      emit(number++, message(emitted.back()));
    }
    step();
  }
  while (!stage->nothing_staged()) step();
  ASSERT_EQ(wire.sent.size(), emitted.size());
  EXPECT_EQ(counters.packets_sent, emitted.size());
  for (size_t i = 0; i < emitted.size(); ++i) {
    const ByteSpan bytes = as_byte_span(wire.sent[i].second);
    const DecodedHeader decoded = decode_header(bytes.first(kHeaderBytes));
    ASSERT_TRUE(decoded.ok);
    EXPECT_EQ(decoded.header.req_num, i);
    EXPECT_TRUE(verify_checksum(bytes.first(kHeaderBytes), bytes.subspan(kHeaderBytes)));
    EXPECT_EQ(as_string_view(bytes.subspan(kHeaderBytes)), emitted[i]);
  }
  stage->end();
  EXPECT_EQ(alive, 0);
}

/// As packets of the default emit_train(), which knows no frames, whatever frames there are.
TEST_F(TransmitStageTest, PiecesInFramesAreWhatPacketsWouldBe) {
  Rng rng(11);
  for (int round = 0; round < 200; ++round) {
    const size_t bytes = 1 + rng.below(kBurstMax * kPieceBytes);
    std::string text(bytes, ' ');
    for (char& c : text) c = static_cast<char>(rng.next());
    MessagePtr out = messages.make();
    const size_t head = std::min<size_t>(text.size(), rng.below(Message::kHeadMax));
    ASSERT_TRUE(out->append_head(as_byte_span(text).first(head)));
    for (size_t at = head; at < text.size();) {
      const bool last = out->body_count() + 1 == Message::kBodiesMax;
      const size_t length = last ? text.size() - at : 1 + rng.below(text.size() - at);
      ASSERT_TRUE(out->add_body(as_byte_span(text).subspan(at, length), nullptr, nullptr));
      at += length;
    }
    const auto pieces = static_cast<uint32_t>((bytes + kPieceBytes - 1) / kPieceBytes);
    const auto first = static_cast<uint32_t>(rng.below(pieces));
    const auto count = static_cast<uint32_t>(1 + rng.below(pieces - first));
    PacketHeader head_of_first = header(9);
    head_of_first.message_bytes = static_cast<uint32_t>(bytes);
    head_of_first.packet_index = static_cast<uint16_t>(first);
    session.set_sealed(rng.below(2) == 0);

    start();
    stage->PacketSink::emit_train(session, head_of_first, out, kPieceBytes, count);
    stage->flush();
    std::vector<Sent> expected = std::exchange(wire.sent, {});
    wire.frames_left = rng.below(2) == 0 ? rng.below(count + 1) : SIZE_MAX;
    wire.frame_room = rng.below(8) == 0 ? kPieceBytes : kFrameRoomMin;  // too small for a piece and its header
    stage->emit_train(session, head_of_first, out, kPieceBytes, count);
    stage->flush();
    EXPECT_EQ(wire.frames_out, 0u);
    // Pieces in frames may leave in front of those that found none.
    std::vector<Sent> sent = std::exchange(wire.sent, {});
    EXPECT_EQ(sent.size(), count);
    std::sort(sent.begin(), sent.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_TRUE(sent == expected) << "round " << round;
    stage->end();
  }
}

TEST_F(TransmitStageTest, PiecesInFramesTakeNoRoom) {
  start();
  const MessagePtr large = message(std::string(size_t{3} * kBurstMax * kPieceBytes, 'x'));
  for (size_t i = 0; i < kBurstMax; ++i) emit(1, {});
  ASSERT_FALSE(stage->has_room());
  stage->emit_train(session, header(2), large, kPieceBytes, 3 * kBurstMax);
  EXPECT_EQ(stage->flush(), kBurstMax);
  EXPECT_EQ(wire.sent.size(), 4 * kBurstMax);
  EXPECT_EQ(counters.packets_sent, 4 * kBurstMax);
  EXPECT_EQ(counters.tx_copied_bytes, large->size());
  stage->end();
}

TEST_F(TransmitStageTest, MakesRoomForPeersThatTakeSomething) {
  start();
  EXPECT_TRUE(stage->make_room_for(kListener));
  EXPECT_FALSE(stage->make_room_for(kStopped));
  EXPECT_FALSE(stage->make_room_for(kNoPeer));
  for (size_t i = 0; i < kBurstMax; ++i) emit(1, {});
  wire.takes = 0;
  EXPECT_FALSE(stage->make_room_for(kListener));
  wire.takes = 1;
  EXPECT_TRUE(stage->make_room_for(kListener));
  EXPECT_EQ(stage->room_packets(), 1u);
  stage->end();
}

TEST_F(TransmitStageTest, ControlPacketsHaveChecksumsWhereTheWireHasNone) {
  for (const bool integrity : {false, true}) {
    wire.capabilities_.integrity = integrity;
    start();
    session.set_sealed(false);
    stage->stage_control(kListener, header(1), message("hello"));
    stage->flush();
    const ByteSpan bytes = as_byte_span(wire.sent.back().second);
    EXPECT_EQ(verify_checksum(bytes.first(kHeaderBytes), bytes.subspan(kHeaderBytes)), !integrity);
    stage->end();
  }
}

/// The burst is being counted off: it must not be given to the wire a second time.
TEST_F(TransmitStageTest, ABodysReleaseMayStageButNotFlush) {
  start();
  bool has_staged = false;
  auto* body = new Body{*this, "first", [&] {
                          EXPECT_TRUE(stage->is_flushing());
                          EXPECT_FALSE(stage->make_room_for(kListener)) << "the stage is full, and is being emptied";
                        }};
  emit(0, message_of(body));
  for (uint32_t i = 1; i < kBurstMax; ++i) emit(i, message("more"));
  EXPECT_EQ(stage->flush(), kBurstMax);
  EXPECT_EQ(wire.sent.size(), kBurstMax);

  body = new Body{*this, "second", [&] {
                    ASSERT_TRUE(stage->make_room_for(kListener));
                    emit(kBurstMax + 2, message("from inside"));
                    has_staged = true;
                  }};
  emit(kBurstMax, message_of(body));
  emit(kBurstMax + 1, message("behind"));
  wire.takes = 1;
  EXPECT_EQ(stage->flush(), 1u);
  EXPECT_TRUE(has_staged);
  wire.takes = kBurstMax;
  EXPECT_EQ(stage->flush(), 2u);
  ASSERT_EQ(wire.sent.size(), kBurstMax + 3);
  for (uint32_t i = 0; i < wire.sent.size(); ++i) {
    EXPECT_EQ(decode_header(as_byte_span(wire.sent[i].second).first(kHeaderBytes)).header.req_num, i);
  }
  stage->end();
  EXPECT_EQ(alive, 0);
}

TEST_F(TransmitStageTest, TheEndLetsGoOfEverything) {
  start();
  wire.reads_later = [] { return true; };
  wire.takes = 2;
  for (uint32_t i = 0; i < 6; ++i) emit(i, message("held"));
  stage->emit_train(session, header(7), message(std::string(250, 'x')), kPieceBytes, 3);
  stage->flush();
  stage->emit_train(session, header(8), message(std::string(250, 'x')), kPieceBytes, 3);
  EXPECT_EQ(alive, 6);
  EXPECT_EQ(stage->in_wire_count(), 2u);
  stage->end();
  EXPECT_TRUE(wire.abandoned);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(wire.frames_out, 0u);
  EXPECT_TRUE(stage->nothing_staged());
}

}  // namespace
}  // namespace skua::rpc
