#include "rpc/transport/verbs/ud_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc::verbs {
namespace {

constexpr size_t kLine = 64;
constexpr uint32_t kQkeyMask = 0x7fffffff;
constexpr uint32_t kPsnMask = 0xffffff;

size_t round_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

// --- Making and restarting -------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<UdQueue>> UdQueue::create(Device& device, CompletionChannel& channel,
                                                         const UdQueueOptions& options, Rng rng) {
  std::unique_ptr<UdQueue> out(new UdQueue(device, channel, rng));
  if (absl::Status status = out->make_memory(options); !status.ok()) return status;
  if (absl::Status status = out->make_pair(options); !status.ok()) return status;
  if (absl::Status status = out->to_ready(); !status.ok()) return status;
  return out;
}

UdQueue::~UdQueue() {
  if (pair_ != nullptr) ibv_destroy_qp(pair_);
  if (send_queue_ != nullptr) channel_.destroy(send_queue_);
  if (receive_queue_ != nullptr) channel_.destroy(receive_queue_);
  if (memory_key_ != 0) device_.memory().release(memory_);
}

absl::Status UdQueue::make_memory(const UdQueueOptions& options) {
  const ibv_device_attr& limits = device_.limits();
  const auto depth_max = static_cast<uint32_t>(std::min(limits.max_qp_wr, limits.max_cqe / 2));
  const uint32_t send_depth = std::bit_floor(std::min(options.send_depth, depth_max));
  receive_depth_ = std::min(options.receive_depth, depth_max);
  if (send_depth < 2 * kBurstMax || receive_depth_ < 2 * kBurstMax) {
    return absl::InvalidArgumentError(absl::StrCat(device_.name(), ": send and receive queues hold at least ",
                                                   2 * kBurstMax, " packets, and ", depth_max,
                                                   " is the most that the device takes"));
  }
  // The slack of one cache line also keeps buffers from lying exactly a page apart, where they would share few sets of
  // the cache.
  slot_bytes_ = round_up(device_.mtu_bytes() + kFrameSlack, kLine);
  receive_stride_ = round_up(kReceivePad + kGrhBytes + device_.mtu_bytes(), kLine);
  buffers_ = SendBuffers(send_depth, kFramesMax);
  const size_t send_bytes = buffers_.count() * slot_bytes_;
  const size_t bytes = send_bytes + size_t{2} * receive_depth_ * receive_stride_;
  arena_ = std::make_unique<Arena>(Arena::Options{.limit_bytes = 2 * bytes + (size_t{4} << 20)});
  absl::StatusOr<MutableByteSpan> memory = arena_->map(bytes);
  if (!memory.ok()) return memory.status();
  memory_ = memory->first(bytes);
  absl::StatusOr<Registration> registration = device_.memory().acquire(memory_);
  if (!registration.ok()) return registration.status();
  memory_key_ = registration->key;
  receive_memory_ = memory_.data() + send_bytes;
  slots_.resize(send_depth);
  slot_mask_ = send_depth - 1;
  states_.assign(size_t{2} * receive_depth_, BufferState::kFree);
  for (auto i = static_cast<uint32_t>(states_.size()); i-- > 0;) free_.push_back(i);
  free_.reserve(states_.size());
  prepare_receive_requests();
  return absl::OkStatus();
}

/// Fills in the parts of receive requests that never change.
void UdQueue::prepare_receive_requests() {
  receive_requests_.resize(states_.size());
  for (uint32_t i = 0; i < buffer_count(); ++i) {
    ReceiveRequest& one = receive_requests_[i];
    one.piece = {reinterpret_cast<uintptr_t>(buffer_at(i) + kReceivePad),
                 static_cast<uint32_t>(kGrhBytes + device_.mtu_bytes()), memory_key_};
    one.request = {0, nullptr, &one.piece, 1};
  }
}

absl::Status UdQueue::make_pair(const UdQueueOptions& options) {
  // Twice the entries, because completions of an earlier life may still be in the queues.
  absl::StatusOr<ibv_cq*> sent = channel_.make_queue(2 * slots_.size());
  if (!sent.ok()) return sent.status();
  send_queue_ = *sent;
  absl::StatusOr<ibv_cq*> received = channel_.make_queue(size_t{2} * receive_depth_);
  if (!received.ok()) return received.status();
  receive_queue_ = *received;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = send_queue_;
  wanted.recv_cq = receive_queue_;
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap.max_send_wr = static_cast<uint32_t>(slots_.size());
  wanted.cap.max_recv_wr = receive_depth_;
  wanted.cap.max_send_sge = std::min<uint32_t>(kGatherMax, static_cast<uint32_t>(device_.limits().max_sge));
  wanted.cap.max_recv_sge = 1;
  gather_max_ = wanted.cap.max_send_sge;
  // No attribute tells how much a device takes inline, so ask for less until it agrees.
  for (uint32_t bytes = options.inline_bytes;; bytes /= 2) {
    wanted.cap.max_inline_data = bytes;
    ibv_qp_init_attr attempt = wanted;
    pair_ = ibv_create_qp(device_.domain(), &attempt);
    if (pair_ != nullptr) {
      number_ = pair_->qp_num;
      inline_max_bytes_ = std::min(attempt.cap.max_inline_data, options.inline_bytes);
      return absl::OkStatus();
    }
    if (bytes < kPacketHeaderBytes) return failed(device_.name(), "ibv_create_qp (UD)", errno);
  }
}

