// The parts of an endpoint whose sessions share bundles with a peer: the peer is the test, which reads what was sent
// and writes records by hand.
#ifndef SKUA_TESTS_RPC_ENDPOINT_BUNDLED_PARTS_H_
#define SKUA_TESTS_RPC_ENDPOINT_BUNDLED_PARTS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/protocol/association.h"
#include "rpc/wire/bundle.h"
#include "tests/rpc/endpoint/endpoint_parts.h"
#include "tests/rpc/wire/bundle_testing.h"

namespace skua::rpc::testing {

struct SentBundle {
  PeerId to = kNoPeer;
  std::string bytes;
  BundleHead head;
  std::vector<Record> records;
};

/// A packet that is no bundle.
struct SentPacket {
  PeerId to = kNoPeer;
  PacketHeader header;
  std::string payload;
};

/// Has frames, and keeps what was sent.
class FramedWire : public ObedientWire {
 public:
  size_t frames_max = SIZE_MAX;  // it gives so many at a time
  std::vector<SentBundle> bundles;
  std::vector<SentPacket> packets;

  ~FramedWire() override { EXPECT_TRUE(taken_.empty()) << "a frame was not given back"; }
  size_t tx_burst(std::span<TxPacket> burst) override {
    const size_t count = ObedientWire::tx_burst(burst);
    for (const TxPacket& packet : burst.first(count)) {
      SentPacket& one = packets.emplace_back();
      one.to = packet.peer;
      EXPECT_TRUE(decode_header(packet.header, one.header));
      for (size_t i = 0; i < packet.segment_count; ++i) one.payload += as_string_view(packet.segments[i]);
    }
    return count;
  }
  TxFrame take_frame(PeerId peer) override {
    if (!has_room(peer) || taken_.size() >= frames_max) return {};
    std::vector<std::byte>& bytes = taken_[++last_];
    bytes.resize(kRoom + kFrameSlack);
    return {.peer = peer, .size = 0, .bytes = bytes.data(), .room = kRoom, .cookie = last_};
  }
  void send_frames(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) {
      ASSERT_EQ(taken_.count(frame.cookie), 1u);
      if (frame.size > 0) keep(frame.peer, ByteSpan(taken_[frame.cookie]).first(frame.size));
      taken_.erase(frame.cookie);
    }
  }

 private:
  static constexpr uint32_t kRoom = 2000;

  void keep(PeerId to, ByteSpan bundle) {
    EXPECT_EQ(refusal_by_hand(bundle, capabilities_.integrity), std::nullopt);
    const BundleHead head = head_by_hand(bundle);
    const RecordsRead read = read_records_by_hand(bundle, head.records);
    EXPECT_FALSE(read.is_malformed);
    bundles.push_back({to, std::string(as_string_view(bundle)), head, read.records});
  }

  std::map<uint64_t, std::vector<std::byte>> taken_;
  uint64_t last_ = 0;
};

inline std::string bytes_of(const JoinRecord& join) {
  std::string out(JoinRecord::kBytes, '\0');
  join.write(reinterpret_cast<std::byte*>(out.data()));
  return out;
}

inline Record join_record(RecordKind kind, uint32_t session, uint32_t number, const JoinRecord& join) {
  return {{.session = session, .number = number, .bytes = JoinRecord::kBytes, .kind = kind}, bytes_of(join)};
}

/// The names that the peer gives to an association and to the sessions in it.
inline constexpr uint32_t kPeersAssociation = 31;
inline constexpr uint32_t kPeersEpoch = 3131;
inline constexpr uint32_t peers_handle(const SessionEntry& entry) {
  return session_handle(500 + entry.index, 1);
}

/// SessionParts over a wire with frames.
class BundledPartsTest : public ::testing::Test {
 protected:
  explicit BundledPartsTest(const EndpointOptions& options = {}) : parts(wire, options) {}

  [[nodiscard]] uint64_t drops(DropReason reason) const { return context.counters.drops[static_cast<size_t>(reason)]; }
  /// Sends what waits. Returns the bundles.
  std::vector<SentBundle> sent_bundles() {
    parts.transmits.transmit();
    return std::exchange(wire.bundles, {});
  }
  /// Sends what waits. Returns the packets of this type that are not bundles.
  std::vector<SentPacket> sent_packets(PacketType type) {
    parts.transmits.transmit();
    std::vector<SentPacket> out = std::exchange(wire.packets, {});
    std::erase_if(out, [type](const SentPacket& one) { return one.header.type != type; });
    return out;
  }
  /// As sent_bundles(), the records alone.
  std::vector<Record> sent_records() {
    std::vector<Record> out;
    for (const SentBundle& bundle : sent_bundles()) out.insert(out.end(), bundle.records.begin(), bundle.records.end());
    return out;
  }
  /// A bundle with these bytes comes from `from`.
  void receive_bytes(PeerId from, const std::string& bundle) {
    RxPacket packet;
    packet.from = from;
    packet.header = as_byte_span(bundle).first(kPacketHeaderBytes);
    packet.payload = as_byte_span(bundle).subspan(kPacketHeaderBytes);
    parts.bundles.on_packet({&packet, 1}, 0, false);
  }
  void receive(PeerId from, BundleHead head, const std::vector<Record>& records) {
    head.records = static_cast<uint16_t>(records.size());
    receive_bytes(from, seal(head, wire.capabilities_.integrity, encode_records(records)));
  }
  /// The next bundle of the association.
  void receive(const Association& a, const std::vector<Record>& records) {
    receive(a.peer,
            {.flags = bundle_flags::kNoEcho,
             .association = a.index,
             .epoch = a.epoch,
             .stamp = to_ticks(context.now_ns),
             .sequence = a.expected_sequence},
            records);
  }
  /// The session that we opened asks to join, and the peer agrees.
  void join(SessionEntry& entry) {
    parts.joins.join(entry);
    entry.session->make_slots();
    receive(*entry.association, {join_record(RecordKind::kJoined, entry.session->hot().handle, 0,
                                             {.generation = entry.wire_generation,
                                              .association = kPeersAssociation + entry.association->index,
                                              .epoch = kPeersEpoch,
                                              .session = peers_handle(entry)})});
    ASSERT_EQ(entry.session->hot().association, entry.association);
    sent_bundles();
  }
  SessionEntry& joined(PeerId peer) {
    SessionEntry& entry = parts.dialled(peer);
    join(entry);
    return entry;
  }
  /// A session that the peer opened, and let join.
  SessionEntry& joined_by(PeerId peer, uint64_t nonce = 7) {
    SessionEntry& entry = parts.accepted(nonce);
    entry.version = kBundleVersion;
    receive(peer, {.flags = bundle_flags::kNoEcho, .stamp = to_ticks(context.now_ns)},
            {join_record(RecordKind::kJoin, 0, entry.index,
                         {.generation = entry.wire_generation,
                          .association = kPeersAssociation,
                          .epoch = kPeersEpoch,
                          .session = peers_handle(entry)})});
    EXPECT_EQ(entry.session->hot().association, entry.association);
    sent_bundles();
    return entry;
  }

  const absl::Status why = absl::UnavailableError("test");
  FramedWire wire;
  SessionParts parts;
  EndpointContext& context = parts.context;
};

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_ENDPOINT_BUNDLED_PARTS_H_
