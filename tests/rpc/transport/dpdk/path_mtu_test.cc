#include "rpc/transport/dpdk/path_mtu.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::dpdk {
namespace {

constexpr uint64_t kNonce = 77;

/// A path that carries packets up to a size and loses some of them.
struct DumbNetwork {
  uint16_t carries = 9000;
  DurationNs round_trip_ns = kMillisecond;
  double loss = 0;
  /// Nothing passes before.
  TimeNs up_since_ns = 0;
  bool peer_answers = true;

  Rng rng{1};
  std::multimap<TimeNs, uint16_t> echoes = {};
  uint32_t asked = 0;

  bool lost() { return rng.chance(loss); }
  void ask(uint16_t size, TimeNs now) {
    ++asked;
    if (size > carries || now < up_since_ns || !peer_answers || lost() || lost()) return;
    echoes.emplace(now + round_trip_ns, size);
  }
};

/// Runs the search until it ends; the time that it took.
DurationNs search(PathMtu& path, DumbNetwork& network, TimeNs begin = 0) {
  TimeNs now = begin;
  for (; path.searching(); now += kMillisecond) {
    while (!network.echoes.empty() && network.echoes.begin()->first <= now) {
      path.on_echo(kNonce, network.echoes.begin()->second);
      network.echoes.erase(network.echoes.begin());
    }
    if (now < path.next_round_ns()) continue;
    for (const uint16_t size : path.begin_round(now)) network.ask(size, now);
    if (now - begin > 1000 * kSecond) ADD_FAILURE() << "the search does not end";
  }
  return now - begin;
}

PathMtu wanted(uint16_t device_mtu) {
  PathMtu path;
  path.want(device_mtu, kNonce, 0);
  return path;
}

TEST(PathMtu, DeviceSizeIsBelievedUntilShownOtherwise) {
  const PathMtu path = wanted(9000);
  EXPECT_EQ(path.mtu(), 9000);
  EXPECT_TRUE(path.searching());
}

TEST(PathMtu, WidePath_OneRound) {
  PathMtu path = wanted(9000);
  DumbNetwork network;
  EXPECT_LE(search(path, network), 5 * kMillisecond);
  EXPECT_EQ(path.mtu(), 9000);
  EXPECT_EQ(network.asked, 5u);
}

TEST(PathMtu, NarrowPath_EveryWidthFindsTheLargestSizeThatFits) {
  const std::map<uint16_t, uint16_t> expected = {{8999, 4176}, {4176, 4176}, {4175, 1500}, {2000, 1500},
                                                 {1500, 1500}, {1450, 1400}, {1399, 1280}, {1280, 1280}};
  for (const auto& [carries, found] : expected) {
    PathMtu path = wanted(9000);
    DumbNetwork network{.carries = carries};
    EXPECT_LE(search(path, network), 4 * PathMtu::kRoundNs);
    EXPECT_EQ(path.mtu(), found) << carries;
  }
}

TEST(PathMtu, NoSizeBelowTheDevices_NothingToSearch) {
  EXPECT_FALSE(wanted(1280).searching());
  EXPECT_EQ(wanted(1280).mtu(), 1280);
}

TEST(PathMtu, PlainDevice_OnlySmallerSizesAreTried) {
  PathMtu path = wanted(1500);
  const auto sizes = path.begin_round(0);
  EXPECT_EQ(std::vector<uint16_t>(sizes.begin(), sizes.end()), (std::vector<uint16_t>{1500, 1400, 1280}));
}

TEST(PathMtu, PeerThatNeverAnswers_ChangesNothing) {
  PathMtu path = wanted(9000);
  DumbNetwork network{.peer_answers = false};
  EXPECT_LT(search(path, network), 30 * kSecond);
  EXPECT_EQ(path.mtu(), 9000);
  EXPECT_EQ(network.asked, 5 * PathMtu::kRoundsMax);
  path.want(9000, kNonce, 40 * kSecond);
  EXPECT_TRUE(path.searching()) << "resolved again: it may be there now";
}

TEST(PathMtu, PathThatCarriesNothingTried_ChangesNothing) {
  PathMtu path = wanted(9000);
  DumbNetwork network{.carries = 600};
  search(path, network);
  EXPECT_EQ(path.mtu(), 9000);
}

TEST(PathMtu, PeerThatComesLate_IsFoundWithoutTheLongPauses) {
  PathMtu path = wanted(9000);
  DumbNetwork network{.carries = 1500, .up_since_ns = 4 * kSecond};
  EXPECT_LT(search(path, network), 9 * kSecond) << "the pause before it came may be as long as the wait";
  EXPECT_EQ(path.mtu(), 1500);
}

TEST(PathMtu, LongRoundTrip_WidePathIsNotTakenForNarrow) {
  PathMtu path = wanted(9000);
  DumbNetwork network{.round_trip_ns = 300 * kMillisecond};
  search(path, network);
  EXPECT_EQ(path.mtu(), 9000);
}

TEST(PathMtu, Loss_RarelyTakenForWidth) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    PathMtu path = wanted(9000);
    DumbNetwork network{.loss = 0.05, .rng = Rng(seed)};
    search(path, network);
    wrong += path.mtu() != 9000 ? 1 : 0;
  }
  EXPECT_LE(wrong, 3) << "three rounds must go wrong one after another";
}

