// Remote memory: regions at a peer that are read, written and updated without a handler of the application.
//
//   user                                           owner
//   RemoteMemory                                   RemoteMemoryHost (without it, the endpoint offers no memory)
//     allocate(session, bytes, rights, lease) ----->  a region in an arena of its own, zeroed, under a random key
//     read / write / fetch_add / compare_swap ----->  bounds, rights, session and lease are checked for each
//     write with a notice -------------------------->  ... and the owner is told: on_notice(key, notice, offset, bytes)
//     open(session, name, rights, lease) ---------->  a region of memory that the owner publishes; all who open the
//                                                     name share the memory
//     renew, free --------------------------------->  a region ends by free, by its lease, by revoke(), or with the
//                                                     session that allocated or opened it; then its key is invalid
//
// Two ways. Some transports have operations on peers' memory (rpc/transport/one_sided.h). If a connection for them
// stands when a region is granted, the grant says how the transport reaches the region. READs, WRITEs and atomics are
// then posted to the transport (directly), and the owner's processor takes no part. Writes with a notice are posted as
// well, from the second one on, if the transport can send a notice with a WRITE (rpc/notice_ring.h). All other
// operations are calls of the engine. So a program that uses this interface runs over every transport.
//
//   what is checked, and where:
//
//               user's side                      owner's side
//   by calls    bounds, lease                    session, lease, rights, bounds: for each operation
//   directly    session, lease, rights, bounds   the region's key in the adapter: opened for these rights and these
//                                                bytes only; closed when the region ends (also when its lease ends),
//                                                before the memory is used again
//
// Failures. A direct operation that fails breaks the transport's connection; the transport makes it anew by itself. A
// failed read is repeated as a call. A failed write or atomic may have run, so it is never repeated: the user asks the
// owner by a call what is wrong with the region. If nothing is wrong, the outcome is UNAVAILABLE with
// may_have_executed. Operations that find no connection are made by calls, except atomics.
//
// Atomics. An adapter's atomics and a processor's are not atomic towards each other, so all atomics of one region go
// one way. If the region was granted for direct use, its atomics are the adapter's: they wait for a connection until
// their deadline, the owner refuses atomics by call (FAILED_PRECONDITION), and the owner's own std::atomic_ref on
// local() is not atomic towards them. The atomics of all other regions are the processor's. Published memory uses the
// adapter's atomics for all who open it, if the adapter has atomics.
//
// Keys. In calls, a key works only in the session that it was granted to. In direct operations it is the adapter's key:
// every connected peer that knows the key reaches the region. That key is partly random, is told to one peer only, and
// is invalid once the region is closed. Peers are trusted not to pass it on.
//
// Operations run at most once and have deadlines. (A direct operation that was posted ends by the adapter's own time
// limits instead.) Outcomes:
//   OK                     done; for atomics RemoteOutcome::previous is the value before
//   NOT_FOUND              no such region: freed, expired, revoked, or never granted to this session
//   OUT_OF_RANGE           not within the region
//   PERMISSION_DENIED      the region was granted without this right
//   INVALID_ARGUMENT       an atomic that is not 8-byte aligned; more bytes than one message carries
//   RESOURCE_EXHAUSTED     a limit was reached on this side or at the peer; the message says which
//   UNIMPLEMENTED          the peer has no RemoteMemoryHost
//   FAILED_PRECONDITION    an atomic by call on a region whose atomics are the adapter's
//   and every outcome of a call (DEADLINE_EXCEEDED, UNAVAILABLE, ABORTED, CANCELLED).
// RemoteOutcome::may_have_executed tells whether an operation that is not OK can have run.
//
// When a write with a notice is OK, its bytes are in place. The owner's observer has run, or runs in a turn soon after.
// It sees these bytes, or later writes over them.
//
// Order. Operations of one session may run in any order. If one depends on another, start it after the other's
// completion. Reads and writes of the same bytes at the same time see any mixture. Atomics (8 bytes, little endian) are
// atomic towards each other.
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

