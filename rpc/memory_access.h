// MemoryAccess: a transport's operations on peers' memory (rpc/transport/one_sided.h), run by the endpoint's loop for what stands upon the
// endpoint and lends memory (rpc/remote_memory.h).
//
//    start(operation) --> waiting --(a connection stands)--> posted --> complete(kDone or kFailed)
//                            +---(none, or none until its deadline; the session is over)--> complete(kNotRun)
//
// An operation belongs to one life of its session: what a peer granted is worth nothing once the session was lost, be it that the
// same peer is connected again under the same SessionId, or another process at its address.
//
// Thread: the endpoint's.
#ifndef SKUA_RPC_MEMORY_ACCESS_H_
#define SKUA_RPC_MEMORY_ACCESS_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/endpoint.h"
#include "rpc/memory/buffer_pool.h"
#include "rpc/transport/one_sided.h"

namespace skua::rpc {

class MemoryAccess {
 public:
  enum class Result : uint8_t {
    kDone,
    kFailed,  // it was posted: it may have run
    kNotRun,  // it was not
  };
  /// Its owner keeps it, and the memory it names, until `complete` ran.
  struct Operation {
    ListHook hook;
    SessionId session;
    uint64_t life = 0;
    /// Waits for a connection until the deadline. If not, it waits for room alone, while a connection stands.
    bool patient = false;
    TimeNs deadline_ns = 0;
    /// Nothing is posted: it is done once a connection stands.
    bool only_connect = false;
    /// All but peer and cookie, which are the endpoint's to fill in.
    OneSidedOperation what;
    /// Runs once, from inside poll() or the endpoint's destructor. It may start operations and calls.
    void (*complete)(Operation& operation, Result result) = nullptr;
  };

  virtual ~MemoryAccess() = default;

  /// The transport has such operations. If not, all but call_at() is of no use.
  [[nodiscard]] virtual bool offered() const = 0;

  // --- The user's side
  /// Which life the session is in; 0: no such session.
  [[nodiscard]] virtual uint64_t life_of(SessionId session) const = 0;
  /// A connection with the session's peer stands; if not, it is asked for.
  [[nodiscard]] virtual bool ready(SessionId session) = 0;
  virtual void start(Operation& operation) = 0;
  /// May be OneSidedOperation::local. What is not goes through memory that is:
  [[nodiscard]] virtual bool usable(ByteSpan bytes) const = 0;
  virtual absl::StatusOr<Buffer> allocate(size_t bytes) = 0;

  // --- The owner's side
  /// As OneSided.
  virtual absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) = 0;
  virtual void close_region(uint32_t key) = 0;
  /// As OneSided::reserve_notices(), for the peer that the session is bound to now. kNoPeer: not so. What was reserved
  /// is given back by peer.
  virtual PeerId reserve_notices(SessionId session, uint32_t count) = 0;
  virtual void release_notices(PeerId peer, uint32_t count) = 0;
  /// Notices go to `observer`, from inside poll(); null: nobody. One for the endpoint.
  virtual void on_notice(absl::AnyInvocable<void(PeerId from, uint32_t number)> observer) = 0;
  /// `task` runs once in the first poll() from `when` on, instead of the one that was set before. The endpoint's end drops it.
  virtual void call_at(TimeNs when, absl::AnyInvocable<void()> task) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MEMORY_ACCESS_H_
