// RcHub: the connected queue pairs that a process has with other processes, for the large messages of all its
// endpoints.
//
//    endpoint 1 (its thread) --+             +-- RcPair -- process B       one for each other process, however many
//    endpoint 2 (its thread) --+-- RcHub ----+-- RcPair -- process C       endpoints of both talk
//                      ^                     |
//                      +-- RcInbox <-- poll() <-- one completion queue for all pairs
//
// A worker with 2,000 client processes of 4 threads each has 2,000 pairs rather than 8,000, and 8 workers of one
// process have 2,000 together. A pair carries READs of messages, and the windows by which they are lent. Remote memory
// has connections of its own (rc_connections.h), as have endpoints of one process among themselves and peers that do
// not know of sharing.
//
// Names. A process is a random number, drawn by its hub. What peers say of their process is a claim. It decides over
// whose pair messages are lent and READ, so a pair's name will have a principal as well as soon as associations have
// one: different principals never share a pair. There is one today.
//
// Making. Endpoints carry what hubs say to each other (rc_join.h): word_for() is what to say, on_word() what was heard.
// All words about one process go through one handshake, so that two endpoints that begin at once make one pair.
//
// Completions. A work request's id names its owner, an endpoint, besides what that one puts there. Whoever polls brings
// every completion to its owner's inbox, and wakes the owner if it sleeps. An owner's number is not used again for a
// million others, so that nothing late reaches a wrong one.
//
// Ends. Of a pair: by an error that anybody finds, by the peer's word, when READs do not get on, or when its last user
// left. It ends for all users at once, who hear of it by their inboxes. Their messages go in packets until the next one
// stands. Of one user's part: RcConnections::leave() (rc_shared.cc).
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

/// Thread: any, but for construction and destruction.
class RcHub {
 public:
  static constexpr size_t kProcessesMax = 4096;
  static constexpr size_t kOwnersMax = 64;
  /// Of each owner, on their way to the device.
  static constexpr uint32_t kOwnerDepth = 128;
  /// A work request's id: epoch and slot, which are the owner's own, and the owner.
  static constexpr uint64_t kSlotMask = 0x7ff;
  static constexpr uint32_t kOwnerShift = 11;
  static constexpr uint32_t kOwnerMask = 0xfffff;

  /// `device` outlives it. Where the device cannot share pairs there is none: see process().
  RcHub(Device& device, Rng rng);
  /// All owners are gone.
  ~RcHub();
  RcHub(const RcHub&) = delete;
  RcHub& operator=(const RcHub&) = delete;

  /// This one. 0: the device has no READs or no windows, or does not give what is needed.
  [[nodiscard]] uint64_t process() const { return process_; }

  /// An endpoint, which gets completions by `inbox` until remove_owner(). 0: there are too many.
  uint32_t add_owner(RcInbox& inbox);
  void remove_owner(uint32_t owner);

  /// What to tell `process` of the pair with it, which is made if there is none. Nothing: there cannot be one.
  std::optional<ConnectMessage> word_for(uint64_t process, TimeNs now);
  struct Heard {
    bool news = false;
    bool answer = false;
  };
  /// `remote`: where the word came from; its numbers are taken from the word.
  Heard on_word(uint64_t process, const ConnectMessage& word, const RcQueue::Remote& remote, TimeNs now);
  struct Standing {
    std::shared_ptr<RcPair> pair;
    /// The same at both ends, and no other pair's ever.
    uint64_t number = 0;
  };
  /// The pair that both ends are bound to, if there is one.
  [[nodiscard]] Standing standing(uint64_t process) const;
  /// READs with that process do not get on at present.
  [[nodiscard]] bool is_held(uint64_t process, TimeNs now) const;
  /// The pair ends for all its users. What to tell the other process; nothing: it has ended before.
  std::optional<ConnectMessage> end(const RcPair& pair);
  /// Pairs that nobody joined, or the other process did not answer for.
  void sweep(TimeNs now);

  /// Brings completions to their owners. `must`: what has come is there when it returns; else somebody else may still
  /// be bringing it.
  void poll(bool must);
  /// Readable after a completion that came after arm().
  [[nodiscard]] int fd() const { return channel_->fd; }
  void arm();
  /// fd() was readable: brings what came, and arms again for others who sleep.
  void on_event();

  [[nodiscard]] size_t pair_count() const;
  /// With one process; zeros for one that is not known.
  [[nodiscard]] PeerProgress::Counts counts(uint64_t process) const;

 private:
  static constexpr DurationNs kUnansweredMax = 2 * kSecond;

  /// Of one process. It outlives pairs.
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

  // Taken before a pair's, and a pair's before an inbox's.
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