TEST(PathMtu, Loss_NarrowPathIsNeverTakenForWide) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    PathMtu path = wanted(9000);
    DumbNetwork network{.carries = 1500, .loss = 0.2, .rng = Rng(seed)};
    search(path, network);
    EXPECT_LE(path.mtu(), 1500);
  }
}

TEST(PathMtu, EchoesThatNobodyAskedFor_AreIgnored) {
  PathMtu path = wanted(9000);
  path.begin_round(0);
  path.on_echo(kNonce + 1, 1280);
  path.on_echo(0, 1280);
  path.on_echo(kNonce, 1300);
  for (TimeNs now = 0; path.searching(); now += kSecond) path.begin_round(now);
  EXPECT_EQ(path.mtu(), 9000);
}

TEST(PathMtu, LateLargeEcho_RaisesWhatWasFound) {
  PathMtu path = wanted(9000);
  DumbNetwork network{.carries = 1500};
  search(path, network);
  path.on_echo(kNonce, 9000);
  EXPECT_EQ(path.mtu(), 9000);
}

TEST(PathMtu, NarrowPath_IsSearchedAgainAfterAWhileAndKeptMeanwhile) {
  PathMtu path = wanted(9000);
  DumbNetwork network{.carries = 1500};
  search(path, network);
  path.want(9000, kNonce, PathMtu::kSearchAgainNs / 2);
  EXPECT_FALSE(path.searching());
  path.want(9000, kNonce, 2 * PathMtu::kSearchAgainNs);
  EXPECT_TRUE(path.searching());
  EXPECT_EQ(path.mtu(), 1500);
  network.carries = 9000;  // somebody has set the switch right
  search(path, network, 2 * PathMtu::kSearchAgainNs);
  EXPECT_EQ(path.mtu(), 9000);
}

TEST(PathMtu, Postponed_CountsNoRound) {
  PathMtu path = wanted(9000);
  for (int i = 0; i < 100; ++i) path.postpone(i * PathMtu::kRoundNs);
  EXPECT_TRUE(path.searching());
  EXPECT_EQ(path.begin_round(100 * PathMtu::kRoundNs).size(), 5u);
}

// --- On the wire -----------------------------------------------------------------------------------------------------

InterfaceAddress interface(const char* cidr, uint8_t last_mac_byte) {
  InterfaceAddress out = InterfaceAddress::parse(cidr).value();
  out.mac = {2, 0, 0, 0, 0, last_mac_byte};
  return out;
}

std::vector<std::byte> asking_frame(const InterfaceAddress& from, const InterfaceAddress& to, uint16_t ip_bytes) {
  const FrameTemplate headers(from, 18'600, to, 18'605, to.mac);
  std::vector<std::byte> out(kEthernetBytes + ip_bytes);
  headers.write(out.data(), ip_bytes - ip_udp_bytes(from.family));
  PathProbe{kNonce, ip_bytes, PathProbe::Kind::kAsk}.write(out.data() + headers.size());
  return out;
}

