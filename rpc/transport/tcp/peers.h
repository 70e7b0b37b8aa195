// PeerTable: the remote endpoints a transport knows, and what there is to tell the engine about
// them.
//
// A PeerId is an index here and is kept for the transport's life: engines hold on to it. The same
// uuid always finds the same entry, whether it was resolved or called us.
#ifndef SKUA_RPC_TRANSPORT_TCP_PEERS_H_
#define SKUA_RPC_TRANSPORT_TCP_PEERS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/transport/tcp/address.h"
#include "rpc/transport/tcp/tx_queue.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::tcp {

struct Connection;

/// LinkEvents of one peer that poll_links() has not taken yet, folded so that two always suffice:
/// a loss makes everything before it old news, and what matters then is whether it stands again.
struct PendingLinks {
  std::optional<LinkEvent> lost;
  std::optional<LinkEvent> up;

  void push(LinkEvent event);
  [[nodiscard]] bool empty() const { return !lost.has_value() && !up.has_value(); }
};

struct Peer {
  Peer(PeerId id, const Uuid& uuid, TxQueue::Limits limits) : id(id), uuid(uuid), tx(limits) {}

  const PeerId id;
  const Uuid uuid;
  /// Where it listens, as last heard; none: only it can connect.
  SocketAddress address;

  /// The connection that stands, and our attempt to make one. Not owned.
  Connection* link = nullptr;
  Connection* dial = nullptr;
  TxQueue tx;
  /// Has packets of the running tx_burst.
  bool dirty = false;

  /// Dials and short-lived connections that failed in a row.
  uint32_t failures = 0;
  TimeNs retry_at_ns = 0;
  /// Waits for retry_at_ns with packets queued.
  bool waits_to_dial = false;

  PendingLinks pending;
  ListHook pending_hook;
};

/// Thread: the transport's.
class PeerTable {
 public:
  PeerTable(size_t peers_max, TxQueue::Limits limits) : peers_max_(peers_max), limits_(limits) {}

  /// The peer of `uuid`, made if need be. RESOURCE_EXHAUSTED: peers_max.
  absl::StatusOr<Peer*> find_or_add(const Uuid& uuid);
  [[nodiscard]] size_t size() const { return peers_.size(); }
  [[nodiscard]] Peer& at(PeerId id) { return *peers_[id]; }

  /// Queues `event` for poll().
  void push_event(LinkEvent event);
  size_t poll(std::span<LinkEvent> events);
  [[nodiscard]] bool has_events() { return !pending_.empty(); }

 private:
  const size_t peers_max_;
  const TxQueue::Limits limits_;
  std::vector<std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<std::array<uint8_t, 16>, PeerId> by_uuid_;
  IntrusiveList<Peer, &Peer::pending_hook> pending_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_PEERS_H_
