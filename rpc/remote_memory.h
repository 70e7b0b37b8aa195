// Remote memory: regions at a peer that are read, written and updated without a handler of the application taking part.
//
//   user                                           owner
//   RemoteMemory                                   RemoteMemoryHost (nothing is offered without one)
//     allocate(session, bytes, rights, lease) ----->  a region in an arena of its own, zeroed, under a random key
//     read / write / fetch_add / compare_swap ----->  bounds, rights, session and lease are checked for each
//     write with a notice -------------------------->  ... and the owner is told: on_notice(key, notice, offset, bytes)
//     open(session, name, rights, lease) ---------->  the same for memory that the owner publishes: all who open it
//                                                     share it
//     renew, free --------------------------------->  a region ends by free, by its lease, by revoke(), or with the session
//                                                      that allocated or opened it; its key is then worth nothing
//
// Two ways. Where the transport has operations on memory of its own (rpc/transport/one_sided.h) and a connection for them stands when a
// region is granted, the grant says how the transport reaches it, and READ, WRITE and atomics are posted there: the owner's processor
// takes no part. Writes with a notice are posted as well, from the second one on, where the transport can send one with
// them (rpc/notice_ring.h). Everywhere else, and for what remains, they are calls of the engine. So a program written
// to this runs over every transport.
//
//               user's side                      owner's side
//   by calls    bounds                           session, lease, rights, bounds: for each operation
//   directly    session, lease, rights, bounds   the region's key in the adapter: opened with the rights, for these bytes and no others;
//                                                closed when the region ends, the lease's end included, before its memory is used again
//
// A direct operation that fails breaks the transport's connection, which comes back by itself. A read is then done by a call. A write
// or an atomic may have run and is never done again: the owner is asked by a call what is wrong with the region, and if nothing is,
// the outcome is UNAVAILABLE with may_have_executed. Operations that find no connection go by calls, but for atomics:
//
// Atomics of one region have one way, for adapters' atomics and a processor's know nothing of each other. A region that was granted for
// direct use has the adapter's: they wait for a connection within their deadline, the owner refuses them by call (FAILED_PRECONDITION),
// and its own std::atomic_ref on local() is not atomic towards them. Of other regions they are the processor's.
// Published memory has the adapter's for all who open it, if the adapter has any.
//
// A key belongs to the session that it was granted to, by calls. Directly it is the adapter's key and whoever is connected and knows it
// reaches that region; it is random in part, told to one peer, and worth nothing after close. Peers are trusted not to pass it on.
//
// Operations are at most once, have deadlines (a direct one that is posted ends by the adapter's own time limits instead) and typed
// outcomes:
//   OK                     done; for atomics CallOutcome's counterpart RemoteOutcome::previous is what was there before
//   NOT_FOUND              no such region: freed, expired, revoked, or never granted to this session
//   OUT_OF_RANGE           not within the region
//   PERMISSION_DENIED      the region was granted without this right
//   INVALID_ARGUMENT       an atomic that is not 8-byte aligned; more bytes than one message carries
//   RESOURCE_EXHAUSTED     a bound here or there; the message says which
//   UNIMPLEMENTED          the peer has no RemoteMemoryHost
//   FAILED_PRECONDITION    an atomic by call on a region whose atomics are the adapter's
//   and what any call can end with (DEADLINE_EXCEEDED, UNAVAILABLE, ABORTED, CANCELLED); `may_have_executed` tells the rest.
//
// A write with a notice that is OK is in place. The owner's observer has run, or runs in a turn soon after: it sees the
// bytes, or what was written over them since.
//
// Order: operations of one session may run in any order; wait for one to complete before what depends on it is started. Reads and
// writes of the same bytes at the same time see any mixture; atomics (8 bytes, little endian) are atomic towards each other.
#ifndef SKUA_RPC_REMOTE_MEMORY_H_
#define SKUA_RPC_REMOTE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/endpoint.h"
#include "rpc/transport/one_sided.h"

