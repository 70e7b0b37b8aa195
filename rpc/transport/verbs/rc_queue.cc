#include "rpc/transport/verbs/rc_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace skua::rpc::verbs {
namespace {

constexpr int kReadsServedMax = 16;
/// Time to an acknowledgement: 4.096 us * 2^14 = 67 ms. After several such times the peer counts as gone.
constexpr uint8_t kTimeout = 14;
constexpr uint8_t kRetries = 7;
/// 0.64 ms. A peer that sends more notices than it was told there is room for must wait this long and try again.
constexpr uint8_t kReceiverNotReady = 12;

ibv_mtu mtu_of(uint16_t bytes) {
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RcQueue>> RcQueue::create(Device& device, ibv_cq* completions, uint32_t psn,
                                                         const Depths& depths, int rights) {
  std::unique_ptr<RcQueue> out(new RcQueue(device, psn));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions;
  wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = depths.send;
  wanted.cap.max_recv_wr = depths.receive;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = 1;
  out->pair_ = ibv_create_qp(device.remote_domain(), &wanted);
  if (out->pair_ == nullptr) return failed(device.name(), "ibv_create_qp (RC)", errno);
  out->reads_served_ = static_cast<uint8_t>(std::clamp(device.limits().max_qp_rd_atom, 1, kReadsServedMax));
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = device.port();
  if (device.limits().atomic_cap == IBV_ATOMIC_NONE) rights &= ~IBV_ACCESS_REMOTE_ATOMIC;
  to.qp_access_flags = static_cast<unsigned>(rights);
  const int what = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = ibv_modify_qp(out->pair_, &to, what)) {
    return failed(device.name(), "ibv_modify_qp (RC, INIT)", error);
  }
  return out;
}

RcQueue::~RcQueue() {
  if (pair_ != nullptr) ibv_destroy_qp(pair_);
}

absl::Status RcQueue::bind(const Remote& remote) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.ah_attr = remote.address;
  to.path_mtu = mtu_of(std::min(remote.mtu_bytes, device_.mtu_bytes()));
  to.dest_qp_num = remote.qp_number;
  to.rq_psn = remote.psn;
  to.max_dest_rd_atomic = reads_served_;
  to.min_rnr_timer = kReceiverNotReady;
  int what = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER;
  if (const int error = ibv_modify_qp(pair_, &to, what))
    return failed(device_.name(), "ibv_modify_qp (RC, RTR)", error);
  to.qp_state = IBV_QPS_RTS;
  to.sq_psn = psn_;
  to.max_rd_atomic = std::min(remote.reads_served, reads_served_);
  to.timeout = kTimeout;
  to.retry_cnt = to.rnr_retry = kRetries;
  what = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  if (const int error = ibv_modify_qp(pair_, &to, what))
    return failed(device_.name(), "ibv_modify_qp (RC, RTS)", error);
  return absl::OkStatus();
}

bool RcQueue::post(ibv_send_wr* first) {
  ibv_send_wr* first_refused = nullptr;
  return ibv_post_send(pair_, first, &first_refused) == 0;
}

bool RcQueue::post_notice_room(uint64_t id) {
  ibv_recv_wr request{};
  request.wr_id = id;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(pair_, &request, &refused) == 0;
}

bool RcQueue::in_error() const {
  ibv_qp_attr now{};
  ibv_qp_init_attr unused{};
  return ibv_query_qp(pair_, &now, IBV_QP_STATE, &unused) != 0 || now.qp_state == IBV_QPS_ERR ||
         now.qp_state == IBV_QPS_SQE;
}

void RcQueue::fail() {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(pair_, &to, IBV_QP_STATE);
}

}  // namespace skua::rpc::verbs
