// SealedTransport: seals all packets on their way to another transport, and opens those that come from it.
//
//   endpoint -- packets, frames -->  [ number, seal ]  -- sealed frames --> wire
//            <-- packets --------- [ window, open in place ] <-- sealed frames --
//
// Its peers are channels (rpc/transport/channels.h): a PeerId is the index of a channel here, and names what frames of
// the other end have to name. So a packet that the endpoint gets from a peer was sealed by the end that has this
// channel's keys; what the wire says about where the packet came from proves nothing, and is only used to answer.
//
// Copies. A packet's pieces are sealed into a frame in one pass; frames that the engine writes are sealed where they
// lie, and frames that come are opened where they lie and lent as ever. So the application's memory is not sent from,
// and need not be registered. Operations on a peer's memory (OneSided) are not offered: the wire would carry them
// unsealed.
//
// Where the wire has no frame to give, because its peer has no connection yet for example, a packet goes as a packet:
// it is sealed into memory of its own, and the wire queues or drops it as it does with any other.
//
// Keyless peers. While a cluster turns protection on (SealedOptions::admits_keyless), a peer of the wire may have no
// keys yet. Then it is a keyless channel here, one for each peer of the wire. Keyless channels have limits of their own
// (ChannelLimits::of_keyless()), so that neither kind takes the other's room. What a keyless peer sends is not sealed,
// and what it is sent is only copied into frames, with a checksum if the wire does not detect damage itself. A keyless
// channel never gets keys, and a channel with keys takes sealed frames only. So a packet without a seal is never taken
// for a session that has keys.
//
// The number of channels is bounded, and each principal has its share of them (channel_shares.h).
//
// What is not a frame of a channel here, or is not genuine, is thrown away and counted. On a wire that promises that
// nothing is lost, its connection is broken as well, so that both ends know of the loss, and repeat. The same happens
// if a frame is missing.
#ifndef SKUA_RPC_TRANSPORT_SEALED_SEALED_TRANSPORT_H_
#define SKUA_RPC_TRANSPORT_SEALED_SEALED_TRANSPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rpc/base/clock.h"
#include "rpc/transport/channels.h"
#include "rpc/transport/sealed/channel_keys.h"
#include "rpc/transport/sealed/channel_records.h"
#include "rpc/transport/sealed/channel_shares.h"
#include "rpc/transport/sealed/sealed_frame.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct SealedOptions {
  /// The least that a channel may have. A channel has the stronger one of what its two ends want.
  SealMode mode = SealMode::kEncrypt;
  /// Keyless peers are taken, too. Not for endpoints with EndpointOptions::trusted_wire (checked there).
  bool admits_keyless = false;
  KeyRotation rotation{};
  /// Of peers with keys, and as many again of keyless ones. How many a principal may have, and how many are kept for
  /// nodes: ChannelLimits::of().
  uint32_t channels_max = 8192;
  /// A channel that others offered may make room for another one if no frame of it has come for so long. As long as the
  /// endpoint keeps the offer's session (ProtocolOptions::unproven_after_ns).
  DurationNs unproven_after_ns = 25 * kSecond;
  /// A channel that no session uses ends after this time.
  DurationNs unused_after_ns = 30 * kSecond;
  /// Fills its argument with bytes that nobody can guess. Simulations hand in their own.
  std::function<void(MutableByteSpan)> random = draw_random;
  AeadMaker make_aead = make_best_aead;
};

/// Counters only grow.
struct SealedCounters {
  uint64_t sealed = 0;
  uint64_t opened = 0;
  uint64_t keyless = 0;          // packets of keyless peers that were taken
  uint64_t unsealed = 0;         // packets that were no sealed frames, and no whole ones of keyless peers
  uint64_t unknown_channel = 0;  // of a channel that is not here, or has no keys
  uint64_t replayed = 0;
  uint64_t wrong_mode = 0;
  uint64_t wrong_generation = 0;
  uint64_t forged = 0;
  uint64_t missing = 0;  // gaps on a wire that promises that there are none
  uint64_t channels_made = 0;

  [[nodiscard]] uint64_t refused() const {
    return unsealed + unknown_channel + replayed + wrong_mode + wrong_generation + forged + missing;
  }
};

