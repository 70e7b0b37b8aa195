// Notices: a 32-bit number that comes with a peer's WRITE (rc_connections.h describes their room).
#include <arpa/inet.h>

#include <algorithm>

#include "rpc/transport/verbs/rc_connections.h"

namespace skua::rpc::verbs {

bool RcConnections::reserve_notices(PeerId peer, uint32_t count) {
  if (!ready(peer)) return false;
  Connection& connection = *connections_[own_way(peer)];
  if (connection.notices_reserved + count > RcQueue::kNotices || notices_reserved_ + count > kNoticesMax) return false;
  connection.notices_reserved += count;
  notices_reserved_ += count;
  post_notice_room(peer, connection);
  return !connection.broken;
}

/// Receive requests that are already posted remain until the connection ends.
void RcConnections::release_notices(PeerId peer, uint32_t count) {
  Connection* connection = find(own_way(peer));
  if (connection == nullptr) return;
  count = std::min(count, connection->notices_reserved);
  connection->notices_reserved -= count;
  notices_reserved_ -= count;
}

void RcConnections::post_notice_room(PeerId peer, Connection& connection) {
  const uint64_t id = uint64_t{connection.serial} << 32 | kNoticeMark | peer;
  while (connection.notices_posted + connection.notices_waiting < connection.notices_reserved) {
    if (!connection.queue->post_notice_room(id)) return mark_broken(own_way(peer));
    ++connection.notices_posted;
  }
}

void RcConnections::renew_all() {
  for (const PeerId peer : to_renew_) {
    Connection& connection = *connections_[own_way(peer)];
    connection.renewing = false;
    if (connection.queue != nullptr && !connection.broken) post_notice_room(peer, connection);
  }
  to_renew_.clear();
}

void RcConnections::on_notice(const ibv_wc& completion) {
  const PeerId peer = static_cast<uint32_t>(completion.wr_id) & ~kNoticeMark;
  Connection* connection = find(own_way(peer));
  if (connection == nullptr || connection->queue == nullptr || connection->serial != completion.wr_id >> 32) return;
  --connection->notices_posted;
  if (completion.status != IBV_WC_SUCCESS) return mark_broken(own_way(peer));
  // A conforming peer sends nothing else that consumes room for a notice. If a peer does, it loses that room.
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return;
  ++connection->notices_waiting;
  done_.push_back({ntohl(completion.imm_data), true, OneSidedCompletion::Kind::kNotice, peer});
}

}  // namespace skua::rpc::verbs
