// UdQueue: one UD queue pair with its memory: a ring of send slots and a set of receive buffers.
//
// Send. Slots are used in the order of the ring, and complete in that order.
//
//      reaped            completed                     posted              built
//        |  tokens to be    |   the device may still      |   not yet handed  |
//   -----+---- handed out --+----- read the memory -------+---- to it --------+----> slots, modulo depth
//
// A completion costs time, so only some packets ask for one; it stands for all packets before it. One packet in each
// quarter of the ring asks, and so does the last packet of a post if tokens before it wait. So no token waits for later
// traffic.
//
// Frames are written into buffers of the same kind that no slot has at the time. A slot that sends a frame exchanges
// its own buffer for the frame's (send_buffers.h). For each frame that is being written one slot is reserved, so a
// frame always finds a slot.
//
// Receive. Each buffer is free, posted or lent. There are more buffers than the receive ring holds, so the ring can be
// full while some are lent. Buffers may come back in any order.
//
//      |pad 24| network header 40 | engine header 32 | payload ... |      the engine's header begins a cache line
//
// Errors. A queue in error (a protection fault, a device reset, an administrator) completes everything with errors.
// restart() takes it through RESET to a working state, with the same number and key, so peers need not know. The ids of
// work requests contain the epoch of the queue's life, so late completions of an earlier life are ignored.
#ifndef SKUA_RPC_TRANSPORT_VERBS_UD_QUEUE_H_
#define SKUA_RPC_TRANSPORT_VERBS_UD_QUEUE_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/check.h"
#include "rpc/base/rng.h"
#include "rpc/memory/arena.h"
#include "rpc/transport/transport.h"
#include "rpc/transport/verbs/address.h"
#include "rpc/transport/verbs/completion_channel.h"
#include "rpc/transport/verbs/device.h"
#include "rpc/transport/verbs/send_buffers.h"

namespace skua::rpc::verbs {

struct UdQueueOptions {
  /// The most packets on their way to the device; rounded down to a power of two.
  uint32_t send_depth = 256;
  /// Buffers posted; as many more can be lent.
  uint32_t receive_depth = 512;
  /// Packets up to this many bytes (engine header and payload) are copied into the work request, if the device can do
  /// that.
  uint32_t inline_bytes = 0;
};

/// Thread: the transport's.
class UdQueue {
 public:
  /// The first piece holds the header and copied pieces.
  static constexpr size_t kGatherMax = 1 + kTxSegmentsMax;
  /// The most frames that are being written at once.
  static constexpr uint32_t kFramesMax = 2 * kBurstMax;

  /// `rng` draws keys and sequence numbers that nobody can guess. `channel` and `device` must outlive the queue.
  /// INVALID_ARGUMENT: queues too short. RESOURCE_EXHAUSTED names the limit.
  static absl::StatusOr<std::unique_ptr<UdQueue>> create(Device& device, CompletionChannel& channel,
                                                         const UdQueueOptions& options, Rng rng);
  ~UdQueue();
  UdQueue(const UdQueue&) = delete;
  UdQueue& operator=(const UdQueue&) = delete;

  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] uint32_t qkey() const { return qkey_; }
  /// The inline limit that the device accepted, at most inline_bytes.
  [[nodiscard]] uint32_t inline_max_bytes() const { return inline_max_bytes_; }
  [[nodiscard]] uint32_t gather_max() const { return gather_max_; }
  [[nodiscard]] uint32_t receive_depth() const { return receive_depth_; }

  // --- Send

