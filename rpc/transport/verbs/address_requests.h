// Which addresses are resolved, and in which order. Pure.
//
// Resolving an address that nobody reaches takes a second or more, and a process has one resolver. Claims may name any
// number of such addresses, so they must not keep the addresses waiting that this process dials itself.
#ifndef SKUA_RPC_TRANSPORT_VERBS_ADDRESS_REQUESTS_H_
#define SKUA_RPC_TRANSPORT_VERBS_ADDRESS_REQUESTS_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "rpc/base/clock.h"
#include "rpc/transport/peer_table.h"

namespace skua::rpc::verbs {

/// A handle older than this is made again, because the address may have moved to another machine.
inline constexpr DurationNs kResolveAgainAfter = 10 * kSecond;
/// How long a claim does not ask again for an address that could not be resolved; from when it was asked for.
inline constexpr DurationNs kClaimAgainAfter = 5 * kSecond;

/// A peer's address handle that was asked for before.
struct KnownHandle {
  bool pending = false;
  bool failed = false;
  PeerWord asked_by = PeerWord::kOwnDial;
  DurationNs age_ns = 0;
};

/// Whether a descriptor with the same address makes the handle be made again. `may_replace`: PeerTable's answer.
[[nodiscard]] inline bool must_resolve(const KnownHandle& known, PeerWord word, bool may_replace) {
  // An own dial does not wait among claims.
  if (known.pending) return word == PeerWord::kOwnDial && known.asked_by == PeerWord::kClaim;
  if (known.failed) return word == PeerWord::kOwnDial || known.age_ns >= kClaimAgainAfter;
  // A claim does not make a working address be resolved again, because packets are thrown away while it is resolved.
  return may_replace && known.age_ns >= kResolveAgainAfter;
}

/// Requests that wait for the resolver. Request: a struct with a std::shared_ptr `handle`, whose other owners wait for
/// it. Thread: one at a time.
template <typename Request>
class AddressRequests {
 public:
  static constexpr size_t kDialsMax = 1024;
  static constexpr size_t kClaimsMax = 256;

  /// False: too many of the kind wait.
  bool push(PeerWord word, Request request) {
    std::deque<Request>& queue = word == PeerWord::kClaim ? claims_ : dials_;
    const size_t most = word == PeerWord::kClaim ? kClaimsMax : kDialsMax;
    if (queue.size() >= most) std::erase_if(queue, [](const Request& waiting) { return is_given_up(waiting); });
    if (queue.size() >= most) return false;
    queue.push_back(std::move(request));
    return true;
  }
  /// The next one that somebody still waits for, own dials first; nothing: there is none.
  std::optional<Request> take() {
    for (std::deque<Request>* queue : {&dials_, &claims_}) {
      while (!queue->empty()) {
        Request next = std::move(queue->front());
        queue->pop_front();
        if (!is_given_up(next)) return next;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] bool empty() const { return dials_.empty() && claims_.empty(); }

 private:
  static bool is_given_up(const Request& request) { return request.handle.use_count() == 1; }

  std::deque<Request> dials_;
  std::deque<Request> claims_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_ADDRESS_REQUESTS_H_
