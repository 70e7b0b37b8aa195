// DpdkTransport's paths to its peers: which port leads there, whether the port has a link, how large a packet gets
// through.
#include <rte_cycles.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/transport/dpdk/dpdk_transport.h"
#include "rpc/transport/dpdk/route.h"

namespace skua::rpc::dpdk {
namespace {

constexpr uint32_t kTurnsPerLook = 64;
constexpr DurationNs kWatchEvery = 20 * kMillisecond;
constexpr size_t kLinkEventsMax = 1024;

}  // namespace

// --- Peers -----------------------------------------------------------------------------------------------------------

absl::StatusOr<PeerId> DpdkTransport::resolve(const Descriptor& peer, PeerWord word) {
  if (peer.transport != kTransportName) {
    return absl::InvalidArgumentError(absl::StrCat("the peer speaks ", peer.transport,
                                                   ", this endpoint dpdk: start both with "
                                                   "the same transport"));
  }
  absl::StatusOr<EndpointAddress> address = EndpointAddress::decode(as_byte_span(peer.address));
  if (!address.ok()) return address.status();
  const Uuid& cluster = peer.identity.cluster_id;
  if (!cluster.is_zero() && !self_.cluster_id.is_zero() && cluster != self_.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat("the peer belongs to cluster ", cluster.to_string(),
                                                      ", this endpoint to ", self_.cluster_id.to_string()));
  }
  std::vector<LocalInterface> ours;
  for (const Line& line : lines_) {
    const Port& port = line.port();
    ours.push_back({port.address(), port.has_gateway() ? std::optional(port.gateway()) : std::nullopt});
  }
  const std::optional<Route> route = route_to(ours, address->interfaces);
  if (!route.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("no DPDK port here leads to ",
                                                   address->interfaces.front().to_string(),
                                                   ": none is in its network, and none has a gateway"));
  }
  const FrameSource source = source_of(route->to, address->udp_port);
  // A claim may name another endpoint's address with a wrong next hop.
  if (const PeerId known = peers_.find(source); known != kNoPeer && !peers_.may_replace(known, word)) return known;
  const Port& port = lines_[route->from].port();
  const FrameTemplate frame(port.address(), udp_port_, route->to, address->udp_port, route->next_hop);
  absl::StatusOr<PeerId> id = peers_.put({source, static_cast<uint16_t>(route->from), frame}, now_ns_);
  if (!id.ok()) return id;
  paths_.want(*id, source, port.mtu(), rng_.next(), now_ns_);
  note_room(*id);
  return id;
}

// --- Links -----------------------------------------------------------------------------------------------------------

size_t DpdkTransport::poll_links(std::span<LinkEvent> events) {
  if (++turns_ % kTurnsPerLook != 0 && events_.empty()) return 0;
  if (const uint64_t tsc = rte_rdtsc(); tsc >= next_watch_tsc_) {
    next_watch_tsc_ = tsc + rte_get_tsc_hz() / (kSecond / kWatchEvery);
    now_ns_ = static_cast<TimeNs>(static_cast<double>(tsc) * 1e9 / static_cast<double>(rte_get_tsc_hz()));
    for (size_t i = 0; i < lines_.size(); ++i) watch(i);
    paths_.turn(now_ns_);
  }
  const size_t count = std::min(events.size(), events_.size());
  std::move(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count), events.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void DpdkTransport::watch(size_t line_index) {
  Line& line = lines_[line_index];
  const LinkWatch::Due due = watches_[line_index].look(line.port().link_up(), now_ns_, line.port().may_need_restart());
  if (!watches_[line_index].is_down()) return;
  line.drop();
  if (due.restart && lane_ == 0) static_cast<void>(line.port().restart());
  if (due.complaint) complain(line_index);
}

void DpdkTransport::complain(size_t line_index) {
  const Line& line = lines_[line_index];
  for (PeerId id = 0; id < peers_.size() && events_.size() < kLinkEventsMax; ++id) {
    if (peers_.at(id).port != line_index) continue;
    refuse(id, absl::UnavailableError(absl::StrCat("DPDK port ", line.port().name(), " has had no link for ",
                                                   watches_[line_index].down_ns(now_ns_) / kMillisecond,
                                                   " ms: is the other end there, the cable in, the interface up?")));
  }
}

void DpdkTransport::refuse(PeerId peer, absl::Status why) {
  LinkEvent event;
  event.peer = peer;
  event.kind = LinkEvent::Kind::kRefused;
  event.why = std::move(why);
  events_.push_back(std::move(event));
}

// --- Paths -----------------------------------------------------------------------------------------------------------

uint32_t DpdkTransport::payload_bytes_of(const Port& port, uint16_t mtu) const {
  return static_cast<uint32_t>(mtu - ip_udp_bytes(port.address().family) - kPacketHeaderBytes);
}

uint32_t DpdkTransport::payload_max_bytes(PeerId peer) const {
  const uint16_t mtu = paths_.mtu(peer);
  if (mtu == 0) return capabilities_.payload_max_bytes;
  return std::min(payload_bytes_of(lines_[peers_.at(peer).port].port(), mtu), capabilities_.payload_max_bytes);
}

/// Call after anything that may change the believed size of the path.
void DpdkTransport::note_room(PeerId id) {
  Peer& peer = peers_.at(id);
  const size_t in_mbuf = spares_.bytes() - peer.frame.size() - kFrameSlack;
  peer.room = static_cast<uint32_t>(std::min(in_mbuf, kPacketHeaderBytes + payload_max_bytes(id)));
}

bool DpdkTransport::has_link(PeerId peer) const {
  return !watches_[peers_.at(peer).port].is_down();
}

void DpdkTransport::ask(PeerId to, const PathProbe& probe) {
  const Peer& peer = peers_.at(to);
  Line& line = line_of(peer);
  rte_mbuf* packet = line.is_full() ? nullptr : take_spare();
  if (packet == nullptr) return;
  const size_t bytes = kEthernetBytes + probe.ip_bytes;
  auto* at = reinterpret_cast<std::byte*>(rte_pktmbuf_append(packet, static_cast<uint16_t>(bytes)));
  std::memset(at, 0, bytes);
  peer.frame.write(at, probe.ip_bytes - ip_udp_bytes(line.port().address().family));
  probe.write(at + peer.frame.size());
  line.push(packet);
  line.flush();
}

void DpdkTransport::on_path_mtu(PeerId peer, uint16_t before) {
  note_room(peer);
  const uint16_t mtu = paths_.mtu(peer);
  if (mtu > before) return;
  // At most once per search, so there are never more of these events than peers.
  refuse(peer, absl::OutOfRangeError(absl::StrCat(
                   "the path from DPDK port ", line_of(peers_.at(peer)).port().name(),
                   " to the peer carries IP packets of ", mtu, " bytes, not of ", before,
                   ": its sessions are opened anew with packets that fit. Set the MTU of the switches between, or "
                   "--dpdk-mtu ",
                   mtu, " on both sides")));
}

}  // namespace skua::rpc::dpdk
