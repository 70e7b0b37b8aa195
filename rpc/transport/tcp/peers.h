// PeerTable: the remote endpoints a transport knows, and what there is to tell the engine about
// them.
//
// A PeerId is an index here: engines hold on to it. The same uuid finds the same entry, whether it was
// resolved or called us. Callers come and go (each run of a tool is a new uuid), so once the table is
// full, the entry that lost its connection longest ago, and that nobody here resolved, is given to the
// next new uuid.
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
  Uuid uuid;
  /// The engine asked for it, and may send to it at any time.
  bool resolved = false;
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
  ListHook retired_hook;
};

/// Thread: the transport's.
class PeerTable {
 public:
  PeerTable(size_t peers_max, TxQueue::Limits limits) : peers_max_(peers_max), limits_(limits) {}

  /// The peer of `uuid`, made if need be. RESOURCE_EXHAUSTED: peers_max, all of them in use.
  absl::StatusOr<Peer*> find_or_add(const Uuid& uuid);
  /// `peer` lost its connection; if nobody resolved it, its entry may be given away.
  void retire(Peer& peer);
  [[nodiscard]] size_t size() const { return peers_.size(); }
  [[nodiscard]] Peer& at(PeerId id) { return *peers_[id]; }

  /// Queues `event` for poll().
  void push_event(LinkEvent event);
  size_t poll(std::span<LinkEvent> events);
  [[nodiscard]] bool has_events() { return !pending_.empty(); }

 private:
  Peer* take_retired();

  const size_t peers_max_;
  const TxQueue::Limits limits_;
  std::vector<std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<std::array<uint8_t, 16>, PeerId> by_uuid_;
  IntrusiveList<Peer, &Peer::pending_hook> pending_;
  /// Longest first.
  IntrusiveList<Peer, &Peer::retired_hook> retired_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_PEERS_H_