namespace skua::rpc {

/// The last method number: an endpoint that hosts or uses remote memory cannot serve another handler under it.
inline constexpr MethodId kRemoteMemoryMethod = kMethodMax - 1;

namespace remote_rights {
inline constexpr uint8_t kRead = memory_rights::kRead;
inline constexpr uint8_t kWrite = memory_rights::kWrite;
inline constexpr uint8_t kAtomic = memory_rights::kAtomic;
inline constexpr uint8_t kAll = memory_rights::kAll;
}  // namespace remote_rights

/// A region granted by a peer. A plain value; knowing it is not enough, it is bound to its session.
struct RemoteRegion {
  SessionId session;
  uint64_t key = 0;
  uint64_t bytes = 0;
  uint8_t rights = 0;
  /// When the lease ends unless renewed, by this side's clock (counted from the request, so never late).
  TimeNs expires_ns = 0;
  /// RemoteMemory's record of it.
  uint32_t grant = UINT32_MAX;
};

struct RemoteOutcome {
  absl::Status status;
  /// Atomics that are OK: the value before.
  uint64_t previous = 0;
  /// Not OK: it ran or may have run at the peer.
  bool may_have_executed = false;
};

/// One operation. Memory named here is used until the operation's completion ran: by then no transport touches it.
struct RemoteOperation {
  enum class Kind : uint8_t { kRead, kWrite, kWriteWithNotice, kFetchAdd, kCompareSwap };
  Kind kind = Kind::kRead;
  uint64_t offset = 0;
  MutableByteSpan to{};   ///< kRead: filled
  ByteSpan from{};        ///< kWrite, kWriteWithNotice: sent
  uint32_t notice = 0;    ///< kWriteWithNotice
  uint64_t operand = 0;   ///< kFetchAdd: addend (wraps); kCompareSwap: the value to put
  uint64_t expected = 0;  ///< kCompareSwap: it is put only if this is there
};

/// The using side, over one endpoint. Thread: the endpoint's. Outlives its operations: destroy it after the endpoint, or when all
/// have completed.
class RemoteMemory {
 public:
  struct Options {
    /// Operations in flight; one more is RESOURCE_EXHAUSTED.
    uint32_t operations_max = 4096;
    DurationNs timeout_ns = 5 * kSecond;
    /// Largest read or write: what one message carries.
    uint32_t operation_max_bytes = 16u << 20;
    /// How long a region's allocation may wait for the transport's connection, if there is none yet. 0: calls alone, always.
    DurationNs connect_patience_ns = 200 * kMillisecond;
  };
  struct Counters {
    uint64_t by_call = 0;
    uint64_t direct = 0;         ///< by the transport, and of these
    uint64_t direct_failed = 0;  ///< failed after they were posted
  };
  using Granted = absl::AnyInvocable<void(absl::StatusOr<RemoteRegion>)>;
  using Done = absl::AnyInvocable<void(RemoteOutcome&&)>;
  /// `index`: which of the batch.
  using BatchDone = absl::AnyInvocable<void(size_t index, RemoteOutcome&&)>;

  RemoteMemory(Endpoint& endpoint, const Options& options);
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  /// Asks the peer for `bytes` of zeroed memory for `lease_ns`. An error returned here: `granted` never runs.
  absl::Status allocate(SessionId session, uint64_t bytes, uint8_t rights, DurationNs lease_ns, Granted granted);
  /// Asks the peer for the memory that it publishes under `name`; `granted` gets to know how large that is. NOT_FOUND:
  /// there is none; PERMISSION_DENIED: not with these rights. Atomics need no handle of their own: see above.
  absl::Status open(SessionId session, std::string_view name, uint8_t rights, DurationNs lease_ns, Granted granted);
  /// Prolongs the lease, counted from now; `granted` gets the region with its new end.
  absl::Status renew(const RemoteRegion& region, DurationNs lease_ns, Granted granted);
  absl::Status free(const RemoteRegion& region, Done done);

