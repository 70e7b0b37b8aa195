#include "rpc/transport/sealed/channel_keys.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "rpc/base/rng.h"

namespace skua::rpc {
namespace {

/// One end, and the frames that it makes.
struct End {
  ChannelKeys keys;

  std::string seal(std::string_view packet) {
    std::string frame(kSealedHeadBytes + packet.size(), '\0');
    const ByteSpan piece = as_byte_span(packet);
    const uint32_t size = keys.sealer.seal(5, static_cast<uint8_t>(keys.opener.generation()), std::span(&piece, 1),
                                           reinterpret_cast<std::byte*>(frame.data()));
    EXPECT_EQ(size, frame.size());
    return frame;
  }
  /// Also hears what the frame tells, as a transport does.
  SealFault open(std::string frame, std::string* packet = nullptr) {
    SealedHead head;
    if (frame.size() < kSealedHeadBytes || !SealedHead::read(as_byte_span(frame).data(), head) ||
        head.frame_bytes != frame.size()) {
      return SealFault::kForged;
    }
    auto* const bytes = reinterpret_cast<std::byte*>(frame.data());
    const SealFault fault = keys.opener.open(head, {bytes, frame.size()});
    if (fault == SealFault::kNone && head.number + 1 == keys.opener.numbers_end()) keys.sealer.on_heard(head.heard);
    if (packet != nullptr) *packet = frame.substr(kSealedHeadBytes);
    return fault;
  }
};

struct Pair {
  explicit Pair(SealMode mode, KeyRotation rotation = {}, char secret = 's')
      : opener{make(mode, rotation, secret, ChannelSide::kOpener)},
        acceptor{make(mode, rotation, secret, ChannelSide::kAcceptor)} {}
  static ChannelKeys make(SealMode mode, KeyRotation rotation, char secret, ChannelSide side) {
    const ChannelUse use{.mode = mode, .rotation = rotation};
    return {RootSecret(as_byte_span(std::string(kHashBytes, secret))), Hash{}, side, use, 0};
  }

