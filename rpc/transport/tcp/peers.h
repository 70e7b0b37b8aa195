// PeerTable: the remote endpoints that a TCP transport knows, and the link events that the engine has not polled yet.
//
// A PeerId is an index into this table, and engines keep PeerIds. Endpoints that the engine resolved are found by their
// uuid. Each caller has its own entry as long as its connection stands, whatever uuid the caller claims: no entry is
// found by a claim. Entries of callers that left are used again, the one that left longest ago first. That happens only
// after many callers have left, because the engine may still hold a packet for the old entry. A resolved entry stays
// until the table is full. Then one that no session uses and that has no connection is used again.
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

/// LinkEvents of one peer that poll_links() has not taken yet. At most two are kept: after a loss only the loss
/// matters, and whether a new connection stands.
struct PendingLinks {
  std::optional<LinkEvent> lost;
  std::optional<LinkEvent> up;

  void push(LinkEvent event);
  [[nodiscard]] bool empty() const { return !lost.has_value() && !up.has_value(); }
};

struct Peer {
  Peer(PeerId id, const Uuid& uuid, TxQueue::Limits limits) : id(id), uuid(uuid), tx(limits) {}

  const PeerId id;
  /// For a caller: the uuid that it claims.
  Uuid uuid;
  /// True: the engine resolved the peer and may send to it at any time. False: the entry belongs to a caller.
  bool resolved = false;
  /// Where a resolved peer listens; none: the peer cannot be dialled.
  SocketAddress address;
  /// Hash of the IP address at the other end of the connection.
  uint64_t host = 0;

  /// The connection that stands, and the dial in progress. Not owned.
  Connection* link = nullptr;
  Connection* dial = nullptr;
  TxQueue tx;
  /// Has packets of the running tx_burst.
  bool dirty = false;
  /// To be dialled although nothing is queued, because the engine asked for a frame.
  bool wanted = false;

  /// The kernel copied zero-copy writes to this peer anyway.
  bool copies_anyway = false;

  /// Failed dials and short-lived connections in a row.
  uint32_t failures = 0;
  TimeNs retry_at_ns = 0;
  /// Waits for retry_at_ns, then dials.
  bool waits_to_dial = false;

  PendingLinks pending;
  ListHook pending_hook;
  ListHook retired_hook;
};

/// Thread: the transport's.
class PeerTable {
 public:
  PeerTable(size_t peers_max, TxQueue::Limits limits) : peers_max_(peers_max), limits_(limits) {}

  /// Says which resolved peers have sessions. Null, as at the start: all do. Must outlive the table, or be replaced.
  void set_peer_use(const PeerUse* use) { use_ = use; }
  /// The entry of `uuid` to dial, made if there is none. RESOURCE_EXHAUSTED: peers_max entries, none to be used again.
  absl::StatusOr<Peer*> resolve(const Uuid& uuid);
  /// A new entry for a caller that claims `uuid`. Errors as for resolve().
  absl::StatusOr<Peer*> add_caller(const Uuid& uuid);
  /// `peer` lost its connection. If it is a caller, its entry may be used again.
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
  Peer* take_unused();

  const size_t peers_max_;
  const TxQueue::Limits limits_;
  std::vector<std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<std::array<uint8_t, 16>, PeerId> resolved_;
  IntrusiveList<Peer, &Peer::pending_hook> pending_;
  /// Entries of callers that left, the longest ago first.
  IntrusiveList<Peer, &Peer::retired_hook> retired_;
  size_t retired_count_ = 0;
  const PeerUse* use_ = nullptr;
  size_t unused_from_ = 0;  // where take_unused() goes on looking
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_PEERS_H_