  struct SendSlot {
    ibv_send_wr request;
    std::array<ibv_sge, kGatherMax> pieces;
    TxToken token;
  };
  /// Slots that can be used now, without those reserved for frames.
  [[nodiscard]] uint32_t send_room();
  /// The next slot; `room` is its own registered memory, for a whole packet. Only if send_room() > 0. The caller fills
  /// in request.{num_sge, wr.ud} and pieces, and then calls commit().
  SendSlot& next_slot(std::byte*& room);
  /// Takes a buffer for a whole packet and kFrameSlack. It may be written until give_back_frame() or next_slot_of().
  /// Only if send_room() > 0. nullopt: kFramesMax are out.
  [[nodiscard]] std::optional<uint32_t> take_frame() { return buffers_.take(); }
  [[nodiscard]] std::byte* frame_at(uint32_t frame) const { return memory_.data() + frame * slot_bytes_; }
  void give_back_frame(uint32_t frame) { buffers_.give_back(frame); }
  /// The next slot, which sends the frame; continue as after next_slot().
  SendSlot& next_slot_of(uint32_t frame);
  [[nodiscard]] bool is_frame(uint64_t frame) const { return buffers_.is_out(frame); }
  [[nodiscard]] uint32_t frames_out() const { return buffers_.out_count(); }
  [[nodiscard]] uint32_t slot_key() const { return memory_key_; }
  /// `packet_bytes`: the sum of all pieces. kNoToken: no token will be returned.
  void commit(SendSlot& slot, uint32_t packet_bytes, TxToken token);
  /// Hands the committed requests to the device, as one list.
  void post() {
    if (posted_ != built_) post_built();
  }
  /// Writes the tokens of packets that the device no longer reads; returns how many.
  size_t reap(std::span<TxToken> tokens);
  /// True if tokens have not been reaped yet.
  [[nodiscard]] bool tokens_waiting() const { return tokens_waiting_ > 0; }
  [[nodiscard]] uint64_t built_count() const { return built_; }
  [[nodiscard]] uint64_t completed_count() const { return completed_; }
  void poll_sent();

  // --- Receive

  struct Received {
    uint32_t buffer = 0;
    uint32_t source_qp = 0;
    uint16_t source_lid = 0;
    bool has_grh = false;
    /// Starts with the network header of kGrhBytes.
    ByteSpan bytes;
  };
  /// Packets that have arrived, at most kBurstMax. Each buffer is lent until give_back(). The records are valid until
  /// the next call.
  std::span<const Received> poll_received(size_t count_max) {
    if (stash_at_ == stash_count_ && !fetch_received(count_max)) return {};
    return take_stashed(count_max);
  }
  void give_back(uint32_t buffer);
  /// Posts free buffers while the ring has room. Few missing buffers are not worth a call and wait.
  void refill() {
    const uint32_t missing = std::min(receive_depth_ - posted_buffers_, free_buffers());
    if (missing >= kRefillBatch || (missing > 0 && is_short_of_buffers())) post_buffers(missing);
  }
  /// True if refill() should be called without delay.
  [[nodiscard]] bool is_short_of_buffers() const { return posted_buffers_ <= receive_depth_ / 2; }
  [[nodiscard]] uint32_t buffer_count() const { return static_cast<uint32_t>(states_.size()); }
  [[nodiscard]] bool is_lent(uint32_t buffer) const {
    return buffer < states_.size() && states_[buffer] == BufferState::kLent;
  }
  [[nodiscard]] uint32_t posted_buffers() const { return posted_buffers_; }
  [[nodiscard]] uint32_t free_buffers() const { return static_cast<uint32_t>(free_.size()); }

  // --- Errors and sleep

  /// Something completed with an error: nothing works until restart().
  [[nodiscard]] bool in_error() const { return in_error_; }
  /// Asks the device for errors, because a queue that nobody uses reports none. Makes a system call.
  void look_for_error();
  /// Resets the queue pair. Then all sends are done (their tokens can be reaped), all posted buffers are free again,
  /// and the queue works.
  absl::Status restart();
  /// For a device that cannot reset the queue pair: destroys it. All sends are done, and the queue never works again.
  void give_up();
  /// Puts the queue pair into the error state, as a fault of the device would.
  void fail_for_test();