  End opener;
  End acceptor;
};

std::string flip(std::string frame, size_t bit) {
  frame[bit / 8] = static_cast<char>(frame[bit / 8] ^ (1 << bit % 8));
  return frame;
}

class ChannelKeysTest : public ::testing::TestWithParam<SealMode> {
 protected:
  Pair pair_{GetParam()};
};

TEST_P(ChannelKeysTest, BothDirectionsWork) {
  std::string packet;
  EXPECT_EQ(pair_.acceptor.open(pair_.opener.seal("question"), &packet), SealFault::kNone);
  EXPECT_EQ(packet, "question");
  EXPECT_EQ(pair_.opener.open(pair_.acceptor.seal("answer"), &packet), SealFault::kNone);
  EXPECT_EQ(packet, "answer");
}

TEST_P(ChannelKeysTest, EncryptedPacketsCannotBeRead) {
  const bool is_clear = pair_.opener.seal("the quick brown fox").find("quick") != std::string::npos;
  EXPECT_EQ(is_clear, GetParam() == SealMode::kAuthenticate);
}

TEST_P(ChannelKeysTest, PiecesAreSealedAsOnePacket) {
  const std::string one = "the quick ";
  const std::string other = "brown fox";
  const std::array<ByteSpan, 2> pieces = {as_byte_span(one), as_byte_span(other)};
  std::string frame(kSealedHeadBytes + one.size() + other.size(), '\0');
  ASSERT_EQ(pair_.opener.keys.sealer.seal(5, 0, pieces, reinterpret_cast<std::byte*>(frame.data())), frame.size());
  std::string packet;
  EXPECT_EQ(pair_.acceptor.open(frame, &packet), SealFault::kNone);
  EXPECT_EQ(packet, one + other);
}

TEST_P(ChannelKeysTest, EveryFlippedBitAndEveryCutIsRefused) {
  const std::string frame = pair_.opener.seal(std::string(100, 'p'));
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    EXPECT_NE(pair_.acceptor.open(flip(frame, bit)), SealFault::kNone) << bit;
  }
  for (size_t size = 0; size < frame.size(); ++size) {
    std::string cut = frame.substr(0, size);
    EXPECT_NE(pair_.acceptor.open(cut), SealFault::kNone);
    // Also with a length that fits.
    if (size < kSealedHeadBytes) continue;
    store_le(reinterpret_cast<std::byte*>(cut.data()) + 4, static_cast<uint32_t>(size));
    EXPECT_NE(pair_.acceptor.open(cut), SealFault::kNone);
  }
  // None of these has closed the window to the genuine one.
  EXPECT_EQ(pair_.acceptor.open(frame), SealFault::kNone);
}

TEST_P(ChannelKeysTest, AFrameIsTakenOnce) {
  const std::string first = pair_.opener.seal("first");
  const std::string second = pair_.opener.seal("second");
  EXPECT_EQ(pair_.acceptor.open(second), SealFault::kNone);
  EXPECT_EQ(pair_.acceptor.open(first), SealFault::kNone) << "reordering is no replay";
  EXPECT_EQ(pair_.acceptor.open(first), SealFault::kReplay);
  EXPECT_EQ(pair_.acceptor.open(second), SealFault::kReplay);
}

TEST_P(ChannelKeysTest, AFrameIsNotTakenBack) {
  EXPECT_EQ(pair_.opener.open(pair_.opener.seal("question")), SealFault::kForged);
}

TEST_P(ChannelKeysTest, FramesOfOtherChannelsAreRefused) {
  Pair other(GetParam(), {}, 'o');
  EXPECT_EQ(pair_.acceptor.open(other.opener.seal("question")), SealFault::kForged);
  Pair weaker(SealMode::kAuthenticate);
  Pair stronger(SealMode::kEncrypt);
  EXPECT_EQ(stronger.acceptor.open(weaker.opener.seal("question")), SealFault::kMode);
  EXPECT_EQ(weaker.acceptor.open(stronger.opener.seal("question")), SealFault::kMode);
}

TEST_P(ChannelKeysTest, KeysAreOfTheTranscript) {
  Hash other{};
  other[0] = std::byte{1};
  const RootSecret secret(as_byte_span(std::string(kHashBytes, 's')));
  End downgraded{ChannelKeys(secret, other, ChannelSide::kOpener, {.mode = GetParam()}, 0)};
  EXPECT_EQ(pair_.acceptor.open(downgraded.seal("question")), SealFault::kForged);
}

TEST_P(ChannelKeysTest, TheNextKeyComesAfterItsFramesOrItsTime) {
  Pair pair(GetParam(), {.frames = 4, .interval_ns = kSecond});
  for (int i = 0; i < 4; ++i) {
    pair.opener.keys.sealer.rotate(0);
    EXPECT_EQ(pair.opener.keys.sealer.generation(), 0u);
    EXPECT_EQ(pair.acceptor.open(pair.opener.seal("x")), SealFault::kNone);
  }
  pair.opener.keys.sealer.rotate(0);
  EXPECT_EQ(pair.opener.keys.sealer.generation(), 0u) << "the peer has not been heard";
  EXPECT_EQ(pair.opener.open(pair.acceptor.seal("y")), SealFault::kNone);
  pair.opener.keys.sealer.rotate(0);
  EXPECT_EQ(pair.opener.keys.sealer.generation(), 1u);
  EXPECT_EQ(pair.opener.keys.sealer.next_number(), 4u) << "numbers go on";
  EXPECT_EQ(pair.acceptor.open(pair.opener.seal("x")), SealFault::kNone);
  EXPECT_EQ(pair.acceptor.keys.opener.generation(), 1u);
  EXPECT_EQ(pair.opener.open(pair.acceptor.seal("y")), SealFault::kNone);
  pair.opener.keys.sealer.rotate(kSecond - 1);
  EXPECT_EQ(pair.opener.keys.sealer.generation(), 1u);
  pair.opener.keys.sealer.rotate(kSecond);
  EXPECT_EQ(pair.opener.keys.sealer.generation(), 2u);
}

TEST_P(ChannelKeysTest, LateFramesOfTheKeyBeforeAreTakenAndOlderOnesAreNot) {
  Pair pair(GetParam(), {.frames = 1, .interval_ns = kSecond});
  const std::string oldest = pair.opener.seal("0");
  const auto next_key = [&] {
    EXPECT_EQ(pair.acceptor.open(pair.opener.seal("x")), SealFault::kNone);
    EXPECT_EQ(pair.opener.open(pair.acceptor.seal("y")), SealFault::kNone);
    pair.opener.keys.sealer.rotate(0);
  };
  next_key();
  const std::string late = pair.opener.seal("1");
  next_key();
  EXPECT_EQ(pair.acceptor.open(pair.opener.seal("2")), SealFault::kNone);
  EXPECT_EQ(pair.acceptor.open(late), SealFault::kNone);
  EXPECT_EQ(pair.acceptor.open(oldest), SealFault::kGeneration);
}

TEST_P(ChannelKeysTest, NoKeyIsMadeForAFrameThatWasNotOpened) {
  std::string frame = pair_.opener.seal("x");
  for (int generation = 0; generation < 256; ++generation) {
    frame[1] = static_cast<char>(generation);
    if (generation == 0) continue;
    EXPECT_NE(pair_.acceptor.open(frame), SealFault::kNone);
  }
  EXPECT_EQ(pair_.acceptor.keys.opener.generation(), 0u);
}

/// A wire that loses, repeats, delays and forges. Whatever comes, what is opened was sealed, and only once; and the two
/// ends never lose each other.
TEST_P(ChannelKeysTest, SurvivesABadWire) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    Pair pair(GetParam(), {.frames = 4, .interval_ns = kSecond});
    struct Direction {
      End& from;
      End& to;
      std::deque<std::string> under_way;
      std::map<std::string, int> taken;
      uint64_t sent = 0;
    };
    Direction directions[] = {{pair.opener, pair.acceptor, {}, {}, 0}, {pair.acceptor, pair.opener, {}, {}, 0}};
    for (int step = 0; step < 5'000; ++step) {
      Direction& way = directions[rng.below(2)];
      way.from.keys.sealer.rotate(step * kMillisecond);
      const std::string packet = "packet " + std::to_string(way.sent++);
      const std::string frame = way.from.seal(packet);
      for (uint64_t copies = rng.chance(0.3) ? 0 : 1 + rng.below(2); copies-- > 0;) way.under_way.push_back(frame);
      while (way.under_way.size() > 20) {
        std::swap(way.under_way.front(), way.under_way[rng.below(20)]);
        std::string arrived = std::move(way.under_way.front());
        way.under_way.pop_front();
        if (rng.chance(0.1)) arrived = flip(arrived, rng.below(8 * arrived.size()));
        std::string opened;
        if (way.to.open(arrived, &opened) == SealFault::kNone) ++way.taken[opened];
      }
    }
    for (const Direction& way : directions) {
      EXPECT_GT(way.taken.size(), way.sent / 2) << seed;
      EXPECT_GT(way.from.keys.sealer.generation(), 100u) << seed;
      for (const auto& [packet, times] : way.taken) EXPECT_EQ(times, 1) << packet;
    }
  }
}