  /// Starts one operation; `done` runs exactly once unless an error is returned here.
  absl::Status submit(const RemoteRegion& region, const RemoteOperation& operation, Done done);
  /// Starts all of them; if the first cannot start, returns why and `done` never runs. Else it runs once for each, in any order.
  absl::Status submit_batch(const RemoteRegion& region, std::span<const RemoteOperation> operations, BatchDone done);

  absl::Status read(const RemoteRegion& region, uint64_t offset, MutableByteSpan to, Done done);
  absl::Status write(const RemoteRegion& region, uint64_t offset, ByteSpan from, Done done);
  absl::Status fetch_add(const RemoteRegion& region, uint64_t offset, uint64_t addend, Done done);
  absl::Status compare_swap(const RemoteRegion& region, uint64_t offset, uint64_t expected, uint64_t desired,
                            Done done);

  [[nodiscard]] size_t operations_in_flight() const;
  [[nodiscard]] const Counters& counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The owning side, over one endpoint. Thread: the endpoint's. Make it before the endpoint's first poll(); it may end before or after
/// the endpoint (answers on their way keep its memory). Once it has ended, requests are refused.
class RemoteMemoryHost {
 public:
  struct Options {
    /// Of all regions together, an arena of their own.
    size_t memory_max_bytes = size_t{256} << 20;
    uint64_t region_max_bytes = uint64_t{16} << 20;
    uint32_t regions_max = 4096;
    /// Leases are cut to this.
    DurationNs lease_max_ns = 60 * kSecond;
    /// Says no to a peer by an error; null: every peer of the cluster may allocate and open.
    std::function<absl::Status(const EndpointIdentity& peer, uint64_t bytes, uint8_t rights)> admit;
    /// For simulations only: seeds the keys, and two hosts of one seed give out the same. 0: the system draws them.
    uint64_t simulation_seed = 0;
  };
  struct Notice {
    /// The region's; of memory that is published, as publish() returned it.
    uint64_t key = 0;
    uint32_t notice = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  struct Counters {
    uint64_t granted = 0;
    uint64_t opened = 0;      ///< of those, for the transport
    uint64_t freed = 0;       ///< by their users
    uint64_t expired = 0;     ///< by lease
    uint64_t revoked = 0;     ///< by revoke() or with their session
    uint64_t operations = 0;  ///< by calls; the transport's are not seen here,
    uint64_t notices = 0;     ///< but for notices that came by it
    uint64_t refused = 0;     ///< malformed, out of bounds, without right, stale key
  };

  RemoteMemoryHost(Endpoint& endpoint, const Options& options);
  ~RemoteMemoryHost();
  RemoteMemoryHost(const RemoteMemoryHost&) = delete;
  RemoteMemoryHost& operator=(const RemoteMemoryHost&) = delete;

  /// Zeroed memory that peers may open by `name` (1 to 64 bytes) with these rights or some of them, each for a lease of
  /// its own. Returns its key, for local() and revoke(), which ends it for all. ALREADY_EXISTS; INVALID_ARGUMENT;
  /// RESOURCE_EXHAUSTED names the bound.
  absl::StatusOr<uint64_t> publish(std::string_view name, uint64_t bytes, uint8_t rights);
  /// Runs after a write with a notice is in the region.
  void on_notice(std::function<void(const Notice&)> observer);
  /// Pass every event of the endpoint on (Endpoint::on_session_event has one observer): regions go with their session.
  void on_session_event(const SessionEvent& event);
  /// Takes back what has expired; call now and then. Operations on expired regions are refused in any case.
  void reclaim();

  /// The region's memory, for the owner's own use; empty if there is no such region.
  [[nodiscard]] MutableByteSpan local(uint64_t key) const;
  /// The region ends now. False: there is none.
  bool revoke(uint64_t key);

  [[nodiscard]] const Counters& counters() const;
  [[nodiscard]] size_t region_count() const;
  /// Of living regions and of ended ones that answers are still being sent from.
  [[nodiscard]] size_t bytes_in_use() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_REMOTE_MEMORY_H_
