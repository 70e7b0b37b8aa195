// MemoryAccess: a transport's operations on peers' memory (rpc/transport/one_sided.h), run by the endpoint's loop. The
// user is a layer on top of the endpoint that lends memory (rpc/remote_memory.h).
//
//    start(operation) --> waiting --(a connection stands)--> posted --> complete(kDone or kFailed)
//                            +---(no connection, or none by the deadline; the session ended)--> complete(kNotRun)
//
// An operation belongs to one life of its session. What a peer granted is invalid once the session was lost: even if
// the same peer is connected again under the same SessionId, or another process runs at its address.
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
    kFailed,  // it was posted and may have run
    kNotRun,  // it was never posted
  };
  /// The caller owns the operation, and keeps it and the memory that it names until `complete` has run.
  struct Operation {
    ListHook hook;
    SessionId session;
    uint64_t life = 0;
    /// True: it waits for a connection until the deadline. False: it waits only for room, while a connection stands.
    bool patient = false;
    TimeNs deadline_ns = 0;
    /// True: nothing is posted. The operation is done once a connection stands.
    bool only_connect = false;
    /// The operation itself. The endpoint fills in peer and cookie.
    OneSidedOperation what;
    /// Runs once, from inside poll() or the endpoint's destructor. It may start operations and calls.
    void (*complete)(Operation& operation, Result result) = nullptr;
  };

  virtual ~MemoryAccess() = default;

  /// True: the transport has such operations. False: only call_at() is of use.
  [[nodiscard]] virtual bool offered() const = 0;

  // --- The user's side
  /// The life that the session is in; 0: no such session.
  [[nodiscard]] virtual uint64_t life_of(SessionId session) const = 0;
  /// True: a connection with the session's peer stands. False: none stands, and the transport is asked to make one.
  [[nodiscard]] virtual bool ready(SessionId session) = 0;
  virtual void start(Operation& operation) = 0;
  /// True: `bytes` may be OneSidedOperation::local. For other bytes, go through memory from allocate().
  [[nodiscard]] virtual bool usable(ByteSpan bytes) const = 0;
  virtual absl::StatusOr<Buffer> allocate(size_t bytes) = 0;

  // --- The owner's side
  /// As in OneSided.
  virtual absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) = 0;
  virtual void close_region(uint32_t key) = 0;
  /// As OneSided::reserve_notices(), for the peer that the session is bound to now. Returns this peer, to give to
  /// release_notices(). kNoPeer: nothing was reserved.
  virtual PeerId reserve_notices(SessionId session, uint32_t count) = 0;
  virtual void release_notices(PeerId peer, uint32_t count) = 0;
  /// Notices go to `observer`, from inside poll(). Null: they are dropped. An endpoint has one such observer.
  virtual void on_notice(absl::AnyInvocable<void(PeerId from, uint32_t number)> observer) = 0;
  /// `task` runs once, in the first poll() from `when` on. It replaces the task that was set before. The endpoint's
  /// destructor drops it.
  virtual void call_at(TimeNs when, absl::AnyInvocable<void()> task) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MEMORY_ACCESS_H_