/// Thread: as Transport. The wire must have frames (checked).
class SealedTransport final : public Transport, public Channels, private PeerUse {
 public:
  /// `clock` must outlive the transport.
  SealedTransport(std::shared_ptr<Transport> wire, const Clock& clock, SealedOptions options);
  ~SealedTransport() override { wire_->set_peer_use(nullptr); }

  // --- Transport
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const TransportCounters& counters() const override;
  [[nodiscard]] Descriptor local_descriptor() const override { return wire_->local_descriptor(); }
  void set_peer_use(const PeerUse* use) override { use_ = use; }
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override;
  /// FAILED_PRECONDITION: who claims something has to pay for it: claim_keyless().
  absl::StatusOr<PeerId> resolve_claimed(const Descriptor& peer) override;
  [[nodiscard]] uint32_t payload_max_bytes(PeerId peer) const override;
  [[nodiscard]] uint64_t host_of(PeerId peer) const override;
  size_t tx_burst(std::span<TxPacket> packets) override;
  bool has_room(PeerId peer) override;
  [[nodiscard]] uint64_t progress(PeerId peer) const override;
  TxFrame take_frame(PeerId peer) override;
  void send_frames(std::span<const TxFrame> frames) override;
  size_t rx_burst(std::span<RxPacket> packets) override;
  void release(std::span<const RxBufferId> buffers) override { wire_->release(buffers); }
  void abandon_tx() override;
  size_t poll_links(std::span<LinkEvent> events) override;
  void wait(DurationNs timeout_ns) override {
    if (events_.empty()) wire_->wait(timeout_ns);
  }
  void wake() override { wire_->wake(); }
  [[nodiscard]] int wait_fd() const override { return wire_->wait_fd(); }
  [[nodiscard]] DurationNs begin_wait(DurationNs timeout_ns) override {
    return events_.empty() ? wire_->begin_wait(timeout_ns) : 0;
  }
  void end_wait() override { wire_->end_wait(); }
  [[nodiscard]] Channels* channels() override { return this; }

  // --- Channels
  [[nodiscard]] std::string offer(PeerId peer) override;
  [[nodiscard]] absl::StatusOr<Accepted> accept(ByteSpan offer, const Descriptor& opener,
                                                const OfferOrigin& origin) override;
  [[nodiscard]] absl::Status finish(PeerId peer, ByteSpan answer) override;
  [[nodiscard]] bool admits_keyless() const override { return options_.admits_keyless; }
  [[nodiscard]] absl::StatusOr<PeerId> keyless(PeerId dialled) override;
  [[nodiscard]] absl::StatusOr<PeerId> claim_keyless(const Descriptor& opener, const OfferOrigin& origin) override;

  [[nodiscard]] const SealedCounters& sealed_counters() const { return sealed_; }
  [[nodiscard]] size_t channel_count() const { return channels_.size() - free_.size(); }

 private:
  enum class Kind : uint8_t { kFree, kDialled, kAccepted, kKeyless };
  /// How a keyless peer came to be known.
  enum class Acquaintance : uint8_t { kDialled, kPacket, kClaim };
  struct Channel {
    Kind kind = Kind::kFree;
    bool is_used_up = false;   // its numbers are
    bool is_incoming = false;  // keyless: by a connection that the peer made
    SealMode mode = SealMode::kEncrypt;
    PeerId wire = kNoPeer;       // where frames go; kNoPeer: not known before a frame has come
    PeerId frames_of = kNoPeer;  // keyless: the wire's peer, also after its connection
    uint32_t remote = 0;         // the other end's index of the channel
    uint64_t epoch = 0;          // of the acceptor
    uint64_t next_number = 0;    // reliable wires: of the next frame, if is_linked
    bool is_linked = false;      // reliable wires: a frame has come over the connection that stands
    bool is_proven = false;      // dialled, or a frame has come
    TimeNs unused_since_ns = 0;  // free: since when
    ChannelOffer offer;          // dialled: ours; accepted: the opener's
    std::string descriptor;      // dialled: of the other end
    OfferOrigin origin;          // accepted
    std::string answer;          // accepted: with the secret, until the first frame has come
    std::unique_ptr<ChannelKeys> keys;

