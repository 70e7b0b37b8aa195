// SessionSurroundings: what sessions ask of the endpoint, each from the part that has it.
#ifndef SKUA_RPC_SESSION_SURROUNDINGS_H_
#define SKUA_RPC_SESSION_SURROUNDINGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "rpc/endpoint_context.h"
#include "rpc/incoming_calls.h"
#include "rpc/message_reads.h"
#include "rpc/outgoing_calls.h"
#include "rpc/packet_receiver.h"
#include "rpc/protocol/session.h"
#include "rpc/protocol/session_host.h"
#include "rpc/receive_memory.h"
#include "rpc/transmit_scheduler.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class SessionSurroundings final : public SessionHost {
 public:
  SessionSurroundings(EndpointContext& context, ReceiveMemory& memory, IncomingCalls& incoming, OutgoingCalls& outgoing,
                      TransmitScheduler& transmits, PacketReceiver& receiver, MessageReads& reads)
      : context_(context),
        memory_(memory),
        incoming_(incoming),
        outgoing_(outgoing),
        transmits_(transmits),
        receiver_(receiver),
        reads_(reads) {}
  SessionSurroundings(const SessionSurroundings&) = delete;
  SessionSurroundings& operator=(const SessionSurroundings&) = delete;

  // --- Transmitting and time
  void mark_ready(Session& session) override { transmits_.mark_ready(session); }
  PacketSink* express(const Session& session) override { return transmits_.express(session); }
  void arm_timer(Session& session, TimeNs when) override {
    context_.timers.set_earlier(session.address().local_index, when);
  }

  // --- Memory
  bool keep(const Arrival& arrival, Lease& lease) override { return receiver_.keep(arrival, lease); }
  std::optional<Assembly> assemble(const Session& session, size_t bytes, bool is_request) override {
    const SessionEntry& entry = context_.sessions[session.address().local_index];
    return memory_.assemble(memory_.payer_of(entry, entry.peer, is_request), bytes);
  }
  [[nodiscard]] uint64_t progress(const Session& session) const override {
    const PeerId peer = context_.sessions[session.address().local_index].peer;
    return peer == kNoPeer || peer == kUnbound ? 0 : context_.transport.progress(peer);
  }
  [[nodiscard]] size_t assembly_bytes_max() const override { return memory_.message_bytes_max(); }
  MessagePtr make_message() override { return memory_.make_message(); }
  Announcement announce(const MessageOwner& owner, const MessagePtr& message) override {
    return reads_.announce(owner, message);
  }
  Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) override {
    return reads_.fetch(owner, list, message_bytes);
  }
  void sever(const Session& session) override { reads_.sever(session); }

  // --- Calls
  void deliver(Session& session, ArrivedRequest&& request) override { incoming_.deliver(session, std::move(request)); }
  [[nodiscard]] bool takes_one_way(uint16_t method) const override { return incoming_.takes_one_way(method); }
  void complete(Call& call) override { outgoing_.complete(call); }
  bool start_small(Session& session, Call& call) override { return outgoing_.start_small(session, call); }
  Call& take_over(Session& session) override { return outgoing_.take_over(session); }

  // --- Counting
  void count_drop(DropReason reason) override { context_.count_drop(reason); }
  void count_retransmit() override { ++context_.counters.retransmits; }
  void count_copied(size_t bytes) override { context_.counters.rx_copied_bytes += bytes; }

 private:
  EndpointContext& context_;
  ReceiveMemory& memory_;
  IncomingCalls& incoming_;
  OutgoingCalls& outgoing_;
  TransmitScheduler& transmits_;
  PacketReceiver& receiver_;
  MessageReads& reads_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_SURROUNDINGS_H_
