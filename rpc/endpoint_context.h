// EndpointContext: what the parts of an endpoint share: the transport, the time, the limits, the counters, the sessions
// and their timers. The parts refer to it; the endpoint owns it.
#ifndef SKUA_RPC_ENDPOINT_CONTEXT_H_
#define SKUA_RPC_ENDPOINT_CONTEXT_H_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "rpc/base/check.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"
#include "rpc/mailbox.h"
#include "rpc/protocol/timer_heap.h"
#include "rpc/session_table.h"
#include "rpc/transport/one_sided.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// Thread: the endpoint's. `its_transport` and `its_clock` must outlive it.
struct EndpointContext {
  EndpointContext(Transport& its_transport, const Clock& its_clock, const EndpointOptions& its_options,
                  std::shared_ptr<EndpointMailbox> its_mailbox);
  EndpointContext(const EndpointContext&) = delete;
  EndpointContext& operator=(const EndpointContext&) = delete;

  Transport& transport;
  /// The transport's capabilities, copied because each packet needs them.
  const Capabilities capabilities;
  /// Null: the transport has no one-sided operations.
  OneSided* const one_sided;
  const Clock& clock;
  const EndpointOptions options;
  /// Reply tokens share it.
  const std::shared_ptr<EndpointMailbox> mailbox;
  EndpointCounters counters;
  /// The time of this turn. Between turns it may be old: see enter().
  TimeNs now_ns;
  /// The loop runs, or somebody whom it called.
  bool in_turn = false;
  /// Endpoint::keep_for(); null: no peer may have a reserved session.
  absl::AnyInvocable<bool(const EndpointIdentity& peer) const> may_have_reserved;
  /// For secret() in simulations.
  Rng rng;
  SessionTable sessions{options, [this] { return secret(); }};
  /// By session index.
  TimerHeap timers;

  /// Aborts on any thread but the endpoint's.
  void check_thread() const {
    SKUA_CHECK(mailbox->on_owner_thread(),
               "an endpoint was used from another thread than its owner's: use post(), or "
               "adopt_thread() after a hand-over");
  }
  /// For entry points that use the time. Between turns the time is set anew, to `known_now_ns` if it is not 0.
  void enter(TimeNs known_now_ns = 0) {
    check_thread();
    if (!in_turn) now_ns = known_now_ns == 0 ? clock.now_ns() : std::max(now_ns, known_now_ns);
  }
  /// A random number for generations, nonces and epochs. Nobody may guess it, not even from earlier ones.
  [[nodiscard]] uint64_t secret();
  void count_drop(DropReason reason) { ++counters.drops[static_cast<size_t>(reason)]; }
  /// Whether an accepted session of `peer` may be one of EndpointOptions::sessions_reserved.
  [[nodiscard]] bool is_kept_for(const EndpointIdentity& peer) const {
    return may_have_reserved && may_have_reserved(peer);
  }
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ENDPOINT_CONTEXT_H_