    [[nodiscard]] bool is_keyless() const { return kind == Kind::kKeyless; }
    [[nodiscard]] bool can_send() const { return wire != kNoPeer && (keys != nullptr || is_keyless()); }
    /// Of what is put in front of packets.
    [[nodiscard]] uint32_t head_bytes() const { return is_keyless() ? 0 : static_cast<uint32_t>(kSealedHeadBytes); }
  };
  using AcceptedKey = std::pair<std::string, ChannelNonce>;  // principal, nonce
  /// The channels that frames of one peer of the wire have come for, or that an offer says are its.
  struct OfWire {
    std::set<PeerId> proven;
    std::set<PeerId> unproven;
  };

  // Channels
  /// Twice as many places as there may be channels of both kinds: most places rest before they are used again.
  [[nodiscard]] size_t places_max() const {
    return 2 * size_t{options_.channels_max} * (options_.admits_keyless ? 2 : 1);
  }
  [[nodiscard]] ChannelShares& shares_of(Kind kind) { return kind == Kind::kKeyless ? keyless_shares_ : keyed_shares_; }
  [[nodiscard]] absl::StatusOr<PeerId> victim_for(Kind kind, const ChannelHolder& holder);
  [[nodiscard]] PeerId take(Kind kind, const ChannelHolder& holder, PeerId wire, PeerId victim, bool is_proven);
  void free(PeerId id);
  void sweep(TimeNs now);
  void make_offer(PeerId id);
  void set_wire(PeerId id, PeerId wire);
  void prove(PeerId id);
  void rest_anew(PeerId id);
  [[nodiscard]] bool carries_session(PeerId id) const;
  void make_keys(Channel& channel, const RootSecret& secret, const Hash& transcript, ChannelSide side);
  [[nodiscard]] ChannelAnswer known_answer(const Channel& channel) const;
  [[nodiscard]] bool is_used(PeerId wire) const override;
  [[nodiscard]] absl::StatusOr<PeerId> keyless_of_packet(PeerId wire);
  [[nodiscard]] absl::StatusOr<PeerId> keyless_at(PeerId wire, Acquaintance by, const ChannelHolder& holder);

  // Packets
  [[nodiscard]] bool send_loose(Channel& channel, const TxPacket& packet);
  void reap_loose();
  /// The frame's bytes; 0: it cannot be sent.
  [[nodiscard]] uint32_t write(Channel& channel, std::span<const ByteSpan> pieces, std::byte* frame);
  [[nodiscard]] uint32_t seal(Channel& channel, std::span<const ByteSpan> pieces, std::byte* frame);
  [[nodiscard]] bool open(RxPacket& packet);
  [[nodiscard]] bool take_keyless(RxPacket& packet);
  [[nodiscard]] bool refuse(const RxPacket& packet, uint64_t& counter, const char* why);
  void on_opened(PeerId id, const SealedHead& head, PeerId from);
  void gather_links();
  void tell(const LinkEvent& event, std::span<const PeerId> ids);

  /// Sealed packets that the wire may still read, by token. Destroyed after the wire.
  absl::flat_hash_map<TxToken, std::unique_ptr<std::byte[]>> loose_;
  TxToken next_token_ = kNoToken + 1;
  const std::shared_ptr<Transport> wire_;
  const Clock& clock_;
  const SealedOptions options_;
  Capabilities capabilities_;
  const bool needs_checksums_;  // of packets without a seal (keyless_checksum.h)
  const PeerUse* use_ = nullptr;
  mutable TransportCounters counters_;
  SealedCounters sealed_;
  std::vector<Channel> channels_;  // by PeerId
  ChannelShares keyed_shares_;
  ChannelShares keyless_shares_;
  std::deque<PeerId> free_;                      // ended last: at the back
  absl::flat_hash_map<PeerId, PeerId> dialled_;  // the wire's peer -> the channel that was dialled
  absl::flat_hash_map<PeerId, PeerId> keyless_;  // the wire's peer -> its keyless channel
  absl::flat_hash_map<PeerId, OfWire> by_wire_;  // the wire's peer -> its channels
  std::map<AcceptedKey, PeerId> accepted_;
  std::array<LinkEvent, 16> of_wire_;
  std::array<TxFrame, kBurstMax>
      frames_;                     // of a burst under way; clearing so many for each burst would cost more than a frame
  std::vector<LinkEvent> events_;  // not yet polled
  TimeNs next_sweep_ns_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_SEALED_TRANSPORT_H_
