// RcHub: the connected queue pairs between this process and other processes, for the large messages of all its
// endpoints.
//
//    endpoint 1 (its thread) --+             +-- RcPair -- process B       one for each other process, however many
//    endpoint 2 (its thread) --+-- RcHub ----+-- RcPair -- process C       endpoints of both talk
//                      ^                     |
//                      +-- RcInbox <-- poll() <-- one completion queue for all pairs
//
// A worker with 2,000 client processes of 4 threads each has 2,000 pairs instead of 8,000, and 8 workers of one process
// have 2,000 together. A pair carries READs of messages and the windows that lend them. Separate connections
// (rc_connections.h) serve remote memory, endpoints of one process among themselves, and peers that do not know
// sharing.
//
// Names. The name of a process is a random number that its hub draws. What a peer says of its process is a claim, and
// the claim decides over whose pair messages are lent and READ. So when associations have a principal, a pair's name
// will contain it too: different principals must never share a pair. Today there is only one principal.
//
// Making. Endpoints carry the messages between hubs (rc_join.h): word_for() gives the message to send, on_word() takes
// a received one. All messages about one process go through one handshake, so two endpoints that begin at once make one
// pair.
//
// Completions. The id of a work request contains the number of its owner (an endpoint), besides the owner's own part.
// The thread that polls puts every completion into the inbox of its owner, and wakes the owner if it sleeps. An owner's
// number is used again only after a million other numbers, so no late completion reaches a wrong owner.
//
// Ends. A pair ends by an error that any user finds, by a message of the peer, when READs make no progress, or when its
// last user has left. It ends for all users at once; their inboxes tell them. Their messages then go in packets until
// the next pair stands. How one user leaves: RcConnections::leave() (rc_shared.cc).
#ifndef SKUA_RPC_TRANSPORT_VERBS_RC_HUB_H_
#define SKUA_RPC_TRANSPORT_VERBS_RC_HUB_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/transport/verbs/device.h"
#include "rpc/transport/verbs/rc_handshake.h"
#include "rpc/transport/verbs/rc_pair.h"
#include "rpc/transport/verbs/rc_queue.h"

namespace skua::rpc::verbs {

/// Thread: any, except construction and destruction.
class RcHub {
 public:
  static constexpr size_t kProcessesMax = 4096;
  static constexpr size_t kOwnersMax = 64;
  /// The most work requests of one owner that are on their way to the device.
  static constexpr uint32_t kOwnerDepth = 128;
  /// The bits of a work request's id: the epoch and the slot belong to the owner, between them is the owner's number.
  static constexpr uint64_t kSlotMask = 0x7ff;
  static constexpr uint32_t kOwnerShift = 11;
  static constexpr uint32_t kOwnerMask = 0xfffff;

  /// `device` must outlive it. If the device cannot share pairs, process() is 0 and the hub does nothing.
  RcHub(Device& device, Rng rng);
  /// All owners must have been removed (checked).
  ~RcHub();
  RcHub(const RcHub&) = delete;
  RcHub& operator=(const RcHub&) = delete;

  /// The number of this process. 0: the device has no READs or no windows, or its limits are too small.
  [[nodiscard]] uint64_t process() const { return process_; }

  /// Adds an endpoint, which gets its completions by `inbox` until remove_owner(). `inbox` is not owned. 0: too many
  /// endpoints.
  uint32_t add_owner(RcInbox& inbox);
  void remove_owner(uint32_t owner);

  /// The message to send about the pair with `process`. Makes the pair if there is none. nullopt: no pair can be made.
  std::optional<ConnectMessage> word_for(uint64_t process, TimeNs now);
  struct Heard {
    bool news = false;
    bool answer = false;
  };
  /// Takes a received message about the pair with `process`. `remote` is the address of its sender; the queue pair's
  /// numbers are taken from `word`. Heard::news: something has changed. Heard::answer: the peer needs an answer.
  Heard on_word(uint64_t process, const ConnectMessage& word, const RcQueue::Remote& remote, TimeNs now);
  struct Standing {
    std::shared_ptr<RcPair> pair;
    /// The same number at both ends; no other pair ever has it.
    uint64_t number = 0;
  };
  /// The pair, if both ends are bound to it; else nulls.
  [[nodiscard]] Standing standing(uint64_t process) const;
  /// True if READs with that process are held back because they made no progress.
  [[nodiscard]] bool is_held(uint64_t process, TimeNs now) const;
  /// Ends the pair for all its users. Returns the message to send to the other process; nullopt: the pair had already
  /// ended.
  std::optional<ConnectMessage> end(const RcPair& pair);
  /// Ends pairs that nobody uses or that the other process did not answer for.
  void sweep(TimeNs now);

  /// Puts completions into their owners' inboxes. `must`: every completion that has arrived is in its inbox when poll()
  /// returns. Otherwise another thread may still be putting it there.
  void poll(bool must);
  /// Readable after a completion that arrived after arm().
  [[nodiscard]] int fd() const { return channel_->fd; }
  void arm();
  /// Call when fd() was readable: distributes completions, and arms again for other threads that sleep.
  void on_event();

  [[nodiscard]] size_t pair_count() const;
  /// Counts of READs with one process; zeros if the process is not known.
  [[nodiscard]] PeerProgress::Counts counts(uint64_t process) const;

 private:
  static constexpr DurationNs kUnansweredMax = 2 * kSecond;

  /// The state for one other process. It outlives pairs.
  struct Entry {
    RcHandshake handshake;
    std::shared_ptr<RcPair> pair;
    std::shared_ptr<PeerProgress> progress = std::make_shared<PeerProgress>();
  };

  Entry* at(uint64_t process);
  bool make_pair(uint64_t process, Entry& entry, TimeNs now);
  static std::optional<ConnectMessage> word_of(const Entry& entry);
  static void end_pair(Entry& entry);
  void make_room();

  Device& device_;
  Rng rng_;
  uint64_t process_ = 0;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;

  // Lock order: this mutex, then a pair's, then an inbox's.
  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;
  TimeNs next_sweep_ns_ = 0;

  std::mutex poll_mutex_;
  std::map<uint32_t, RcInbox*> owners_;
  uint32_t last_owner_ = 0;
  std::mutex event_mutex_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_RC_HUB_H_
