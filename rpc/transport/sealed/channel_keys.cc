#include "rpc/transport/sealed/channel_keys.h"

#include <utility>

#include "rpc/transport/sealed/seal_mutants.h"

namespace skua::rpc {
namespace {

RootSecret direction_secret(const RootSecret& secret, bool is_openers) {
  RootSecret out;
  hkdf_expand(secret, is_openers || mutant(SealMutant::kOneKey) ? "skua channel opener" : "skua channel acceptor",
              out.bytes());
  return out;
}

}  // namespace

AeadNonce FrameKey::nonce(uint64_t number) const {
  // In two pieces, each read and written whole: the processor forwards those from store to load.
  constexpr size_t kHighBytes = kAeadNonceBytes - sizeof number;
  AeadNonce out;
  copy_bytes(out.data(), ByteSpan(iv).first(kHighBytes));
  store_le(out.data() + kHighBytes, load_le<uint64_t>(iv.data() + kHighBytes) ^ number);
  return out;
}

void FrameKey::sign(const AeadNonce& nonce, MutableByteSpan frame) const {
  const MutableByteSpan covered = frame.subspan(kSealedAuthenticBytes);
  copy_bytes(covered.data(), frame.first(kSealedAuthenticBytes));
  std::array<std::byte, kAeadTagBytes> tag;
  aead->sign(nonce, covered, tag.data());
  copy_bytes(covered.data(), tag);
}

bool FrameKey::verify(const AeadNonce& nonce, MutableByteSpan frame) const {
  const MutableByteSpan covered = frame.subspan(kSealedAuthenticBytes);
  std::array<std::byte, kAeadTagBytes> tag;
  copy_bytes(tag.data(), covered.first(kAeadTagBytes));
  copy_bytes(covered.data(), frame.first(kSealedAuthenticBytes));
  return aead->verify(nonce, covered, tag.data());
}

FrameKey KeyChain::next() {
  AeadKey key;
  FrameKey out;
  hkdf_expand(secret_, "skua channel key", key.bytes());
  hkdf_expand(secret_, "skua channel iv", out.iv);
  out.aead = make_aead_(key);
  RootSecret following;
  hkdf_expand(secret_, "skua channel next", following.bytes());
  secret_ = following;
  return out;
}

// --- Sealing

FrameSealer::FrameSealer(const RootSecret& direction, const ChannelUse& use, TimeNs now)
    : mode_(use.mode),
      rotation_(use.rotation),
      chain_(direction, use.make_aead),
      key_(chain_.next()),
      rotate_at_number_(use.rotation.frames),
      rotate_at_ns_(now + use.rotation.interval_ns) {}

uint32_t FrameSealer::seal(uint32_t channel, uint8_t heard, std::span<const ByteSpan> pieces, std::byte* frame) {
  if (next_number_ >= kFrameNumberEnd) [[unlikely]] {
    return 0;
  }
  size_t packet_bytes = 0;
  for (const ByteSpan piece : pieces) packet_bytes += piece.size();
  const SealedHead head{.mode = mode_,
                        .heard = heard,
                        .generation = static_cast<uint8_t>(generation_),
                        .frame_bytes = static_cast<uint32_t>(kSealedHeadBytes + packet_bytes),
                        .channel = channel,
                        .number = next_number_};
  if (!mutant(SealMutant::kReuseNumber) || next_number_ % 4 != 3) ++next_number_;
  head.write(frame);
  const AeadNonce nonce = key_.nonce(head.number);
  std::byte* to = frame + kSealedHeadBytes;
  if (mode_ == SealMode::kEncrypt) {
    const ByteSpan authentic(frame, kSealedAuthenticBytes);
    key_.aead->seal(nonce, authentic, pieces, to, frame + kSealedAuthenticBytes);
    return head.frame_bytes;
  }
  for (const ByteSpan piece : pieces) {
    if (piece.data() != to) copy_bytes(to, piece);
    to += piece.size();
  }
  key_.sign(nonce, {frame, head.frame_bytes});
  return head.frame_bytes;
}

bool FrameSealer::rotate(TimeNs now) {
  if (!is_heard_ || (next_number_ < rotate_at_number_ && now < rotate_at_ns_)) return false;
  if (!mutant(SealMutant::kKeepKeys)) key_ = chain_.next();
  if (mutant(SealMutant::kRestartNumbers)) next_number_ = 0;
  ++generation_;
  is_heard_ = false;
  rotate_at_number_ = next_number_ + rotation_.frames;
  rotate_at_ns_ = now + rotation_.interval_ns;
  return true;
}

// --- Opening

FrameOpener::FrameOpener(const RootSecret& direction, const ChannelUse& use)
    : mode_(use.mode), chain_(direction, use.make_aead), current_(chain_.next()), next_(chain_.next()) {}

FrameKey* FrameOpener::key_of(uint8_t generation) {
  const auto ahead = static_cast<uint8_t>(generation - static_cast<uint8_t>(generation_));
  if (ahead == 0) return &current_;
  if (ahead == 1) return &next_;
  return ahead == UINT8_MAX && before_.aead != nullptr ? &before_ : nullptr;
}

void FrameOpener::advance() {
  before_ = std::move(current_);
  current_ = std::move(next_);
  next_ = chain_.next();
  ++generation_;
}

SealFault FrameOpener::open(const SealedHead& head, MutableByteSpan frame) {
  const SealMode mode = mutant(SealMutant::kModeOfPacket) ? head.mode : mode_;
  if (head.mode != mode) return SealFault::kMode;
  if (!window_.is_new(head.number)) return SealFault::kReplay;
  FrameKey* const key = key_of(head.generation);
  if (key == nullptr) return SealFault::kGeneration;
  const AeadNonce nonce = key->nonce(head.number);
  if (mutant(SealMutant::kMarkBeforeTag)) window_.mark(head.number);
  const bool is_genuine = mode == SealMode::kEncrypt
                              ? key->aead->open(nonce, frame.first(kSealedAuthenticBytes),
                                                frame.subspan(kSealedHeadBytes), frame.data() + kSealedAuthenticBytes)
                              : key->verify(nonce, frame);
  if (!is_genuine && !mutant(SealMutant::kSkipTag)) return SealFault::kForged;
  if (!mutant(SealMutant::kForgetWindow)) window_.mark(head.number);
  if (key == &next_) advance();
  return SealFault::kNone;
}

// --- Both

ChannelKeys::ChannelKeys(const RootSecret& secret, const Hash& transcript, ChannelSide side, const ChannelUse& use,
                         TimeNs now)
    : ChannelKeys(hkdf_extract(transcript, secret.bytes()), side, use, now) {}

ChannelKeys::ChannelKeys(const RootSecret& extracted, ChannelSide side, const ChannelUse& use, TimeNs now)
    : sealer(direction_secret(extracted, side == ChannelSide::kOpener), use, now),
      opener(direction_secret(extracted, side == ChannelSide::kAcceptor), use) {}

}  // namespace skua::rpc
