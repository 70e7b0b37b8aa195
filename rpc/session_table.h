// SessionTable: the sessions of an endpoint, and what is counted of them.
//
//   add_dialled() -----------------------------------------------+
//                                                                |  end()          bury()
//   add_accepted() --> unproven --bind()--> bound to a peer -----+------> doomed ----------> free, for another session
//                                            |         ^         |
//                                    unbind() \       / bind()   |
//                                              at no peer -------+
//
// An entry is a place for sessions, one after the other; entries are never moved, and an index is always that of the
// same entry.
// A session has three names, each with its entry's index, and each of one life only:
//
//      handle_generation   the application's: SessionId. From add to end
//      wire_generation     on the wire: whoever knows it is believed to be the peer, so nobody may guess it. Of one
//                          connection: renew() makes another one
//      life                in records of bundles (session_handle()); counts with wire_generation
//
// Which sessions there may be: so many in all, the last of them kept for some; of one peer; of one host; and few that
// no packet came for, since offers cost their senders nothing. What an offer says of its sender is a claim, and is
// judged elsewhere (EndpointImpl::judge_offer()).
#ifndef SKUA_RPC_SESSION_TABLE_H_
#define SKUA_RPC_SESSION_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "rpc/endpoint.h"
#include "rpc/protocol/session.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct Association;

/// The peer of a session that is not bound to one: no packet comes from there.
inline constexpr PeerId kUnbound = kNoPeer - 1;

/// One session as the endpoint sees it: how it came to be, who is at the other end, and the protocol's part.
struct SessionEntry {
  enum class State : uint8_t {
    kFree,
    kConnecting,      // we send offers until an answer comes
    kAwaitingAnswer,  // the offer travels by another way
    kOpen,
    kDoomed,  // closed; destroyed at the end of the turn
  };

  [[nodiscard]] SessionId handle() const { return {index, handle_generation}; }
  [[nodiscard]] bool is_alive() const { return state != State::kFree && state != State::kDoomed; }

  State state = State::kFree;
  bool initiator = false;
  bool was_open = false;
  bool offer_due = false;
  bool link_lost = false;
  uint32_t index = 0;
  uint32_t handle_generation = 0;
  uint32_t wire_generation = 0;
  uint32_t attempts = 0;
  uint32_t remote_index = 0;  // of the offer or answer
  uint32_t remote_generation = 0;
  uint64_t nonce = 0;         // the offer's
  uint64_t offer_source = 0;  // whoever carried the offer said where it came from
  /// Whose packets are taken. Accepted sessions have none before their first packet, and while their connection is
  /// broken: then a packet that names the session's generation, which only the peer was told, says where it is.
  PeerId peer = kUnbound;
  PeerId claimed = kNoPeer;  // where an offer says that it is, if the transport needs to know
  uint64_t host = 0;         // the bound peer's
  bool proven = false;       // a packet of it came
  EndpointIdentity identity;
  TimeNs connecting_since_ns = 0;
  TimeNs next_attempt_ns = 0;
  TimeNs resend_at_ns = kTimeNever;
  TimeNs link_down_ns = kTimeNever;    // when the connection broke, if it was not made again since
  std::string answer;                  // accepted sessions: given again to a repeated offer
  uint8_t version = kProtocolVersion;  // that both speak
  uint32_t life = 0;                   // of the index, as records name it
  Association* association = nullptr;  // that the session is in, or asked to join
  TimeNs next_join_ns = kTimeNever;    // when it asks (again)
  uint32_t joins_unanswered = 0;       // in this association
  Ticks join_stamp = 0;                // accepted ones: the opener's clock when it asked to join
  std::unique_ptr<Session> session;
};

/// What an accepted session is made of: what becomes the fields of those names in SessionEntry.
struct AcceptedOffer {
  uint64_t nonce = 0;
  EndpointIdentity identity;
  uint32_t remote_index = 0;
  uint32_t remote_generation = 0;
  uint64_t offer_source = 0;
  PeerId claimed = kNoPeer;
  /// The session may be one of the last, which are kept (EndpointOptions::sessions_reserved).
  bool may_have_reserved = false;
};