absl::Status UdQueue::to_ready() {
  if (qkey_ == 0) qkey_ = static_cast<uint32_t>(rng_.next()) & kQkeyMask;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.pkey_index = 0;
  to.port_num = device_.port();
  to.qkey = qkey_;
  if (const int error = ibv_modify_qp(pair_, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)) {
    return failed(device_.name(), "ibv_modify_qp (INIT)", error);
  }
  // Buffers must be posted before the first packet can arrive.
  refill();
  to.qp_state = IBV_QPS_RTR;
  if (const int error = ibv_modify_qp(pair_, &to, IBV_QP_STATE))
    return failed(device_.name(), "ibv_modify_qp (RTR)", error);
  to.qp_state = IBV_QPS_RTS;
  to.sq_psn = static_cast<uint32_t>(rng_.next()) & kPsnMask;
  if (const int error = ibv_modify_qp(pair_, &to, IBV_QP_STATE | IBV_QP_SQ_PSN)) {
    return failed(device_.name(), "ibv_modify_qp (RTS)", error);
  }
  return absl::OkStatus();
}

absl::Status UdQueue::restart() {
  in_error_ = true;
  if (pair_ == nullptr) return absl::UnavailableError(absl::StrCat(device_.name(), ": the queue pair is gone"));
  drop_completions();
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  if (const int error = ibv_modify_qp(pair_, &to, IBV_QP_STATE))
    return failed(device_.name(), "ibv_modify_qp (RESET)", error);
  // From here on the device no longer uses this queue's memory.
  drop_completions();
  ++epoch_;
  completed_ = posted_ = signalled_ = built_;
  token_unsignalled_ = false;
  for (uint32_t i = 0; i < buffer_count(); ++i) {
    if (states_[i] != BufferState::kPosted) continue;
    states_[i] = BufferState::kFree;
    free_.push_back(i);
  }
  posted_buffers_ = 0;
  in_error_ = false;
  absl::Status status = to_ready();
  if (!status.ok()) in_error_ = true;
  return status;
}

void UdQueue::give_up() {
  if (pair_ != nullptr) ibv_destroy_qp(pair_);
  pair_ = nullptr;
  in_error_ = true;
  completed_ = posted_ = signalled_ = built_;
}

/// Packets that have arrived are lost with the queue; the engine sends them again.
void UdQueue::drop_completions() {
  std::array<ibv_wc, kBurstMax> unwanted;
  for (ibv_cq* queue : {send_queue_, receive_queue_}) {
    while (ibv_poll_cq(queue, static_cast<int>(unwanted.size()), unwanted.data()) > 0) {
    }
  }
  stash_count_ = stash_at_ = 0;
}

void UdQueue::look_for_error() {
  if (pair_ == nullptr) return;
  ibv_qp_attr now{};
  ibv_qp_init_attr unused{};
  if (ibv_query_qp(pair_, &now, IBV_QP_STATE, &unused) != 0 || now.qp_state != IBV_QPS_RTS) in_error_ = true;
}

void UdQueue::fail_for_test() {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(pair_, &to, IBV_QP_STATE);
}

// --- Send ------------------------------------------------------------------------------------------------------------

void UdQueue::poll_sent() {
  if (completed_ == signalled_) return;
  std::array<ibv_wc, kBurstMax> completions;
  const int count = ibv_poll_cq(send_queue_, static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < count; ++i) on_sent(completions.at(static_cast<size_t>(i)));
  if (count < 0) in_error_ = true;
}

void UdQueue::on_sent(const ibv_wc& completion) {
  if (completion.wr_id >> 32 != epoch_) return;
  if (completion.status != IBV_WC_SUCCESS) {
    in_error_ = true;
    return;
  }
  // The id has the low 32 bits of the slot's number, which is less than one ring ahead of completed_.
  const auto ahead = static_cast<uint32_t>(static_cast<uint32_t>(completion.wr_id) - static_cast<uint32_t>(completed_));
  SKUA_CHECK(ahead < slots_.size(), "a send completed that was not posted");
  completed_ += uint64_t{ahead} + 1;
}

size_t UdQueue::reap(std::span<TxToken> tokens) {
  poll_sent();
  size_t count = 0;
  for (; reaped_ < completed_ && count < tokens.size(); ++reaped_) {
    const TxToken token = slot_at(reaped_).token;
    if (token == kNoToken) continue;
    tokens[count++] = token;
    --tokens_waiting_;
  }
  return count;
}

// --- Receive ---------------------------------------------------------------------------------------------------------

void UdQueue::post_buffers(uint32_t count) {
  if (in_error_) return;
  // The buffers given back last come first, because they are most likely in the cache.
  ibv_recv_wr* first = nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = free_.back();
    free_.pop_back();
    states_[index] = BufferState::kPosted;
    ibv_recv_wr& request = receive_requests_[index].request;
    request.wr_id = request_id(index);
    request.next = std::exchange(first, &request);
  }
  posted_buffers_ += count;
  ibv_recv_wr* first_refused = nullptr;
  // Refused requests count as posted until restart() frees their buffers.
  if (ibv_post_recv(pair_, first, &first_refused) != 0) in_error_ = true;
}

// --- Sleep -----------------------------------------------------------------------------------------------------------

bool UdQueue::idle() {
  if (stash_at_ < stash_count_) return false;
  keep_stash(ibv_poll_cq(receive_queue_, static_cast<int>(stash_.size()), stash_.data()));
  const uint64_t completed = completed_;
  poll_sent();
  return stash_count_ == 0 && completed == completed_ && !in_error_;
}

}  // namespace skua::rpc::verbs