/// The method of remote memory, the last number. An endpoint that hosts or uses remote memory cannot serve another
/// handler under it.
inline constexpr MethodId kRemoteMemoryMethod = kMethodMax - 1;

namespace remote_rights {
inline constexpr uint8_t kRead = memory_rights::kRead;
inline constexpr uint8_t kWrite = memory_rights::kWrite;
inline constexpr uint8_t kAtomic = memory_rights::kAtomic;
inline constexpr uint8_t kAll = memory_rights::kAll;
}  // namespace remote_rights

/// A region granted by a peer. A plain value. It can be used only in the session that it was granted to.
struct RemoteRegion {
  SessionId session;
  uint64_t key = 0;
  uint64_t bytes = 0;
  uint8_t rights = 0;
  /// When the lease ends unless it is renewed, by this side's clock. Counted from the request's start, so it is never
  /// later than the owner's end.
  TimeNs expires_ns = 0;
  /// Index of RemoteMemory's record of the grant.
  uint32_t grant = UINT32_MAX;
};

struct RemoteOutcome {
  absl::Status status;
  /// For atomics that are OK: the value before.
  uint64_t previous = 0;
  /// For outcomes that are not OK: the operation ran or may have run at the peer.
  bool may_have_executed = false;
};

/// One operation. The memory in `to` and `from` is used until the operation's completion runs; then no transport
/// touches it any more.
struct RemoteOperation {
  enum class Kind : uint8_t { kRead, kWrite, kWriteWithNotice, kFetchAdd, kCompareSwap };
  Kind kind = Kind::kRead;
  uint64_t offset = 0;
  MutableByteSpan to{};   ///< kRead: filled
  ByteSpan from{};        ///< kWrite, kWriteWithNotice: sent
  uint32_t notice = 0;    ///< kWriteWithNotice: the number that the owner's observer gets
  uint64_t operand = 0;   ///< kFetchAdd: addend (wraps); kCompareSwap: the new value
  uint64_t expected = 0;  ///< kCompareSwap: the new value is stored only if this is the old one
};

/// The using side, over one endpoint. Thread: the endpoint's. Must outlive its operations: destroy it after the
/// endpoint, or when all operations have completed.
class RemoteMemory {
 public:
  struct Options {
    /// Limit for operations in flight; beyond it they fail with RESOURCE_EXHAUSTED.
    uint32_t operations_max = 4096;
    /// Time limit of each operation.
    DurationNs timeout_ns = 5 * kSecond;
    /// Largest read or write. Not more than one message carries.
    uint32_t operation_max_bytes = 16u << 20;
    /// How long an allocation waits for the transport's connection if none stands yet. 0: always use calls alone.
    DurationNs connect_patience_ns = 200 * kMillisecond;
  };
  struct Counters {
    uint64_t by_call = 0;
    uint64_t direct = 0;         ///< given to the transport
    uint64_t direct_failed = 0;  ///< of `direct`: failed after they were posted
  };
  using Granted = absl::AnyInvocable<void(absl::StatusOr<RemoteRegion>)>;
  using Done = absl::AnyInvocable<void(RemoteOutcome&&)>;
  /// `index`: the operation's place in the batch.
  using BatchDone = absl::AnyInvocable<void(size_t index, RemoteOutcome&&)>;

  RemoteMemory(Endpoint& endpoint, const Options& options);
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  /// Asks the peer for `bytes` of zeroed memory, for `lease_ns`. `granted` runs once if OK is returned, and never if an
  /// error is returned.
  absl::Status allocate(SessionId session, uint64_t bytes, uint8_t rights, DurationNs lease_ns, Granted granted);
  /// Asks the peer for the memory that it publishes under `name`. The region that `granted` gets says how large the
  /// memory is. NOT_FOUND: no memory has this name. PERMISSION_DENIED: it is not published with these rights. Atomics
  /// work as on an allocated region (see the head of this file).
  absl::Status open(SessionId session, std::string_view name, uint8_t rights, DurationNs lease_ns, Granted granted);
  /// Prolongs the lease to `lease_ns` from now. `granted` gets the region with its new end.
  absl::Status renew(const RemoteRegion& region, DurationNs lease_ns, Granted granted);
  /// Ends the region at the peer. Operations on it that are started later are NOT_FOUND.
  absl::Status free(const RemoteRegion& region, Done done);

