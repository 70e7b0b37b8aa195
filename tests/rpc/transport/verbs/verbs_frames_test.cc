// Frames over verbs. Runs where verbs_pair.h says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/rpc/transport/verbs/verbs_pair.h"

namespace skua::rpc::verbs {
namespace {

using ::testing::ElementsAre;

class VerbsFrames : public VerbsPair {
 protected:
  TxFrame take() {
    TxFrame frame = sender_->take_frame(to_receiver_);
    EXPECT_NE(frame.bytes, nullptr);
    return frame;
  }
  /// Fills the frame with what only `mark` has, and scribbles over its slack.
  static void write(TxFrame& frame, uint32_t size, uint8_t mark) {
    for (uint32_t i = 0; i < size; ++i) frame.bytes[i] = byte_of(mark, i);
    frame.bytes[0] = std::byte{0x21};  // a bundle's
    std::memset(frame.bytes + size, 0xee, kFrameSlack);
    frame.size = size;
  }
  static std::byte byte_of(uint8_t mark, uint32_t at) { return static_cast<std::byte>(mix64(mark * 10'000u + at)); }
  void send_frame(const TxFrame& frame) { sender_->send_frames(std::span(&frame, 1)); }
  static bool is_intact(const RxPacket& packet, uint32_t size, uint8_t mark) {
    if (packet.header.size() + packet.payload.size() != size) return false;
    if (packet.payload.data() != packet.header.data() + kPacketHeaderBytes) return false;
    for (uint32_t i = 1; i < size; ++i) {
      if (packet.header.data()[i] != byte_of(mark, i)) return false;
    }
    return true;
  }
};

TEST_F(VerbsFrames, AllSizesArriveAsTheyWereWritten) {
  EXPECT_TRUE(sender_->capabilities().frames);
  for (const uint32_t size : {32u, 33u, 44u, 287u, 288u, 289u, 1000u, 4095u, 4096u}) {
    TxFrame frame = take();
    ASSERT_EQ(frame.room, 4096u);
    write(frame, size, static_cast<uint8_t>(size));
    send_frame(frame);
    ASSERT_TRUE(until([&] { return !arrived_.empty(); })) << size;
    EXPECT_EQ(arrived_[0].from, to_sender_);
    EXPECT_TRUE(is_intact(arrived_[0], size, static_cast<uint8_t>(size))) << size;
    release_all();
  }
  EXPECT_EQ(sender_->counters().tx_packets, 9u);
  EXPECT_EQ(sender_->counters().tx_bytes, receiver_->counters().rx_bytes);
}

TEST_F(VerbsFrames, TheRoomIsTheNarrowerPeers) {
  EndpointAddress address = EndpointAddress::decode(as_byte_span(receiver_->local_descriptor().address)).value();
  address.mtu_bytes = 1024;
  const PeerId narrow = sender_->resolve({"verbs", identity_of(9), address.encode()}).value();
  wait_for(*sender_, narrow);
  TxFrame frame = sender_->take_frame(narrow);
  EXPECT_EQ(frame.room, 1024u);
  send_frame(frame);
}

TEST_F(VerbsFrames, InWhateverOrderTheyAreSentAndBetweenPackets) {
  TxFrame first = take();
  TxFrame second = take();
  write(first, 100, 1);
  TxPacket between = packet(as_byte_span("between"), kNoToken, 9);
  ASSERT_TRUE(send(between));
  write(second, 200, 2);
  const std::array<TxFrame, 2> frames = {second, first};
  sender_->send_frames(frames);
  ASSERT_TRUE(until([&] { return arrived_.size() == 3; }));
  EXPECT_EQ(arrived_[0].header[0], std::byte{9});
  EXPECT_TRUE(is_intact(arrived_[1], 200, 2));
  EXPECT_TRUE(is_intact(arrived_[2], 100, 1));
}

TEST_F(VerbsFrames, WhatIsGivenBackIsThereAgain) {
  for (int turn = 0; turn < 10; ++turn) {
    std::vector<TxFrame> frames;
    for (;;) {
      const TxFrame frame = sender_->take_frame(to_receiver_);
      if (frame.bytes == nullptr) break;
      frames.push_back(frame);
    }
    // Room for a burst of other packets is left, whatever the depth of the ring.
    EXPECT_EQ(frames.size(), std::min<size_t>(UdQueue::kFramesMax, kDepth - kBurstMax + 1));
    EXPECT_EQ(inside(*sender_).queue().frames_out(), frames.size());
    std::ranges::reverse(frames);
    sender_->send_frames(frames);
    EXPECT_EQ(inside(*sender_).queue().frames_out(), 0u);
  }
  EXPECT_EQ(sender_->counters().tx_packets, 0u);
}

/// Ten rings full, beside packets whose tokens are awaited: nothing is written over before it was sent.
TEST_F(VerbsFrames, MemoryIsWrittenAgainOnlyOnceItWasSent) {
  const Registered body(*sender_, 1000);
  Rng rng(5);
  uint8_t sent = 0;
  uint8_t seen = 0;
  TxToken token = 0;
  for (int turn = 0; turn < 640; ++turn) {
    TxFrame frame;
    ASSERT_TRUE(until([&] {
      std::array<TxToken, 8> tokens;
      sender_->reap(tokens);
      frame = sender_->take_frame(to_receiver_);
      return frame.bytes != nullptr;
    }));
    write(frame, 1000, ++sent);
    send_frame(frame);
    if (rng.chance(0.3)) {
      TxPacket other = packet(body.bytes(), ++token, 9);
      send(other);
    }
    // What arrives does so in order here, unless the receiver is too slow for it.
    receive();
    for (const RxPacket& packet : arrived_) {
      if (packet.header[0] == std::byte{9}) continue;
      do {
        ++seen;
      } while (seen != sent && !is_intact(packet, 1000, seen));
      ASSERT_TRUE(is_intact(packet, 1000, seen)) << turn;
    }
    release_all();
  }
}

TEST_F(VerbsFrames, AFailedQueueLosesFramesButKeepsTheirMemory) {
  TxFrame frame = take();
  write(frame, 100, 1);
  inside(*sender_).fail_queue_for_test();
  ASSERT_TRUE(until([&] {
    std::array<RxPacket, 1> none;
    sender_->rx_burst(none);
    return inside(*sender_).stats().restarts == 1;
  }));
  send_frame(frame);
  ASSERT_TRUE(until([&] { return !arrived_.empty(); }));
  EXPECT_TRUE(is_intact(arrived_[0], 100, 1)) << "written before, sent after";
  EXPECT_EQ(inside(*sender_).queue().frames_out(), 0u);
}

}  // namespace
}  // namespace skua::rpc::verbs
