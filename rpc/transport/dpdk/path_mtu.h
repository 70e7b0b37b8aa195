// PathMtu: how large a packet the way to one peer carries. Pure: time and nonces are arguments.
//
//      9000          1500           9000
//   us ------ switch ------ switch ------ peer         both cards say 9,000, and packets of 9,000 vanish without a word
//
// Fragments are never sent, and no router's "too big" message can be relied on (a switch sends none), so the path is asked
// (as RFC 8899 does it): datagrams of several sizes are sent to the peer's UDP port, and its transport answers each that arrives
// with a small echo that says how large it was. What comes back decides:
//
//   round:      9000, 4176, 1500, 1400, 1280  at once, then again after 20 ms
//   answers:    9000 at any time             the path carries what the device does: done
//               only smaller ones, 3 rounds  the largest that was answered is the path's size
//               none at all                  the peer is not there yet, or of a release that does not answer: the rounds go on
//                                            at twice the distance each, ten of them; then nothing is known and nothing changes
//
// All sizes travel together, so loss alone takes three rounds of bad luck for the large ones and good luck for a small one to
// be taken for a narrow path; the price is smaller packets. A path found narrow is searched again when somebody resolves the
// peer ten minutes later, and a large echo that comes late counts at once.
//
// Until a search has ended the device's size is believed. The other way round, beginning with small packets, would make every
// session on a good network (nearly all of them) change its packets' size, which sessions cannot do without being opened anew,
// or wait for a round trip to a peer that may not be up. On a narrow path that costs 60 ms: handshakes and small calls pass, what
// needs large packets is repeated in vain until the search ends; then the sessions that are too large are opened anew with
// packets that fit (Transport::payload_max_bytes()). Each side searches for itself: a session gets the smaller of both findings.
//
//   datagram   u64 magic (frame.h: it never reaches the engine)   u64 nonce of the search   u16 bytes of the asking IP packet
//              u8 kind: 1 asks, 2 echoes      zeros up to 32 bytes; one that asks is padded to its size
#ifndef SKUA_RPC_TRANSPORT_DPDK_PATH_MTU_H_
#define SKUA_RPC_TRANSPORT_DPDK_PATH_MTU_H_

#include <array>
#include <cstdint>
#include <span>

#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/transport/dpdk/address.h"
#include "rpc/transport/dpdk/frame.h"

namespace skua::rpc::dpdk {

class PathMtu {
 public:
  /// Between rounds once anything was answered, and before the second round.
  static constexpr DurationNs kRoundNs = 20 * kMillisecond;
  /// Rounds in which a smaller size was answered and the largest was not.
  static constexpr uint32_t kTries = 3;
  static constexpr uint32_t kRoundsMax = 10;
  static constexpr DurationNs kSearchAgainNs = 600 * kSecond;

  /// The peer is (still) wanted, over a device that carries `device_mtu` bytes of IP packet. Starts a search unless one runs, has
  /// ended with an answer, or no size could come of it.
  void want(uint16_t device_mtu, uint64_t nonce, TimeNs now);
  /// Another path: nothing is known.
  void reset() { *this = PathMtu(); }

  [[nodiscard]] bool searching() const { return searching_; }
  [[nodiscard]] uint64_t nonce() const { return nonce_; }
  /// While searching: when begin_round() is due.
  [[nodiscard]] TimeNs next_round_ns() const { return next_round_ns_; }
  /// The path cannot be asked now (no link): the same round later.
  void postpone(TimeNs now) { next_round_ns_ = now + kRoundNs; }
  /// The sizes to ask for, largest first; none: the search has ended, and mtu() may have changed.
  std::span<const uint16_t> begin_round(TimeNs now);
  void on_echo(uint64_t nonce, uint16_t ip_bytes);

  /// Bytes of the largest IP packet that is believed to pass; 0 before want().
  [[nodiscard]] uint16_t mtu() const { return mtu_; }

 private:
  static constexpr size_t kSizesMax = 5;

  void end(TimeNs now);

  std::array<uint16_t, kSizesMax> sizes_{};
  uint8_t size_count_ = 0;
  bool searching_ = false;
  uint8_t rounds_ = 0;
  uint8_t rounds_answered_ = 0;
  uint16_t mtu_ = 0;
  uint16_t best_ = 0;  // largest that was answered in this search
  uint64_t nonce_ = 0;
  TimeNs next_round_ns_ = 0;
  TimeNs search_again_ns_ = 0;
};

/// The first bytes of a path datagram's payload.
struct PathProbe {
  static constexpr size_t kBytes = 32;
  enum class Kind : uint8_t { kAsk = 1, kEcho = 2 };

  uint64_t nonce = 0;
  uint16_t ip_bytes = 0;
  Kind kind = Kind::kAsk;

  void write(std::byte* to) const;
  /// False for anything that write() does not begin with.
  static bool read(ByteSpan payload, PathProbe& out);
};

/// Answers a datagram that asks: writes the echo's frame into `to` (at least 96 bytes) and returns its size, else 0. `self` is
/// the interface that it came to, any worker's port will do.
size_t answer_path_probe(ByteSpan frame, const InterfaceAddress& self, MutableByteSpan to);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_PATH_MTU_H_
