#include "rpc/transport/faulty/faulty_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "rpc/base/check.h"

namespace skua::rpc {

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> wire, const FaultOptions& options)
    : wire_(std::move(wire)), options_(options), rng_(options.seed) {
  SKUA_CHECK(!wire_->capabilities().reliable, "a reliable transport promises that nothing is lost");
}

size_t FaultyTransport::tx_burst(std::span<TxPacket> packets) {
  size_t taken = 0;
  while (taken < packets.size()) {
    // A run of packets that nothing happens to goes out as one burst.
    size_t run = taken;
    bool lose = false;
    bool twice = false;
    for (; run < packets.size() && !lose && !twice; ++run) {
      lose = rng_.chance(options_.loss);
      twice = !lose && rng_.chance(options_.duplicate);
    }
    const size_t whole = lose ? run - 1 : run;
    const size_t sent = wire_->tx_burst(packets.subspan(taken, whole - taken));
    taken += sent;
    if (taken < whole) return taken;
    if (lose) {
      packets[taken++].done = true;
      ++lost_count_;
    } else if (twice) {
      // Send a packet twice only if the wire is done with it. Else the wire would return the packet's token twice.
      TxPacket& packet = packets[taken - 1];
      if (packet.done && wire_->tx_burst(std::span(&packet, 1)) == 1) ++duplicated_count_;
    }
  }
  return taken;
}

void FaultyTransport::send_frames(std::span<const TxFrame> frames) {
  std::array<TxFrame, 2 * kBurstMax> out;
  while (!frames.empty()) {
    const std::span<const TxFrame> some = frames.first(std::min(frames.size(), kBurstMax));
    wire_->send_frames(std::span(out).first(with_faults(some, out)));
    frames = frames.subspan(some.size());
  }
}

/// Writes the frames that the wire shall send instead into `out`, which has room for each frame twice. Returns how
/// many.
size_t FaultyTransport::with_faults(std::span<const TxFrame> frames, std::span<TxFrame> out) {
  size_t count = 0;
  for (const TxFrame& frame : frames) {
    TxFrame& sent = out[count++] = frame;
    if (frame.size == 0) continue;
    if (rng_.chance(options_.loss)) {
      sent.size = 0;  // back to the wire, unsent
      ++lost_count_;
      continue;
    }
    if (!rng_.chance(options_.duplicate)) continue;
    TxFrame copy = wire_->take_frame(frame.peer);
    if (copy.bytes == nullptr) continue;
    if (copy.room >= frame.size) {
      std::memcpy(copy.bytes, frame.bytes, frame.size);
      copy.size = frame.size;
      ++duplicated_count_;
    }
    out[count++] = copy;
  }
  return count;
}

}  // namespace skua::rpc
