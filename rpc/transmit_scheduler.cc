#include "rpc/transmit_scheduler.h"

namespace skua::rpc {

PacketSink* TransmitScheduler::express(const Session& session) {
  // A session must not overtake sessions that wait for the wire. Nor may a body's release send while flush() is
  // counting the packets that were taken.
  if (stage_.is_flushing() || !ready_.empty()) return nullptr;
  return stage_.make_room_for(session.route()) ? &stage_ : nullptr;
}

void TransmitScheduler::send_control(PeerId peer, const PacketHeader& header, ByteSpan payload) {
  if (!stage_.make_room_for(peer)) return;
  MessagePtr message = memory_.make_message();
  message->append_copy(payload);
  stage_.stage_control(peer, header, message);
}

void TransmitScheduler::unpark() {
  for (Session* session = parked_.empty() ? nullptr : &parked_.front(); session != nullptr;) {
    Session* next = parked_.next(*session);
    if (stage_.takes(session->route())) {
      session->ready_hook.unlink();
      ready_.push_back(*session);
    }
    session = next;
  }
}

size_t TransmitScheduler::transmit() {
  size_t sent = 0;
  unpark();
  while (!ready_.empty()) {
    Session& session = ready_.front();
    session.ready_hook.unlink();
    if (!stage_.takes(session.route())) {
      parked_.push_back(session);
      continue;
    }
    // Each ready session sends up to a burst, in turn.
    if (session.transmit(stage_, context_.now_ns)) ready_.push_back(session);
    if (!stage_.has_room()) {
      const size_t taken = stage_.flush();
      sent += taken;
      if (taken == 0) return sent;
    }
  }
  sent += stage_.flush();
  bundles_.send_all();
  return sent;
}

}  // namespace skua::rpc
