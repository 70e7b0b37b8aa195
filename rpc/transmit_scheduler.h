// TransmitScheduler: whose packets leave next.
//
//   session: mark_ready() --> ready --(turn by turn)--> TransmitStage --> the transport
//                               ^
//                               +--> parked: the peer takes nothing now; looked at again in each transmit()
//
// Each ready session sends up to a burst, in turn. Bundles that were written meanwhile leave after sessions' packets.
#ifndef SKUA_RPC_TRANSMIT_SCHEDULER_H_
#define SKUA_RPC_TRANSMIT_SCHEDULER_H_

#include <cstddef>

#include "rpc/base/bytes.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/bundles.h"
#include "rpc/endpoint_context.h"
#include "rpc/protocol/session.h"
#include "rpc/protocol/session_host.h"
#include "rpc/receive_memory.h"
#include "rpc/transmit_stage.h"
#include "rpc/transport/transport.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it. A session leaves the lists when its
/// `ready_hook` is unlinked.
class TransmitScheduler {
 public:
  TransmitScheduler(EndpointContext& context, ReceiveMemory& memory, Bundles& bundles)
      : context_(context), memory_(memory), bundles_(bundles), stage_(context.transport, context.counters) {}
  TransmitScheduler(const TransmitScheduler&) = delete;
  TransmitScheduler& operator=(const TransmitScheduler&) = delete;

  // --- SessionHost
  void mark_ready(Session& session) {
    if (!session.ready_hook.linked()) ready_.push_back(session);
  }
  PacketSink* express(const Session& session);

  /// Sends a packet of the endpoint's own with a copy of `payload`. Without room the packet is dropped: a control
  /// packet is repeated by the side that needs it.
  void send_control(PeerId peer, const PacketHeader& header, ByteSpan payload);

  /// Sends what is ready, as far as there is room. Returns how many packets the transport took.
  size_t transmit();
  /// True: transmit() could send something.
  [[nodiscard]] bool has_ready() const {
    return !bundles_.nothing_written() || !ready_.empty() || !stage_.nothing_staged();
  }
  /// True: something waits to be sent, even if its peer takes nothing now.
  [[nodiscard]] bool has_waiting() const { return has_ready() || !parked_.empty(); }
  /// True: nothing waits, and the transport reads nothing of ours any more.
  [[nodiscard]] bool is_idle() const { return !has_waiting() && stage_.in_wire_count() == 0; }
  /// Ends the holds of packets that the transport has read.
  void reap() { stage_.reap(); }
  /// Throws away what is staged, at the endpoint's end. Bundles leave first.
  void end() {
    bundles_.send_all();
    stage_.end();
  }

 private:
  void unpark();

  EndpointContext& context_;
  ReceiveMemory& memory_;
  Bundles& bundles_;
  IntrusiveList<Session, &Session::ready_hook> ready_;
  /// Ready sessions whose peer takes nothing now. They wait apart, so that one stopped peer does not hold up others.
  IntrusiveList<Session, &Session::ready_hook> parked_;
  TransmitStage stage_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSMIT_SCHEDULER_H_
