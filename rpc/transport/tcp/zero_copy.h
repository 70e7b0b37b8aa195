// ZeroCopySends: packets whose bodies the kernel sends from where they lie (MSG_ZEROCOPY), until nobody needs the
// memory.
//
//   TxQueue     kernel's socket              peer's kernel        peer's engine
//   | body |--->| pages, not bytes |========>| bytes |----------->| has it |
//                 |                                                    |
//                 | note: writes a..b are done             "I have n": in the next frame to here,
//                 v (the socket's error queue)              else in a frame of its own soon after
//              token <----- whichever is first ------------------------+
//
// What is said. A frame of dialect 2 asks "tell me when your engine has this packet"; every frame of dialect 2 says how
// many packets that asked have come so far. The stream is in order, so that a count names them all. The count is that
// of the connection.
//
// What holds. A segment that brings a notice acknowledges all that the peer's TCP had by then, and the engine had read
// its bytes from there. So before this side reads the notice, its kernel has forgotten the bytes and will not send them
// again. What may remain is a segment that was being sent again already, in the queue of a device. The peer's TCP drops
// such bytes as old ones, whatever they are by then. If the checksum is computed while the memory changes, the segment
// is dropped for that, and new bytes in it are sent again. The pages stay the kernel's by its own count, also if they
// are unmapped meanwhile. So the data that arrives is right in each case.
//
// What does not hold. That last segment carries what the memory contains now: who listens on the wire may see it. And a
// peer whose TCP lies can say "I have it", not acknowledge it, and be sent what lies there later. So the word of a peer
// counts only where this side dialled it, at an address that it was told by whom it trusts. A caller is not asked: its
// answers wait for the kernel. And memory that is sent so must hold nothing that may not go to the same network: once
// bodies are sealed, only ciphertext lies there.
//
// A connection that ends. The kernel would go on sending what it took, from memory that is free by then. So the socket
// is first made to forget everything (SocketNotes), and tokens come back when the kernel has let go of the pages: see
// Links::bury().
//
// When not. Where the kernel copies after all (loopback, virtual devices: SO_EE_CODE_ZEROCOPY_COPIED), pinning pages is
// work for nothing: it is off for that peer from then on. It pauses while the kernel has no memory for notes.
#ifndef SKUA_RPC_TRANSPORT_TCP_ZERO_COPY_H_
#define SKUA_RPC_TRANSPORT_TCP_ZERO_COPY_H_

#include <array>
#include <cstdint>
#include <memory>

#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "rpc/transport/tcp/tx_completions.h"

namespace skua::rpc::tcp {

/// Of one connection. Pure: what the kernel and the peer say are arguments. Thread: the transport's.
class ZeroCopySends {
 public:
  /// Writes may be made so from now on. `believes_peer`: packets ask.
  void turn_on(bool believes_peer);
  /// Packets that wait go on waiting.
  void turn_off() { is_on_ = false; }
  [[nodiscard]] bool is_on() const { return is_on_; }
  /// Packets that are sent so shall ask.
  [[nodiscard]] bool asks() const { return is_on_ && believes_peer_; }
  /// One more write may be made so.
  [[nodiscard]] bool can_write() const {
    return is_on_ && !is_paused_ && waiting_count_ + kTxGatherMax < kZeroCopyWaitingMax &&
           next_write_ - first_open_ < kZeroCopyWritesMax;
  }

  /// A write was made so; its number, as the kernel counts.
  uint32_t add_write();
  /// A packet that asks is in the socket whole.
  void add_asked() { asked_ = (asked_ + 1) & kNoticeMask; }
  /// A packet is in the socket whole, or forgotten, and `last_write` is the last write that took bytes of it. `asked`:
  /// add_asked() was called for it just now. There is room if can_write() was true before that write.
  void wait_for(TxToken token, uint32_t last_write, bool asked, TxCompletions& completions);
  [[nodiscard]] bool has_waiting() const { return waiting_count_ > 0; }
  [[nodiscard]] uint32_t waiting_count() const { return waiting_count_; }

  /// The kernel is done with writes `first` to `last`.
  void on_writes_done(uint32_t first, uint32_t last, TxCompletions& completions);
  /// The kernel has no memory for one more note.
  void on_no_memory();
  /// The peer's engine has so many packets that asked (of kNoticeMask + 1). False: more than were sent.
  [[nodiscard]] bool on_peer_has(uint32_t count, TxCompletions& completions);
  /// Nobody reads the memory any more: all tokens come back.
  void complete_all(TxCompletions& completions);

 private:
  struct Waiting {
    TxToken token = kNoToken;
    uint32_t last_write = 0;
    uint32_t ask = 0;
    bool asked = false;
  };
  struct State {
    /// Of writes from first_open_ on, by number: the kernel is done with them.
    std::array<bool, kZeroCopyWritesMax> is_done{};
    std::array<Waiting, kZeroCopyWaitingMax> waiting;
  };

  [[nodiscard]] bool is_free(const Waiting& packet) const;
  void complete_front(TxCompletions& completions);
  void complete_free(TxCompletions& completions);

  bool is_on_ = false;
  bool is_paused_ = false;
  bool believes_peer_ = false;
  /// The oldest write that the kernel is not done with, and the next one's number.
  uint32_t first_open_ = 0;
  uint32_t next_write_ = 0;
  uint32_t asked_ = 0;
  uint32_t peer_has_ = 0;
  /// Packets that wait, in the order of their writes, as a ring.
  uint32_t first_waiting_ = 0;
  uint32_t waiting_count_ = 0;
  /// Made by the first write: most connections make none.
  std::unique_ptr<State> state_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_ZERO_COPY_H_
