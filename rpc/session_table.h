// SessionTable: the sessions of an endpoint, and how many there are of each kind.
//
//   add_dialled() -----------------------------------------------+
//                                                                |  end()          bury()
//   add_accepted() --> unproven --bind()--> bound to a peer -----+------> doomed ----------> free, for another session
//                                            |         ^         |
//                                    unbind() \       / bind()   |
//                                              at no peer -------+
//
// An entry holds one session after another. Entries are never moved: an index always names the same entry.
// A session has three names. Each consists of the entry's index and a number, and names one life only:
//
//      handle_generation   the application's: SessionId. From add to end
//      wire_generation     on the wire. A sender that knows it is taken for the peer, so nobody may guess it. It names
//                          one connection: renew() makes another one
//      life                in records of bundles (session_handle()); changes together with wire_generation
//
// Limits: the number of all sessions, of which some are reserved; of one peer's; of one host's; and of unproven
// sessions, from which no packet came yet, since an offer costs its sender nothing. What an offer says about its sender
// is only a claim. SessionAcceptor judges it.
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

/// SessionEntry::peer of a session that is not bound to a peer. No packet comes from this value.
inline constexpr PeerId kUnbound = kNoPeer - 1;

/// One session as the endpoint sees it: its history, its peer, and the protocol's part.
struct SessionEntry {
  enum class State : uint8_t {
    kFree,
    kConnecting,      // we send offers until an answer comes
    kAwaitingAnswer,  // another channel carries the offer
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
  uint32_t remote_index = 0;  // from the offer or answer
  uint32_t remote_generation = 0;
  uint64_t nonce = 0;         // of the offer
  uint64_t offer_source = 0;  // where the offer came from, as its carrier said
  /// The peer whose packets are taken. Accepted sessions have none before their first packet, and while their
  /// connection is broken. Then they are bound to the sender of a packet that names their generation: only the peer was
  /// told it.
  PeerId peer = kUnbound;
  PeerId claimed = kNoPeer;  // the address that the offer claims, if the transport needs one
  PeerId channel = kNoPeer;  // accepted, with keys: the peer that has them
  uint64_t host = 0;         // of the bound peer
  bool proven = false;       // a packet came from the peer
  EndpointIdentity identity;
  TimeNs connecting_since_ns = 0;
  TimeNs next_attempt_ns = 0;
  TimeNs resend_at_ns = kTimeNever;
  TimeNs link_down_ns = kTimeNever;    // when the connection broke; kTimeNever: it stands again, or never broke
  std::string answer;                  // accepted sessions: the answer, sent again if the offer is repeated
  uint8_t version = kProtocolVersion;  // the version that both speak
  uint32_t life = 0;                   // the number that records use with the index
  Association* association = nullptr;  // the one that the session is in, or asked to join
  TimeNs next_join_ns = kTimeNever;    // when the session asks (again) to join
  uint32_t joins_unanswered = 0;       // joins of this association without an answer
  Ticks join_stamp = 0;                // accepted sessions: the opener's clock when it asked to join
  std::unique_ptr<Session> session;
};

/// What add_accepted() needs. The values go to the fields of the same names in SessionEntry.
struct AcceptedOffer {
  uint64_t nonce = 0;
  EndpointIdentity identity;
  uint32_t remote_index = 0;
  uint32_t remote_generation = 0;
  uint64_t offer_source = 0;
  PeerId claimed = kNoPeer;
  /// The session may use one of EndpointOptions::sessions_reserved.
  bool may_have_reserved = false;
};

/// Thread: the endpoint's, which owns the table. References to entries stay valid as long as the table lives. A const
/// table returns entries that may be changed.
class SessionTable final : public PeerUse {
 public:
  /// `options` must outlive the table. `secret` draws numbers that nobody may guess, not even from earlier ones.
  SessionTable(const EndpointOptions& options, absl::AnyInvocable<uint64_t()> secret)
      : options_(options), secret_(std::move(secret)) {}
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  // --- Looking up
  /// The entry at an index that a peer named, in any state. Null: no such entry.
  [[nodiscard]] SessionEntry* at(uint32_t index) const {
    return index < entries_.size() ? entries_[index].get() : nullptr;
  }
  /// One more than the largest index of an entry. Some of the entries are free.
  [[nodiscard]] uint32_t index_end() const { return static_cast<uint32_t>(entries_.size()); }
  /// The entry at one of this endpoint's own indices (not checked).
  [[nodiscard]] SessionEntry& operator[](uint32_t index) const { return *entries_[index]; }
  /// Null: the session has ended.
  [[nodiscard]] SessionEntry* find(SessionId handle) const {
    SessionEntry* entry = at(handle.index);
    return entry != nullptr && entry->is_alive() && entry->handle_generation == handle.generation ? entry : nullptr;
  }
  /// The session that this offer made. Null: none. For offers that come again.
  [[nodiscard]] SessionEntry* find_accepted(uint64_t nonce, const Uuid& sender) const;
  /// The accepted session that is bound to `peer` and has this index at the peer.
  [[nodiscard]] SessionEntry* find_bound(PeerId peer, uint32_t remote_index) const;
  /// The open session that has this index and generation at `peer`. Looks at all sessions.
  [[nodiscard]] SessionEntry* find_open(PeerId peer, uint32_t remote_index, uint32_t remote_generation) const;
  /// Visits each entry that has a session, doomed ones too. `visit` may add and end sessions.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i]->session != nullptr) visit(*entries_[i]);
    }
  }

  // --- Counting
  /// The number of living sessions.
  [[nodiscard]] size_t size() const { return count_; }
  /// Only the reserved sessions are left.
  [[nodiscard]] bool is_short() const {
    return count_ >= options_.sessions_max - std::min(options_.sessions_reserved, options_.sessions_max);
  }
  // PeerUse: a session leads to `peer`, be it our own or an accepted one that is bound to `peer`; or an accepted
  // session of this claimed peer is bound to no peer.
  [[nodiscard]] bool is_used(PeerId peer) const override {
    return dialled_.contains(peer) || accepted_from_.contains(peer);
  }
  [[nodiscard]] bool is_awaited(PeerId claimed) const override { return awaited_.contains(claimed); }
  /// OK: `peer`, at `host`, may open one more session. RESOURCE_EXHAUSTED names the limit.
  [[nodiscard]] absl::Status room_for(PeerId peer, uint64_t host) const;

  // --- Lives
  /// Takes an entry for a new session, with new names. The caller sets its state, and its session (attach()).
  /// RESOURCE_EXHAUSTED: a limit of sessions is reached.
  absl::StatusOr<SessionEntry*> add_dialled(PeerId peer, TimeNs now);
  absl::StatusOr<SessionEntry*> add_accepted(const AcceptedOffer& offer, TimeNs now);
  /// The session that was dialled leads to `peer` instead. No packet of it was sent yet.
  void lead_to(SessionEntry& entry, PeerId peer);
  /// Gives an entry its session, and the session its names.
  static void attach(SessionEntry& entry, std::unique_ptr<Session> session);
  /// Gives the entry new names for another connection, so that nothing of the connection before is believed. The new
  /// generation is later than the old one, so that the two can be ordered. The step between them cannot be guessed,
  /// because an earlier peer of this index knows the old generation.
  void renew(SessionEntry& entry);
  /// Binds an accepted session to `peer` at `host`: it takes the packets of this peer. It was bound to no peer. There
  /// must be room (room_for()).
  void bind(SessionEntry& entry, PeerId peer, uint64_t host);
  /// The session's connection broke: packets with its names may come from another peer.
  void unbind(SessionEntry& entry);
  /// The unproven session that has to end before one more is accepted; null: there is room. It is the oldest of the
  /// source that has most unproven sessions, so that a source that floods loses its own.
  [[nodiscard]] SessionEntry* excess_unproven() const;
  /// Dooms the session: it is not found or counted any more, but its entry stays until bury(). It must not be doomed
  /// yet.
  void end(SessionEntry& entry);
  [[nodiscard]] bool has_doomed() const { return !doomed_.empty(); }
  /// Destroys the doomed sessions, each after a call of `farewell` with its entry.
  void bury(absl::FunctionRef<void(SessionEntry&)> farewell);

 private:
  absl::StatusOr<SessionEntry*> take(bool may_have_reserved, TimeNs now);
  void uncount(const SessionEntry& entry);
  void await(const SessionEntry& entry);
  void stop_awaiting(const SessionEntry& entry);
  void prove(SessionEntry& entry);

  const EndpointOptions& options_;
  absl::AnyInvocable<uint64_t()> secret_;
  std::vector<std::unique_ptr<SessionEntry>> entries_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> doomed_;
  size_t count_ = 0;
  absl::flat_hash_map<PeerId, uint32_t> dialled_;                     // our own sessions, by peer
  absl::flat_hash_map<PeerId, uint32_t> accepted_from_;               // accepted and bound sessions, by peer
  absl::flat_hash_map<uint64_t, uint32_t> accepted_from_host_;        // accepted and bound sessions, by host
  absl::flat_hash_map<PeerId, uint32_t> awaited_;                     // accepted, bound to no peer; by claimed peer
  absl::flat_hash_map<std::pair<PeerId, uint32_t>, uint32_t> bound_;  // accepted: (peer, its session index) -> entry
  std::map<std::pair<uint64_t, Uuid>, uint32_t> accepted_;            // the offer's nonce and sender -> entry
  std::deque<uint32_t> unproven_;                                     // accepted, no packet came yet; oldest first
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_SESSION_TABLE_H_