  /// Call after the channel was armed. False: something has arrived or was sent, or the queue is in error; do not
  /// sleep.
  bool idle();
  /// The device refused a request.
  void set_error() { in_error_ = true; }

 private:
  enum class BufferState : uint8_t { kFree, kPosted, kLent };
  struct ReceiveRequest {
    ibv_recv_wr request;
    ibv_sge piece;
  };
  /// Places the engine's header, which follows the network header, at the start of a cache line.
  static constexpr size_t kReceivePad = 64 - kGrhBytes;
  /// Fewer missing buffers than this are not worth a call.
  static constexpr uint32_t kRefillBatch = 16;

  UdQueue(Device& device, CompletionChannel& channel, Rng rng) : device_(device), channel_(channel), rng_(rng) {}
  absl::Status make_memory(const UdQueueOptions& options);
  absl::Status make_pair(const UdQueueOptions& options);
  absl::Status to_ready();
  void drop_completions();
  void prepare_receive_requests();
  void post_built();
  [[nodiscard]] SendSlot& slot_at(uint64_t number) { return slots_[number & slot_mask_]; }
  /// False: nothing has arrived.
  bool fetch_received(size_t count_max) {
    const auto wanted = static_cast<int>(std::min(count_max, stash_.size()));
    const int found = ibv_poll_cq(receive_queue_, wanted, stash_.data());
    if (found == 0) return false;
    keep_stash(found);
    return true;
  }
  void keep_stash(int found);
  std::span<const Received> take_stashed(size_t count_max);
  bool accept(const ibv_wc& completion, Received& out);
  void post_buffers(uint32_t count);
  void on_sent(const ibv_wc& completion);
  /// The id of a work request in this life of the queue.
  [[nodiscard]] uint64_t request_id(uint32_t index) const { return uint64_t{epoch_} << 32 | index; }
  [[nodiscard]] std::byte* buffer_at(uint32_t index) const { return receive_memory_ + size_t{index} * receive_stride_; }

  Device& device_;
  CompletionChannel& channel_;
  Rng rng_;
  ibv_cq* send_queue_ = nullptr;
  ibv_cq* receive_queue_ = nullptr;
  ibv_qp* pair_ = nullptr;  // null after give_up()
  uint32_t number_ = 0;
  uint32_t qkey_ = 0;
  uint32_t epoch_ = 0;
  bool in_error_ = false;
  uint32_t inline_max_bytes_ = 0;
  uint32_t gather_max_ = 0;

  std::unique_ptr<Arena> arena_;
  MutableByteSpan memory_;
  uint32_t memory_key_ = 0;
  std::byte* receive_memory_ = nullptr;
  size_t slot_bytes_ = 0;
  size_t receive_stride_ = 0;

  SendBuffers buffers_{0, 0};
  std::vector<SendSlot> slots_;  // their number is a power of two
  uint64_t slot_mask_ = 0;
  uint64_t built_ = 0;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint64_t reaped_ = 0;
  uint64_t signalled_ = 0;  // slots before this one are covered by a completion that was asked for
  uint32_t tokens_waiting_ = 0;
  bool token_unsignalled_ = false;

  uint32_t receive_depth_ = 0;
  uint32_t posted_buffers_ = 0;
  std::vector<BufferState> states_;
  std::vector<uint32_t> free_;
  std::vector<ReceiveRequest> receive_requests_;  // by buffer

  // Completions taken from the device. idle() leaves them for the next poll_received().
  std::array<ibv_wc, kBurstMax> stash_;
  size_t stash_count_ = 0;
  size_t stash_at_ = 0;
  // A member, because a spinning endpoint polls in vain most of the time, and constructing the array would be most of
  // such a poll.
  std::array<Received, kBurstMax> received_;
};

// Inline, because every packet comes through here.

