// PathMtu: the largest packet that the path to one peer carries. Pure: time and nonces are arguments.
//
//      9000          1500           9000
//   us ------ switch ------ switch ------ peer         both cards say 9,000, but packets of 9,000 vanish silently
//
// Fragments are never sent, and a router's "too big" message cannot be relied on (a switch sends none). So the path is
// probed, as in RFC 8899: datagrams of several sizes are sent to the peer's UDP port, and the peer's transport answers
// each one that arrives with a small echo that contains its size. The echoes decide:
//
//   round:      9000, 4176, 1500, 1400, 1280  at once, then again after 20 ms
//   answers:    9000 at any time             the path carries the device's size: done
//               only smaller ones, 3 rounds  the largest size that was answered is the path's size
//               none at all                  the peer is not up yet, or its release does not answer: rounds go on at
//                                            growing distances, ten of them; then nothing is known and nothing changes
//
// All sizes travel together. So a loss is taken for a narrow path only if for three rounds the large ones are lost
// while a small one gets through; the price is smaller packets. A path found narrow is searched again when the peer is
// resolved ten minutes later or more. A late echo of a larger size counts at once.
//
// Until a search has ended, the device's size is assumed. Starting with small packets instead would be worse on a good
// network, which nearly all are: every session would have to change its packet size, for which it must be opened anew,
// or wait for a round trip to a peer that may not be up. On a narrow path the assumption costs 60 ms: handshakes and
// small calls pass, and large packets are repeated in vain until the search ends. Then the sessions whose packets are
// too large are opened anew with packets that fit (Transport::payload_max_bytes()). Each side searches for itself, and
// a session gets the smaller result.
//
//   datagram   u64 magic (frame.h: never reaches the engine)   u64 nonce of the search   u16 bytes of the asking packet
//              u8 kind: 1 asks, 2 echoes      zeros up to 32 bytes; an asking one is padded to its size
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
  /// Distance of rounds once anything was answered, and before the second round.
  static constexpr DurationNs kRoundNs = 20 * kMillisecond;
  /// The search ends after so many rounds in which only smaller sizes were answered.
  static constexpr uint32_t kTries = 3;
  static constexpr uint32_t kRoundsMax = 10;
  static constexpr DurationNs kSearchAgainNs = 600 * kSecond;

  /// Called whenever the peer is resolved, over a device that carries IP packets of `device_mtu` bytes. Starts a
  /// search, unless one runs, the last result is recent or final, or there is only one size to try.
  void want(uint16_t device_mtu, uint64_t nonce, TimeNs now);
  /// The path has changed: forgets everything.
  void reset() { *this = PathMtu(); }

  [[nodiscard]] bool searching() const { return searching_; }
  [[nodiscard]] uint64_t nonce() const { return nonce_; }
  /// While searching: when begin_round() is due.
  [[nodiscard]] TimeNs next_round_ns() const { return next_round_ns_; }
  /// The path cannot be asked now (no link): the same round later.
  void postpone(TimeNs now) { next_round_ns_ = now + kRoundNs; }
  /// The sizes to ask for, largest first. Empty: the search has ended, and mtu() may have changed.
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
  /// False if `payload` does not begin with bytes that write() makes.
  static bool read(ByteSpan payload, PathProbe& out);
};

/// Answers an asking datagram: writes the echo's frame into `to` (at least 96 bytes) and returns its size; 0: nothing
/// to answer. `self` is the interface that the datagram came to. A probe for any worker's port is answered.
size_t answer_path_probe(ByteSpan frame, const InterfaceAddress& self, MutableByteSpan to);

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_PATH_MTU_H_
