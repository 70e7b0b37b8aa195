#include "rpc/transport/dpdk/path_mtu.h"

#include <algorithm>
#include <cstring>

namespace skua::rpc::dpdk {
namespace {

/// Sizes that networks commonly carry, below a device's own: a page with headers, plain Ethernet, tunnels in Ethernet,
/// and the minimum of IPv6.
constexpr std::array<uint16_t, 4> kCommonSizes = {4176, 1500, 1400, 1280};

}  // namespace

void PathMtu::want(uint16_t device_mtu, uint64_t nonce, TimeNs now) {
  if (size_count_ == 0) {
    mtu_ = sizes_[size_count_++] = device_mtu;
    for (const uint16_t size : kCommonSizes) {
      if (size < device_mtu) sizes_[size_count_++] = size;
    }
  }
  if (searching_ || size_count_ == 1 || now < search_again_ns_) return;
  searching_ = true;
  rounds_ = rounds_answered_ = 0;
  best_ = 0;
  nonce_ = nonce;
  next_round_ns_ = now;
}

std::span<const uint16_t> PathMtu::begin_round(TimeNs now) {
  if (!searching_) return {};
  if (best_ != 0) ++rounds_answered_;
  const bool enough = best_ == sizes_[0] || rounds_answered_ == kTries || rounds_ == kRoundsMax;
  if (enough) {
    end(now);
    return {};
  }
  next_round_ns_ = now + (best_ != 0 ? kRoundNs : kRoundNs << rounds_);
  ++rounds_;
  // Sizes below the largest answered one need no probe.
  size_t count = 1;
  while (count < size_count_ && sizes_[count - 1] > best_) ++count;
  return std::span(sizes_).first(count);
}

void PathMtu::on_echo(uint64_t nonce, uint16_t ip_bytes) {
  if (nonce != nonce_ || nonce == 0) return;
  if (std::find(sizes_.begin(), sizes_.begin() + size_count_, ip_bytes) == sizes_.begin() + size_count_) return;
  // The first answer ends the long pauses. An answer of the largest size ends the search.
  if (best_ == 0 || ip_bytes == sizes_[0]) next_round_ns_ = 0;
  best_ = std::max(best_, ip_bytes);
  if (!searching_) mtu_ = std::max(mtu_, best_);
}

void PathMtu::end(TimeNs now) {
  searching_ = false;
  if (best_ == 0) return;  // nothing is known; the next resolve of the peer starts a new search
  mtu_ = best_;
  search_again_ns_ = best_ == sizes_[0] ? kTimeNever : now + kSearchAgainNs;
}

void PathProbe::write(std::byte* to) const {
  std::memset(to, 0, kBytes);
  store_le(to, kTransportMagic);
  store_le(to + 8, nonce);
  store_le(to + 16, ip_bytes);
  store_le(to + 18, static_cast<uint8_t>(kind));
}

bool PathProbe::read(ByteSpan payload, PathProbe& out) {
  if (payload.size() < kBytes || load_le<uint64_t>(payload.data()) != kTransportMagic) return false;
  out.nonce = load_le<uint64_t>(payload.data() + 8);
  out.ip_bytes = load_le<uint16_t>(payload.data() + 16);
  const auto kind = load_le<uint8_t>(payload.data() + 18);
  if (kind != static_cast<uint8_t>(Kind::kAsk) && kind != static_cast<uint8_t>(Kind::kEcho)) return false;
  out.kind = static_cast<Kind>(kind);
  return true;
}

size_t answer_path_probe(ByteSpan frame, const InterfaceAddress& self, MutableByteSpan to) {
  ParsedFrame parsed;
  PathProbe probe;
  if (!parse_transport_frame(frame, PathProbe::kBytes, parsed) || address_family(parsed) != self.family ||
      !PathProbe::read(frame.subspan(parsed.payload_offset, parsed.payload_bytes), probe) ||
      probe.kind != PathProbe::Kind::kAsk) {
    return 0;
  }
  // The sender of the frame (the peer or a router) is the next hop of the way back.
  MacAddress next_hop;
  std::memcpy(next_hop.data(), frame.data() + next_hop.size(), next_hop.size());
  const FrameTemplate headers(self, parsed.to_port, interface_of(parsed), parsed.source.udp_port, next_hop);
  if (to.size() < FrameTemplate::kStoredBytes + PathProbe::kBytes) return 0;
  headers.write(to.data(), PathProbe::kBytes);
  probe.kind = PathProbe::Kind::kEcho;
  probe.ip_bytes = static_cast<uint16_t>(ip_udp_bytes(self.family) + parsed.payload_bytes);
  probe.write(to.data() + headers.size());
  return headers.size() + PathProbe::kBytes;
}

}  // namespace skua::rpc::dpdk
