// ZeroCopySends: packets whose bodies the kernel sends from where they lie (MSG_ZEROCOPY), and when their memory is
// free.
//
//   TxQueue     kernel's socket              peer's kernel        peer's engine
//   | body |--->| pages, not bytes |========>| bytes |----------->| has it |
//                 |                                                    |
//                 | note: writes a..b are done             "I have n": in the next frame to here,
//                 v (the socket's error queue)              else in a frame of its own soon after
//              token <----- whichever is first ------------------------+
//
// Notices. A frame of dialect 2 can ask "tell me when your engine has this packet". Every frame of dialect 2 tells how
// many asking packets of this connection the sender's engine has got so far. The stream is in order, so a count
// identifies the packets.
//
// Why a notice proves that the memory is free. The segment that brings a notice also acknowledges everything that the
// peer's TCP had received by then, including the packet's bytes, which the peer's engine has already read. So before
// this side reads the notice, its kernel has forgotten the bytes and will not send them again. One case remains: a
// retransmitted segment may still be in the queue of a device. The peer's TCP drops such bytes as old, whatever they
// contain by then. If the memory changes while the checksum is computed, the segment is dropped for its checksum, and
// any new bytes in it are sent again. The kernel holds the pages by its own reference count, even if they are unmapped
// meanwhile. So the peer receives the right data in each case.
//
// Limits. That last segment carries what the memory contains now, and someone who listens on the wire may see it. And a
// peer whose TCP lies can send a notice without acknowledging the bytes, and then be sent what lies there later. So a
// notice counts only if this side dialled the peer, at an address from a trusted source. A caller is not asked: answers
// to a caller wait for the kernel. And memory sent by zero copy must hold nothing that must not reach the same network:
// once bodies are sealed, only ciphertext lies there.
//
// A connection that ends. The kernel would go on sending the bytes that it took, from memory that is free by then. So
// the socket is first made to forget everything (SocketNotes), and tokens come back when the kernel has released the
// pages: see Links::bury().
//
// When zero copy is off. If the kernel copies after all (loopback, virtual devices: SO_EE_CODE_ZEROCOPY_COPIED),
// pinning pages is useless work; zero copy is then off for that peer from then on. It pauses while the kernel has no
// memory for notes.
#ifndef SKUA_RPC_TRANSPORT_TCP_ZERO_COPY_H_
#define SKUA_RPC_TRANSPORT_TCP_ZERO_COPY_H_

#include <array>
#include <cstdint>
#include <memory>

#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "rpc/transport/tcp/tx_completions.h"

namespace skua::rpc::tcp {

/// The zero-copy state of one connection. Pure: what the kernel and the peer report are arguments. Thread: the
/// transport's.
class ZeroCopySends {
 public:
  /// Allows zero-copy writes from now on. `believes_peer`: packets ask for notices.
  void turn_on(bool believes_peer);
  /// Allows no more zero-copy writes. Waiting packets keep waiting.
  void turn_off() { is_on_ = false; }
  [[nodiscard]] bool is_on() const { return is_on_; }
  /// True if packets sent by zero copy shall ask for a notice.
  [[nodiscard]] bool asks() const { return is_on_ && believes_peer_; }
  /// True if one more zero-copy write may be made.
  [[nodiscard]] bool can_write() const {
    return is_on_ && !is_paused_ && waiting_count_ + kTxGatherMax < kZeroCopyWaitingMax &&
           next_write_ - first_open_ < kZeroCopyWritesMax;
  }

  /// A zero-copy write was made. Returns its number, which is also the kernel's number for it.
  uint32_t add_write();
  /// A packet that asks was written completely.
  void add_asked() { asked_ = (asked_ + 1) & kNoticeMask; }
  /// The packet of `token` was written completely, or is forgotten; `last_write` is the last zero-copy write that took
  /// bytes of it. `asked`: add_asked() was just called for it. There is room if can_write() was true before that write.
  void wait_for(TxToken token, uint32_t last_write, bool asked, TxCompletions& completions);
  [[nodiscard]] bool has_waiting() const { return waiting_count_ > 0; }
  [[nodiscard]] uint32_t waiting_count() const { return waiting_count_; }

  /// The kernel is done with writes `first` to `last`.
  void on_writes_done(uint32_t first, uint32_t last, TxCompletions& completions);
  /// The kernel has no memory for another note.
  void on_no_memory();
  /// The peer's engine has `count` asking packets, modulo kNoticeMask + 1. False: that is more than were sent.
  [[nodiscard]] bool on_peer_has(uint32_t count, TxCompletions& completions);
  /// Nobody reads the memory any more: returns all tokens.
  void complete_all(TxCompletions& completions);

 private:
  struct Waiting {
    TxToken token = kNoToken;
    uint32_t last_write = 0;
    uint32_t ask = 0;
    bool asked = false;
  };
  struct State {
    /// By write number, for writes from first_open_ on: the kernel is done with the write.
    std::array<bool, kZeroCopyWritesMax> is_done{};
    std::array<Waiting, kZeroCopyWaitingMax> waiting;
  };

  [[nodiscard]] bool is_free(const Waiting& packet) const;
  void complete_front(TxCompletions& completions);
  void complete_free(TxCompletions& completions);

  bool is_on_ = false;
  bool is_paused_ = false;
  bool believes_peer_ = false;
  /// The oldest write that the kernel is not done with, and the number of the next write.
  uint32_t first_open_ = 0;
  uint32_t next_write_ = 0;
  uint32_t asked_ = 0;
  uint32_t peer_has_ = 0;
  /// The waiting packets, in the order of their writes, as a ring.
  uint32_t first_waiting_ = 0;
  uint32_t waiting_count_ = 0;
  /// Allocated by the first write, because most connections make no zero-copy write.
  std::unique_ptr<State> state_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_ZERO_COPY_H_
