// The keys of a channel, and the rules for their use.
//
// Both ends know one secret, which only they were told. Each direction has keys of its own:
//
//   secret --"opener"----> direction secret 0 --"next"--> direction secret 1 --"next"--> ...
//      \                        |                             |
//       \                       +--"key", "iv": generation 0  +--"key", "iv": generation 1
//        --"acceptor"--> ...
//
// The sender seals each frame under the next number. Numbers never start again, not with another generation either, and
// a number is taken and used by one function: no two frames have the same nonce (IV xor number) under one key. A frame
// that is repeated is sealed anew.
//
// A generation ends after so many frames or so much time, when the peer has heard of it: each frame tells which
// generation its sender has heard last. So the sender is ahead by one generation at most, and the receiver needs the
// keys of three: the one before, for late frames; the current one; the next one, which is made ahead, never for a frame
// that was not opened.
//
// The receiver believes nothing of a frame before its tag held, and marks its number only then.
#ifndef SKUA_RPC_TRANSPORT_SEALED_CHANNEL_KEYS_H_
#define SKUA_RPC_TRANSPORT_SEALED_CHANNEL_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/crypto/aead.h"
#include "rpc/crypto/key_derivation.h"
#include "rpc/transport/sealed/packet_protection.h"
#include "rpc/transport/sealed/replay_window.h"
#include "rpc/transport/sealed/sealed_frame.h"

namespace skua::rpc {

/// When a sender goes on to its next key.
struct KeyRotation {
  uint64_t frames = uint64_t{1} << 22;
  DurationNs interval_ns = kPacketKeyLifetime;
};

/// What a channel's keys are used for, and how.
struct ChannelUse {
  SealMode mode = SealMode::kEncrypt;
  KeyRotation rotation{};
  AeadMaker make_aead = make_best_aead;
};

/// A key and the IV of its nonces.
struct FrameKey {
  std::unique_ptr<Aead> aead;
  AeadNonce iv{};

  [[nodiscard]] AeadNonce nonce(uint64_t number) const;
  /// The tag of a frame that stays readable. The head's authentic bytes take the tag's place meanwhile: so they lie
  /// beside the packet, and one call of the cipher covers both.
  void sign(const AeadNonce& nonce, MutableByteSpan frame) const;
  [[nodiscard]] bool verify(const AeadNonce& nonce, MutableByteSpan frame) const;
};

/// The keys of one direction, one generation after the other. A secret that is gone cannot be computed from later ones.
class KeyChain {
 public:
  KeyChain(const RootSecret& direction, AeadMaker make_aead) : secret_(direction), make_aead_(std::move(make_aead)) {}
  /// The key of the next generation, from 0 on.
  [[nodiscard]] FrameKey next();

 private:
  RootSecret secret_;
  AeadMaker make_aead_;
};

/// Seals frames of one direction. Thread: one at a time.
class FrameSealer {
 public:
  FrameSealer(const RootSecret& direction, const ChannelUse& use, TimeNs now);

  /// Makes a sealed frame at `frame` of the packet that consists of `pieces`, and returns the frame's size:
  /// kSealedHeadBytes more than the packet. A single piece may lie where it goes to, at frame + kSealedHeadBytes.
  /// 0: the numbers are used up. `heard`: of the other direction (FrameOpener::generation()).
  [[nodiscard]] uint32_t seal(uint32_t channel, uint8_t heard, std::span<const ByteSpan> pieces, std::byte* frame);
  /// The peer has opened frames of this generation, modulo 4.
  void on_heard(uint8_t generation) { is_heard_ = (generation & 3) == (generation_ & 3); }
  /// True: as many frames as a key may seal were sealed.
  [[nodiscard]] bool has_sealed_enough() const { return next_number_ >= rotate_at_number_; }
  /// Goes on to the next key if its frames or its time are over, and the peer has heard of the current one.
  /// True: it did.
  bool rotate(TimeNs now);

  [[nodiscard]] uint64_t next_number() const { return next_number_; }
  [[nodiscard]] uint64_t generation() const { return generation_; }

 private:
  const SealMode mode_;
  const KeyRotation rotation_;
  KeyChain chain_;
  FrameKey key_;
  uint64_t generation_ = 0;
  uint64_t next_number_ = 0;
  uint64_t rotate_at_number_;
  TimeNs rotate_at_ns_;
  bool is_heard_ = false;
};

/// Why a frame was not opened.
enum class SealFault : uint8_t {
  kNone,
  kMode,        // not the channel's
  kReplay,      // its number was seen, or is too old
  kGeneration,  // of a key that is not held
  kForged,      // the tag does not hold
};

/// Opens frames of one direction. Thread: one at a time.
class FrameOpener {
 public:
  FrameOpener(const RootSecret& direction, const ChannelUse& use);

  /// `frame` is the whole frame, whose head was read into `head`; the packet behind the head is opened in place. The
  /// head's bytes are garbage afterwards, and so is the packet after a fault: it must not be read then.
  [[nodiscard]] SealFault open(const SealedHead& head, MutableByteSpan frame);

  [[nodiscard]] uint64_t generation() const { return generation_; }
  /// One more than the newest number that was opened.
  [[nodiscard]] uint64_t numbers_end() const { return window_.end(); }

 private:
  /// The key of a generation, modulo 256. Null: not held.
  [[nodiscard]] FrameKey* key_of(uint8_t generation);
  void advance();

  const SealMode mode_;
  KeyChain chain_;
  FrameKey before_;
  FrameKey current_;
  FrameKey next_;
  uint64_t generation_ = 0;
  ReplayWindow window_;
};

/// Which end of the channel this is.
enum class ChannelSide : uint8_t { kOpener, kAcceptor };

/// Both directions. `secret` is the shared one; `transcript` is the hash of all that both ends said while they agreed:
/// if they do not agree on every byte of that, they do not have the same keys.
struct ChannelKeys {
  ChannelKeys(const RootSecret& secret, const Hash& transcript, ChannelSide side, const ChannelUse& use, TimeNs now);

  FrameSealer sealer;
  FrameOpener opener;

 private:
  ChannelKeys(const RootSecret& extracted, ChannelSide side, const ChannelUse& use, TimeNs now);
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_CHANNEL_KEYS_H_