TEST(PathProbe, AskIsAnsweredByASmallEcho) {
  const std::pair<InterfaceAddress, InterfaceAddress> pairs[] = {
      {interface("10.77.0.1/24", 1), interface("10.77.0.2/24", 2)},
      {interface("fd00::1/64", 1), interface("fd00::2/64", 2)}};
  for (const auto& [asker, answerer] : pairs) {
    const std::vector<std::byte> ask = asking_frame(asker, answerer, 1500);
    ParsedFrame parsed;
    EXPECT_FALSE(parse_frame(ask, kPacketHeaderBytes, parsed)) << "it is not for the engine";
    std::array<std::byte, 128> to;
    const size_t bytes = answer_path_probe(ask, answerer, to);
    ASSERT_EQ(bytes, kEthernetBytes + ip_udp_bytes(asker.family) + PathProbe::kBytes);
    const ByteSpan echo = ByteSpan(to).first(bytes);
    ASSERT_TRUE(parse_transport_frame(echo, PathProbe::kBytes, parsed));
    EXPECT_EQ(parsed.source, source_of(answerer, 18'605));
    EXPECT_EQ(parsed.to_port, 18'600);
    EXPECT_TRUE(std::equal(asker.mac.begin(), asker.mac.end(), reinterpret_cast<const uint8_t*>(echo.data())));
    PathProbe probe;
    ASSERT_TRUE(PathProbe::read(echo.subspan(parsed.payload_offset), probe));
    EXPECT_EQ(probe.kind, PathProbe::Kind::kEcho);
    EXPECT_EQ(probe.nonce, kNonce);
    EXPECT_EQ(probe.ip_bytes, 1500);
    EXPECT_EQ(answer_path_probe(echo, asker, to), 0u) << "an echo of an echo";
  }
}

TEST(PathProbe, EchoTellsWhatArrivedNotWhatWasClaimed) {
  const InterfaceAddress asker = interface("10.77.0.1/24", 1);
  const InterfaceAddress answerer = interface("10.77.0.2/24", 2);
  std::vector<std::byte> ask = asking_frame(asker, answerer, 1400);
  PathProbe{kNonce, 9000, PathProbe::Kind::kAsk}.write(ask.data() + kEthernetBytes + ip_udp_bytes(4));
  std::array<std::byte, 128> to;
  const size_t bytes = answer_path_probe(ask, answerer, to);
  PathProbe probe;
  ASSERT_TRUE(PathProbe::read(ByteSpan(to).first(bytes).subspan(kEthernetBytes + ip_udp_bytes(4)), probe));
  EXPECT_EQ(probe.ip_bytes, 1400);
}

TEST(PathProbe, EngineFramesAreNotTakenForIt) {
  const InterfaceAddress a = interface("10.77.0.1/24", 1);
  const InterfaceAddress b = interface("10.77.0.2/24", 2);
  const FrameTemplate headers(a, 18'600, b, 18'605, b.mac);
  std::vector<std::byte> frame(headers.size() + 100);
  headers.write(frame.data(), 100);
  frame[headers.size()] = std::byte{0x11};  // version 1, a request
  ParsedFrame parsed;
  EXPECT_TRUE(parse_frame(frame, kPacketHeaderBytes, parsed));
  EXPECT_FALSE(parse_transport_frame(frame, PathProbe::kBytes, parsed));
  std::array<std::byte, 128> to;
  EXPECT_EQ(answer_path_probe(frame, b, to), 0u);
}

TEST(PathProbe, ReadRefusesWhatIsShortOrOfAnotherKind) {
  std::array<std::byte, PathProbe::kBytes> bytes;
  PathProbe{kNonce, 1500, PathProbe::Kind::kAsk}.write(bytes.data());
  PathProbe out;
  EXPECT_TRUE(PathProbe::read(bytes, out));
  EXPECT_FALSE(PathProbe::read(ByteSpan(bytes).first(PathProbe::kBytes - 1), out));
  bytes[18] = std::byte{3};
  EXPECT_FALSE(PathProbe::read(bytes, out));
}

}  // namespace
}  // namespace skua::rpc::dpdk
