// TxQueue: what waits to be written to one peer, as a ring of pieces for a gathering write.
//
//   staging  | f h pp | f h | f h ppp |              |     bytes copied in: frame, packet header,
//            ^ oldest                 ^ next               small payloads
//   pieces   [staged 0..n] [body ->] [staged n..m] [body ->] ...
//                             |                       |
//                             application's memory, read by the kernel where it lies
//
// Copied bytes that follow each other form one piece, so a burst of small packets is one contiguous write. A gathered
// piece stays in the application's memory until it is written. The last gathered piece of a packet carries the packet's
// token.
//
// Before a connection stands, its dialect is unknown. Frames are then packed in the newest dialect, each prefix with
// spare room and as a piece of its own. They are repacked once if the peer turns out to be older.
#ifndef SKUA_RPC_TRANSPORT_TCP_TX_QUEUE_H_
#define SKUA_RPC_TRANSPORT_TCP_TX_QUEUE_H_

#include <sys/uio.h>

#include <memory>
#include <optional>
#include <span>

#include "rpc/base/bytes.h"
#include "rpc/transport/tcp/dialect.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "rpc/transport/tcp/tx_completions.h"
#include "rpc/transport/tcp/zero_copy.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::tcp {

/// How to frame packets for a connection.
struct TxFraming {
  const Dialect* dialect = nullptr;
  /// True: there is no connection yet, see above.
  bool provisional = false;
  /// FramePrefix::has.
  uint32_t has = 0;
  /// Segments above zero_copy_above_bytes may be sent by zero copy. If `asks`, packets with such segments ask for a
  /// notice.
  uint32_t zero_copy_above_bytes = UINT32_MAX;
  bool asks = false;
};

/// Thread: the transport's.
class TxQueue {
 public:
  struct Limits {
    /// push() refuses a packet while this many bytes wait. One packet may exceed the limit.
    uint32_t bytes_max = 0;
    /// Segments up to this size are copied.
    uint32_t inline_max_bytes = 0;
    /// Largest frame, prefix included.
    uint32_t frame_bytes = 0;
  };

  explicit TxQueue(Limits limits) : limits_(limits) {}

  [[nodiscard]] bool empty() const { return entry_count_ == 0; }
  /// Bytes not yet written.
  [[nodiscard]] size_t bytes() const { return bytes_; }

  /// Bytes written so far, since the queue was made.
  [[nodiscard]] uint64_t written_bytes() const { return written_bytes_; }

  /// True if the queue is far from each limit: a burst of ordinary packets, or a frame, will be taken.
  [[nodiscard]] bool has_room_for_burst() const {
    return bytes_ < limits_.bytes_max / 2 && entry_count_ < kTxEntriesMax / 2 && staging_used_ < kTxStagingBusyBytes &&
           reserved_frames_ < kFramesOfPeerMax;
  }

  /// Reserves room so that a later push_frame() succeeds. Only while has_room_for_burst() is true.
  void reserve_frame() { ++reserved_frames_; }
  /// Ends one reserve_frame(); also needed after drop().
  void give_up_frame();
  /// Appends a framed frame, or the rest of one. The caller has just called give_up_frame() for it.
  void push_frame(ByteSpan bytes) {
    if (entries_ == nullptr) allocate();
    stage(bytes);
  }

  /// Appends `packet`, which is at `index` of the burst that `completions` is in. Marks it done if all of it was
  /// copied. False: the queue is full, and nothing has changed.
  [[nodiscard]] bool push(TxPacket& packet, uint8_t index, const TxFraming& framing, const TxCompletions& completions,
                          TransportCounters& counters);

  /// Pieces to be written in one call.
  struct Run {
    size_t count = 0;
    size_t bytes = 0;
    bool by_zero_copy = false;
    /// Another run follows at once, with the other value of by_zero_copy.
    bool goes_on = false;
  };
  /// The oldest pieces, as many as fit. With `zero_copy`, only pieces that are sent the same way.
  Run gather(std::span<iovec> pieces, bool zero_copy) const;
  /// Removes the first `bytes` of a run, which were written. A packet whose bytes the kernel may still read waits in
  /// `sends`.
  void consume(size_t bytes, bool by_zero_copy, ZeroCopySends& sends, TxCompletions& completions);
  /// Forgets everything and completes all tokens. Exception: a packet that was partly written by zero copy waits in
  /// `sends`.
  void drop(ZeroCopySends* sends, TxCompletions& completions);

  /// Rewrites provisional frame prefixes from one dialect to another.
  void repack(const Dialect& from, const Dialect& to);

 private:
  struct Entry {
    const std::byte* data = nullptr;
    uint32_t size = 0;
    /// Staging bytes freed when the entry is done; 0: a gathered piece.
    uint32_t staged = 0;
    TxToken token = kNoToken;
    uint32_t burst = 0;
    uint8_t index = 0;
    bool completes_packet = false;
    bool is_frame = false;
    bool by_zero_copy = false;
    /// For the entry that completes a packet: the packet asks for a notice.
    bool asks = false;
  };

  [[nodiscard]] bool has_room(const TxPacket& packet, bool copy_all) const;
  void allocate();
  [[nodiscard]] Entry& entry(uint32_t position) const;
  Entry& push_entry();
  std::byte* take_staging(uint32_t bytes, uint32_t& padding);
  void append_staged(const std::byte* at, uint32_t size, uint32_t padding);
  void stage(ByteSpan bytes);
  void stage_packet(const TxPacket& packet, const Dialect& dialect, const FramePrefix& prefix);
  void stage_prefix(const TxPacket& packet, const TxFraming& framing, const FramePrefix& prefix);
  void stage_provisional_frame(const Dialect& dialect, const FramePrefix& prefix);
  void complete(const Entry& front, bool is_whole, ZeroCopySends* sends, TxCompletions& completions);
  void pop();

  const Limits limits_;
  size_t bytes_ = 0;
  uint64_t written_bytes_ = 0;

  std::unique_ptr<Entry[]> entries_;
  uint32_t first_ = 0;
  uint32_t entry_count_ = 0;
  /// Bytes of the first entry that are already written.
  uint32_t first_offset_ = 0;
  /// The last zero-copy write that took bytes of the oldest packet, if there was one.
  std::optional<uint32_t> front_write_;

  std::unique_ptr<std::byte[]> staging_;
  uint32_t staging_tail_ = 0;
  uint32_t staging_used_ = 0;
  bool merge_allowed_ = false;
  uint32_t reserved_frames_ = 0;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_TX_QUEUE_H_
