// PeerTable: the remote endpoints a transport knows, and what there is to tell the engine about
// them.
//
// A PeerId is an index here: engines hold on to it. Endpoints that the engine resolved are found by their uuids. Each caller has an
// entry of its own for as long as its connection stands, whatever it says of itself: nobody is found by a claim. The entries of
// callers that left are used again, the one that left longest ago first, and not before many have left since: the engine may have a
// packet for it in hand.
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
  /// Of a caller: what it says.
  Uuid uuid;
  /// The engine asked for it, and may send to it at any time. Otherwise a caller's.
  bool resolved = false;
  /// Where it listens, if it was resolved; none: it cannot be dialled.
  SocketAddress address;
  /// Of the address that the connection comes from, or goes to.
  uint64_t host = 0;

  /// The connection that stands, and our attempt to make one. Not owned.
  Connection* link = nullptr;
  Connection* dial = nullptr;
  TxQueue tx;
  /// Has packets of the running tx_burst.
  bool dirty = false;
  /// To be dialled, though nothing is queued: the engine asked for a frame.
  bool wanted = false;

  /// Writes by zero copy were copied by the kernel on the way there.
  bool copies_anyway = false;

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

  /// The peer of `uuid` to dial, made if need be. RESOURCE_EXHAUSTED: peers_max, all of them in use.
  absl::StatusOr<Peer*> resolve(const Uuid& uuid);
  /// An entry for a caller, who says that it is `uuid`. Errors as above.
  absl::StatusOr<Peer*> add_caller(const Uuid& uuid);
  /// `peer` lost its connection; if it is a caller's, its entry may be given away.
  void retire(Peer& peer);
  [[nodiscard]] size_t size() const { return peers_.size(); }
  [[nodiscard]] Peer& at(PeerId id) { return *peers_[id]; }
  [[nodiscard]] const Peer& at(PeerId id) const { return *peers_[id]; }

  /// Queues `event` for poll().
  void push_event(LinkEvent event);
  size_t poll(std::span<LinkEvent> events);
  [[nodiscard]] bool has_events() { return !pending_.empty(); }

 private:
  absl::StatusOr<Peer*> new_entry(const Uuid& uuid);
  Peer* take_retired();

  const size_t peers_max_;
  const TxQueue::Limits limits_;
  std::vector<std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<std::array<uint8_t, 16>, PeerId> resolved_;
  IntrusiveList<Peer, &Peer::pending_hook> pending_;
  /// Longest first.
  IntrusiveList<Peer, &Peer::retired_hook> retired_;
  size_t retired_count_ = 0;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_PEERS_H_
