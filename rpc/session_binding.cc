#include "rpc/session_binding.h"

#include "rpc/association_joins.h"

namespace skua::rpc {

bool SessionBinding::is_lost_peer(const SessionEntry& entry, PeerId from) {
  return entry.state == SessionEntry::State::kOpen && !entry.initiator && entry.peer == kUnbound && from != kNoPeer &&
         (entry.claimed == kNoPeer || entry.claimed == from);
}

absl::Status SessionBinding::make_way(PeerId from, const EndpointIdentity& identity, uint32_t remote_index,
                                      uint32_t remote_generation) {
  if (SessionEntry* old = context_.sessions.find_bound(from, remote_index); old != nullptr) {
    if (old->identity.uuid == identity.uuid && identity.incarnation < old->identity.incarnation) {
      return absl::AbortedError("the offer is from an earlier life of the endpoint");
    }
    if (old->identity == identity && static_cast<int32_t>(remote_generation - old->remote_generation) < 0) {
      return absl::AbortedError("the offer is older than the session that stands");
    }
    lives_.end(*old, absl::UnavailableError("the peer opened the session anew"));
  }
  return context_.sessions.room_for(from, context_.transport.host_of(from));
}

bool SessionBinding::bind(SessionEntry& entry, PeerId from) {
  const absl::Status way = make_way(from, entry.identity, entry.remote_index, entry.remote_generation);
  if (!way.ok()) {
    context_.count_drop(DropReason::kRefusedHandshake);
    lives_.end(entry, way);
    return false;
  }
  entry.link_down_ns = kTimeNever;
  context_.sessions.bind(entry, from, context_.transport.host_of(from));
  return true;
}

bool SessionBinding::bind_again(SessionEntry& entry, PeerId from) {
  if (!bind(entry, from)) return false;
  if (entry.link_lost) lives_.resume(entry);
  return true;
}

void SessionBinding::unbind(SessionEntry& entry) {
  joins_.leave(entry);
  context_.sessions.unbind(entry);
}

}  // namespace skua::rpc
