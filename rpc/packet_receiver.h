// PacketReceiver: takes bursts of packets from the transport, and gives each packet to whom it is for: bundles to
// Bundles, packets of open sessions to their sessions, all others to StrayPackets.
//
//   receive() --> dispatch() --> session --> keep(): the session keeps the packet's bytes in a lease
//                                              else: the packet's buffer goes back when it was handled
//
// Pieces of a message that has begun to arrive are copied in runs. Where the transport can put a payload where it is
// told to, it asks place().
#ifndef SKUA_RPC_PACKET_RECEIVER_H_
#define SKUA_RPC_PACKET_RECEIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rpc/base/bytes.h"
#include "rpc/base/lease.h"
#include "rpc/bundles.h"
#include "rpc/endpoint_context.h"
#include "rpc/protocol/session_host.h"
#include "rpc/receive_memory.h"
#include "rpc/session_table.h"
#include "rpc/stray_packets.h"
#include "rpc/transport/transport.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class PacketReceiver final : public RxPlacer {
 public:
  PacketReceiver(EndpointContext& context, ReceiveMemory& memory, Bundles& bundles, StrayPackets& strays)
      : context_(context), memory_(memory), bundles_(bundles), strays_(strays) {}
  PacketReceiver(const PacketReceiver&) = delete;
  PacketReceiver& operator=(const PacketReceiver&) = delete;

  /// Takes packets from the transport. Returns how many; give them to dispatch() before the next call.
  size_t receive() { return context_.transport.rx_burst(std::span(received_).first(receive_max_)); }
  /// Handles the packets that receive() took.
  void dispatch(size_t count);

  /// As SessionHost::keep(), while a packet is handled.
  bool keep(const Arrival& arrival, Lease& lease);

  // --- RxPlacer
  Placement place(PeerId from, ByteSpan header, size_t payload_bytes) override;
  void abandon(uint64_t cookie) override { memory_.abandon(cookie); }

 private:
  void dispatch(RxPacket& packet);
  [[nodiscard]] size_t take_pieces(std::span<RxPacket> packets);
  [[nodiscard]] bool is_unsealed(const RxPacket& packet, const PacketHeader& header, const SessionEntry* entry) const;
  void discard_current();

  EndpointContext& context_;
  ReceiveMemory& memory_;
  Bundles& bundles_;
  StrayPackets& strays_;
  // The packet being dispatched.
  RxPacket* current_ = nullptr;
  bool current_kept_ = false;
  /// How many packets are received at a time. Mostly half a burst: its answers leave while the next half arrives. A
  /// whole burst if many peers send little each: it is mostly all that has arrived, and each receive has its cost.
  size_t receive_max_ = kBurstMax / 2;
  std::array<RxPacket, kBurstMax> received_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PACKET_RECEIVER_H_