  /// Starts one operation. `done` runs exactly once if OK is returned, and never if an error is returned.
  absl::Status submit(const RemoteRegion& region, const RemoteOperation& operation, Done done);
  /// Starts all operations. If OK is returned, `done` runs once for each, in any order. If an error is returned, no
  /// operation was started and `done` never runs.
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

/// The owning side, over one endpoint. Thread: the endpoint's. Make it before the endpoint's first poll(). It may be
/// destroyed before or after the endpoint; answers that are still being sent keep its memory. Requests that arrive
/// after its end are refused.
class RemoteMemoryHost {
 public:
  struct Options {
    /// Limit for the memory of all regions together. It comes from an arena that only the host uses.
    size_t memory_max_bytes = size_t{256} << 20;
    uint64_t region_max_bytes = uint64_t{16} << 20;
    uint32_t regions_max = 4096;
    /// Longer leases are cut to this.
    DurationNs lease_max_ns = 60 * kSecond;
    /// Called before a region is granted to `peer`; an error refuses it. Null: every peer may allocate and open.
    std::function<absl::Status(const EndpointIdentity& peer, uint64_t bytes, uint8_t rights)> admit;
    /// For simulations only. Above 0, keys follow from this seed, and two hosts with the same seed give out the same
    /// keys. 0: the system draws the seed.
    uint64_t simulation_seed = 0;
  };
  struct Notice {
    /// The region's key. For published memory: the key that publish() returned.
    uint64_t key = 0;
    uint32_t notice = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  struct Counters {
    uint64_t granted = 0;
    uint64_t opened = 0;      ///< regions opened to the transport
    uint64_t freed = 0;       ///< ended by their users
    uint64_t expired = 0;     ///< ended by their lease
    uint64_t revoked = 0;     ///< ended by revoke() or with their session
    uint64_t operations = 0;  ///< by calls; direct operations are not seen here
    uint64_t notices = 0;     ///< that the transport brought
    uint64_t refused = 0;     ///< malformed, out of bounds, without the right, stale key
  };

  RemoteMemoryHost(Endpoint& endpoint, const Options& options);
  ~RemoteMemoryHost();
  RemoteMemoryHost(const RemoteMemoryHost&) = delete;
  RemoteMemoryHost& operator=(const RemoteMemoryHost&) = delete;

  /// Makes zeroed memory that peers may open by `name` (1 to 64 bytes), with these rights or some of them. Each peer
  /// opens it for a lease of its own. Returns its key, for local() and revoke(); revoke() ends it for all who opened
  /// it. Errors: ALREADY_EXISTS, INVALID_ARGUMENT, RESOURCE_EXHAUSTED (the message names the limit).
  absl::StatusOr<uint64_t> publish(std::string_view name, uint64_t bytes, uint8_t rights);
  /// Sets the observer of notices. It runs once the bytes of a write with a notice are in the region.
  void on_notice(std::function<void(const Notice&)> observer);
  /// Pass every event of the endpoint to this function: regions end with their session. (An endpoint has only one
  /// observer, so the host cannot observe by itself.)
  void on_session_event(const SessionEvent& event);
  /// Ends the regions whose leases have expired. The endpoint's loop does so too. Operations on expired regions are
  /// refused in any case.
  void reclaim();

  /// The region's memory, for the owner's own use. Empty if no region has this key.
  [[nodiscard]] MutableByteSpan local(uint64_t key) const;
  /// Ends the region now. False: no region has this key.
  bool revoke(uint64_t key);

  [[nodiscard]] const Counters& counters() const;
  [[nodiscard]] size_t region_count() const;
  /// Memory of living regions, and of ended regions that answers are still being sent from.
  [[nodiscard]] size_t bytes_in_use() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_REMOTE_MEMORY_H_