inline uint32_t UdQueue::send_room() {
  // Slots without a token need not be reaped.
  while (reaped_ < completed_ && slot_at(reaped_).token == kNoToken) ++reaped_;
  return static_cast<uint32_t>(slots_.size() - (built_ - reaped_) - buffers_.out_count());
}

inline UdQueue::SendSlot& UdQueue::next_slot(std::byte*& room) {
  room = frame_at(buffers_.of_slot(built_ & slot_mask_));
  return slot_at(built_);
}

inline UdQueue::SendSlot& UdQueue::next_slot_of(uint32_t frame) {
  buffers_.exchange(built_ & slot_mask_, frame);
  return slot_at(built_);
}

inline void UdQueue::give_back(uint32_t buffer) {
  SKUA_CHECK(is_lent(buffer), "a receive buffer was given back that is not lent");
  states_[buffer] = BufferState::kFree;
  free_.push_back(buffer);
}

inline void UdQueue::commit(SendSlot& slot, uint32_t packet_bytes, TxToken token) {
  slot.token = token;
  ibv_send_wr& request = slot.request;
  request.wr_id = request_id(static_cast<uint32_t>(built_));
  request.next = nullptr;
  request.sg_list = slot.pieces.data();
  request.opcode = IBV_WR_SEND;
  request.send_flags = packet_bytes <= inline_max_bytes_ ? IBV_SEND_INLINE : 0;
  ++built_;
  if (token != kNoToken) {
    ++tokens_waiting_;
    token_unsignalled_ = true;
  }
  if (built_ - signalled_ >= slots_.size() / 4) {
    request.send_flags |= IBV_SEND_SIGNALED;
    signalled_ = built_;
    token_unsignalled_ = false;
  }
}

inline void UdQueue::post_built() {
  ibv_send_wr& last = slot_at(built_ - 1).request;
  if (token_unsignalled_) {
    last.send_flags |= IBV_SEND_SIGNALED;
    signalled_ = built_;
    token_unsignalled_ = false;
  }
  for (uint64_t i = posted_; i + 1 < built_; ++i) slot_at(i).request.next = &slot_at(i + 1).request;
  ibv_send_wr* first_refused = nullptr;
  // Refused packets count as lost; restart() completes them.
  if (!in_error_ && ibv_post_send(pair_, &slot_at(posted_).request, &first_refused) != 0) in_error_ = true;
  posted_ = built_;
}

/// False: nothing was received. The buffer is free again, or the completion is of an earlier life.
inline bool UdQueue::accept(const ibv_wc& completion, Received& out) {
  if (completion.wr_id >> 32 != epoch_) return false;
  const auto index = static_cast<uint32_t>(completion.wr_id);
  SKUA_CHECK(index < buffer_count() && states_[index] == BufferState::kPosted,
             "a buffer was filled that was not posted");
  --posted_buffers_;
  states_[index] = BufferState::kLent;
  if (completion.status != IBV_WC_SUCCESS) {
    in_error_ = true;
    give_back(index);
    return false;
  }
  out.buffer = index;
  out.source_qp = completion.src_qp;
  out.source_lid = completion.slid;
  out.has_grh = (completion.wc_flags & IBV_WC_GRH) != 0;
  out.bytes = {buffer_at(index) + kReceivePad, completion.byte_len};
  return true;
}

inline std::span<const UdQueue::Received> UdQueue::take_stashed(size_t count_max) {
  const size_t wanted = std::min(count_max, received_.size());
  size_t count = 0;
  while (stash_at_ < stash_count_ && count < wanted) {
    if (accept(stash_[stash_at_++], received_[count])) ++count;
  }
  return std::span(received_).first(count);
}

/// `found` is the result of ibv_poll_cq(); below 0: an error.
inline void UdQueue::keep_stash(int found) {
  stash_at_ = 0;
  stash_count_ = found > 0 ? static_cast<size_t>(found) : 0;
  if (found < 0) in_error_ = true;
}

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_UD_QUEUE_H_