/// SKUA_ATTACKS asks for another number than a million of each kind.
int attack_count() {
  const char* const wanted = std::getenv("SKUA_ATTACKS");    // NOLINT(concurrency-mt-unsafe): nobody sets variables
  return wanted == nullptr ? 1'000'000 : std::atoi(wanted);  // NOLINT(cert-err34-c)
}

/// Both ends have gone on to the third key when this returns: they talk until each has heard of the other's.
void go_on_to_third_key(Pair& pair) {
  for (int round = 0; pair.acceptor.keys.opener.generation() < 2; ++round) {
    ASSERT_LT(round, 100);
    for (End* end : {&pair.opener, &pair.acceptor}) {
      End& other = end == &pair.opener ? pair.acceptor : pair.opener;
      end->keys.sealer.rotate(0);
      ASSERT_EQ(other.open(end->seal("word")), SealFault::kNone);
    }
  }
}

/// A million attacks of each kind open nothing, and the honest frame is opened after all.
TEST_P(ChannelKeysTest, AMillionAttacksOpenNothing) {
  const SealMode other_mode = GetParam() == SealMode::kEncrypt ? SealMode::kAuthenticate : SealMode::kEncrypt;
  Rng rng(9);
  Pair pair(GetParam(), {.frames = 1});
  const std::string of_old_key = pair.opener.seal("of the first key, and late");
  go_on_to_third_key(pair);
  const std::string genuine = pair.opener.seal(std::string(60, 'p'));
  const std::string before = pair.opener.seal("before");
  ASSERT_EQ(pair.acceptor.open(before), SealFault::kNone);
  Pair another(GetParam(), {.frames = 1}, 'o');
  static_cast<void>(another.opener.seal("as many frames as the pair's"));
  go_on_to_third_key(another);
  const std::string of_another_channel = another.opener.seal(std::string(60, 'p'));
  const std::string of_another_mode = Pair(other_mode).opener.seal(std::string(60, 'p'));
  for (int i = attack_count(); i > 0; --i) {
    std::string forged = genuine;
    for (uint64_t flips = 1 + rng.below(3); flips-- > 0;) forged = flip(forged, rng.below(8 * forged.size()));
    if (forged != genuine) {
      ASSERT_NE(pair.acceptor.open(std::move(forged)), SealFault::kNone);
    }
    ASSERT_EQ(pair.acceptor.open(genuine.substr(0, rng.below(genuine.size()))), SealFault::kForged);
    ASSERT_EQ(pair.acceptor.open(before), SealFault::kReplay);
    ASSERT_EQ(pair.acceptor.open(of_old_key), SealFault::kGeneration);
    ASSERT_EQ(pair.acceptor.open(of_another_mode), SealFault::kMode);
    ASSERT_EQ(pair.acceptor.open(of_another_channel), SealFault::kForged);
    ASSERT_EQ(pair.opener.open(genuine), SealFault::kForged);  // reflected
  }
  EXPECT_EQ(pair.acceptor.open(genuine), SealFault::kNone);
}

INSTANTIATE_TEST_SUITE_P(, ChannelKeysTest, ::testing::Values(SealMode::kAuthenticate, SealMode::kEncrypt),
                         [](const auto& info) {
                           return info.param == SealMode::kEncrypt ? "Encrypt" : "Authenticate";
                         });

TEST(FrameKey, NoncesAreTheIvAndTheNumber) {
  FrameKey key;
  key.iv.fill(std::byte{0xff});
  const AeadNonce nonce = key.nonce(0x0102);
  EXPECT_EQ(nonce[0], std::byte{0xff});
  EXPECT_EQ(nonce[4], std::byte{0xff ^ 0x02});
  EXPECT_EQ(nonce[5], std::byte{0xff ^ 0x01});
}

}  // namespace
}  // namespace skua::rpc