/// Thread: the endpoint's, which owns it. References to entries stay valid as long as the table; a const table gives
/// entries that may be changed.
class SessionTable {
 public:
  /// `options` outlive the table. `secret` draws numbers that nobody may guess, not even from earlier ones.
  SessionTable(const EndpointOptions& options, absl::AnyInvocable<uint64_t()> secret)
      : options_(options), secret_(std::move(secret)) {}
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  // --- Looking up
  /// The entry of an index that a peer names, whatever its state; null: there is none.
  [[nodiscard]] SessionEntry* at(uint32_t index) const {
    return index < entries_.size() ? entries_[index].get() : nullptr;
  }
  /// Indices below have entries, some of them free.
  [[nodiscard]] uint32_t index_end() const { return static_cast<uint32_t>(entries_.size()); }
  /// Of an index of our own.
  [[nodiscard]] SessionEntry& operator[](uint32_t index) const { return *entries_[index]; }
  /// Null: it has ended.
  [[nodiscard]] SessionEntry* find(SessionId handle) const {
    SessionEntry* entry = at(handle.index);
    return entry != nullptr && entry->is_alive() && entry->handle_generation == handle.generation ? entry : nullptr;
  }
  /// The session of that offer, which may come again.
  [[nodiscard]] SessionEntry* find_accepted(uint64_t nonce, const Uuid& sender) const;
  /// The accepted session that is bound to `peer` and has that index there.
  [[nodiscard]] SessionEntry* find_bound(PeerId peer, uint32_t remote_index) const;
  /// The open session that has these names at `peer`. Looks at all.
  [[nodiscard]] SessionEntry* find_open(PeerId peer, uint32_t remote_index, uint32_t remote_generation) const;
  /// Each one that has a session, be it doomed. `visit` may add and end sessions.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i]->session != nullptr) visit(*entries_[i]);
    }
  }

  // --- Counting
  /// Those that live.
  [[nodiscard]] size_t size() const { return count_; }
  /// No room but for those that may have the reserved ones.
  [[nodiscard]] bool is_short() const {
    return count_ >= options_.sessions_max - std::min(options_.sessions_reserved, options_.sessions_max);
  }
  /// A session leads there: our own, or an accepted one that is bound to it.
  [[nodiscard]] bool is_used(PeerId peer) const { return dialled_.contains(peer) || accepted_from_.contains(peer); }
  /// May `peer`, at `host`, have one more? RESOURCE_EXHAUSTED names the limit.
  [[nodiscard]] absl::Status room_for(PeerId peer, uint64_t host) const;

  // --- Lives
  /// Entries for new sessions, with new names; the caller gives them a state, and their session (attach()).
  /// RESOURCE_EXHAUSTED: there are too many sessions.
  absl::StatusOr<SessionEntry*> add_dialled(PeerId peer, TimeNs now);
  absl::StatusOr<SessionEntry*> add_accepted(const AcceptedOffer& offer, TimeNs now);
  /// Gives an entry its session, and the session its names.
  static void attach(SessionEntry& entry, std::unique_ptr<Session> session);
  /// Names of another connection: nothing of the one before is believed. Later than those, for whoever has to tell them
  /// apart, by steps that nobody can guess: who had the session's index before knows that one's.
  void renew(SessionEntry& entry);
  /// An accepted session takes the packets of `peer`, at `host`; it was at none. There must be room (room_for()).
  void bind(SessionEntry& entry, PeerId peer, uint64_t host);
  /// Its connection broke: packets with its names may come from elsewhere.
  void unbind(SessionEntry& entry);
  /// What has to end before one more is accepted that no packet came for; null: nothing. Of the source that has most of
  /// them the oldest: who floods loses its own.
  [[nodiscard]] SessionEntry* excess_unproven() const;
  /// The session is doomed: nobody finds or counts it any more, but it is there until bury(). It was not doomed before.
  void end(SessionEntry& entry);
  [[nodiscard]] bool has_doomed() const { return !doomed_.empty(); }
  /// Destroys the sessions that have ended, each after `farewell` to it.
  void bury(absl::FunctionRef<void(SessionEntry&)> farewell);

 private:
  absl::StatusOr<SessionEntry*> take(bool may_have_reserved, TimeNs now);
  void uncount(const SessionEntry& entry);
  void prove(SessionEntry& entry);

  const EndpointOptions& options_;
  absl::AnyInvocable<uint64_t()> secret_;
  std::vector<std::unique_ptr<SessionEntry>> entries_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> doomed_;
  size_t count_ = 0;
  absl::flat_hash_map<PeerId, uint32_t> dialled_;                     // our own sessions, by peer
  absl::flat_hash_map<PeerId, uint32_t> accepted_from_;               // sessions bound, by peer
  absl::flat_hash_map<uint64_t, uint32_t> accepted_from_host_;        // and by host
  absl::flat_hash_map<std::pair<PeerId, uint32_t>, uint32_t> bound_;  // accepted: (peer, its session index) -> entry
  std::map<std::pair<uint64_t, Uuid>, uint32_t> accepted_;            // the offer's nonce and sender -> entry
  std::deque<uint32_t> unproven_;                                     // accepted, no packet came yet; the oldest first
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_TABLE_H_
