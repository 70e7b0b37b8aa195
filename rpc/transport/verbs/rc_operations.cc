// The operations of RcConnections, from post() to reap().
#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "rpc/transport/verbs/rc_connections.h"

namespace skua::rpc::verbs {

/// An operation with the number of a share uses the share; every other operation uses the endpoint's own connection.
RcConnections::Way RcConnections::way_of(const OneSidedOperation& operation) {
  if (operation.connection == 0) return own_way(operation.peer);
  const Connection* share = find(shared_way(operation.peer));
  const bool is_its_number = share != nullptr && shared_number(*share) == operation.connection;
  return is_its_number ? shared_way(operation.peer) : own_way(operation.peer);
}

size_t RcConnections::post(std::span<const OneSidedOperation> operations) {
  Batch batch;
  size_t taken = 0;
  for (; taken < operations.size(); ++taken) {
    if (done_count() >= kSlots) break;  // completions must be reaped first
    const OneSidedOperation& operation = operations[taken];
    const Way way = way_of(operation);
    const Connection* connection = find(way);
    const bool stands = connection != nullptr && connection->handshake.ready() && !connection->broken;
    // A share takes only READs. way_of() has already compared its number.
    const bool fits = is_shared(way) ? operation.kind == OneSidedOperation::Kind::kRead
                                     : operation.connection == 0 ||
                                           (stands && operation.connection == connection->handshake.connection());
    const bool works = stands && fits;
    const RegionTable::Region* region = works ? local_region(operation.local) : nullptr;
    const bool has_entry = operation.kind == OneSidedOperation::Kind::kWriteWithNotice;
    const uint32_t local_key = region == nullptr ? 0 : region->key;
    const RegionTable::Region* entry = works && has_entry ? local_region(operation.entry) : region;
    if (region == nullptr || entry == nullptr) {
      ++stats_.operations_failed;
      done_.push_back({operation.cookie, false});
      continue;
    }
    if (batch.count > 0 && (batch.way != way || batch.count >= kBurstMax)) flush(batch);
    if (!add(batch, way, operation, local_key, entry->key)) break;
  }
  flush(batch);
  return taken;
}

uint32_t RcConnections::take_slot(Way way, Slot::Kind kind, uint64_t cookie) {
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.kind = kind;
  slot.cookie = cookie;
  slot.way = way;
  ++connections_[way]->in_flight;
  if (is_shared(way)) ++shared_in_flight_;
  return index;
}

ibv_send_wr& RcConnections::add_request(Batch& batch, ByteSpan bytes, uint32_t local_key) {
  ibv_send_wr& request = batch.requests[batch.count];
  ibv_sge& piece = batch.pieces[batch.count];
  if (batch.count > 0) batch.requests[batch.count - 1].next = &request;
  ++batch.count;
  piece = {reinterpret_cast<uintptr_t>(bytes.data()), static_cast<uint32_t>(bytes.size()), local_key};
  request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  return request;
}

bool RcConnections::add(Batch& batch, Way way, const OneSidedOperation& operation, uint32_t local_key,
                        uint32_t entry_key) {
  Connection& connection = *connections_[way];
  if (!has_room(way, connection)) return false;
  const uint32_t index = take_slot(way, Slot::Kind::kOperation, operation.cookie);
  batch.way = way;
  ibv_send_wr& request = add_request(batch, operation.local, local_key);
  request.wr_id = request_id(index);
  request.send_flags = IBV_SEND_SIGNALED;
  using Kind = OneSidedOperation::Kind;
  if (operation.kind == Kind::kRead && operation.connection != 0) {
    slots_[index].read_bytes = static_cast<uint32_t>(operation.local.size());
    if (connection.pair != nullptr) {
      connection.pair->progress().on_post(clock_.now_ns());
    } else {
      connection.progress.on_post(clock_.now_ns());
    }
    ++reads_in_flight_;
  }
  if (operation.kind == Kind::kWriteWithNotice) {
    // The connection keeps both requests in order. The second one's completion stands for both: if the first fails, the
    // second fails too.
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = 0;
    request.wr.rdma.remote_addr = operation.address;
    request.wr.rdma.rkey = operation.key;
    ibv_send_wr& notice = add_request(batch, operation.entry, entry_key);
    notice.wr_id = request.wr_id;
    notice.send_flags = IBV_SEND_SIGNALED;
    notice.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    notice.imm_data = htonl(operation.number);
    notice.wr.rdma.remote_addr = operation.entry_address;
    notice.wr.rdma.rkey = operation.entry_key;
    return true;
  }
  if (operation.kind == Kind::kRead || operation.kind == Kind::kWrite) {
    request.opcode = operation.kind == Kind::kRead ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = operation.address;
    request.wr.rdma.rkey = operation.key;
    return true;
  }
  const bool add = operation.kind == Kind::kFetchAdd;
  request.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic.remote_addr = operation.address;
  request.wr.atomic.rkey = operation.key;
  request.wr.atomic.compare_add = add ? operation.operand : operation.expected;
  request.wr.atomic.swap = operation.operand;
  return true;
}

void RcConnections::flush(Batch& batch) {
  if (batch.count == 0) return;
  // A refused request completes when its connection ends, which is now broken.
  if (!post_to(*connections_[batch.way], batch.requests.data())) mark_broken(batch.way);
  batch.count = 0;
}

size_t RcConnections::poll(bool must) {
  if (shared_in_flight_ > 0) hub_->poll(must);
  if (inbox_.has_mail()) take_mail();
  std::array<ibv_wc, kBurstMax> completions;
  size_t total = 0;
  for (;;) {
    const int count = ibv_poll_cq(completions_, static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < count; ++i) on_completion(completions.at(static_cast<size_t>(i)));
    if (count > 0) total += static_cast<size_t>(count);
    if (count < static_cast<int>(completions.size())) return total;
  }
}

void RcConnections::on_completion(const ibv_wc& completion) {
  if ((completion.wr_id & kNoticeMark) != 0) return on_notice(completion);
  const auto index = static_cast<uint32_t>(completion.wr_id & RcHub::kSlotMask);
  if (index >= slots_.size() || slots_[index].way == kNoWay || slots_[index].epoch != completion.wr_id >> 32) return;
  const bool ok = completion.status == IBV_WC_SUCCESS;
  const Way way = slots_[index].way;
  free_slot(index, ok);
  if (!ok) mark_broken(way);
}

/// The connection has ended: every operation that is still counted as under way has failed.
void RcConnections::free_slots_of(Way way, const Connection& connection) {
  for (uint32_t i = 0; connection.in_flight > 0 && i < slots_.size(); ++i) {
    if (slots_[i].way == way) free_slot(i, false);
  }
}

void RcConnections::free_slot(uint32_t index, bool ok) {
  Slot& slot = slots_[index];
  Connection& connection = *connections_[slot.way];
  --connection.in_flight;
  if (is_shared(slot.way)) --shared_in_flight_;
  if (const uint32_t bytes = std::exchange(slot.read_bytes, 0); bytes > 0) {
    if (connection.pair != nullptr) {
      connection.pair->progress().on_end(ok ? bytes : 0, clock_.now_ns());
    } else {
      connection.progress.on_end(ok ? bytes : 0, clock_.now_ns());
    }
    --reads_in_flight_;
  }
  slot.way = kNoWay;
  ++slot.epoch;
  free_.push_back(index);
  if (slot.kind != Slot::Kind::kOperation) return on_window_done(slot.kind, static_cast<uint32_t>(slot.cookie), ok);
  if (!ok) ++stats_.operations_failed;
  done_.push_back({slot.cookie, ok});
}

size_t RcConnections::reap(std::span<OneSidedCompletion> completions) {
  const bool may_complete = free_.size() < slots_.size() || notices_reserved_ > 0;
  if (done_count() < completions.size() && may_complete) poll();
  if (!broken_.empty()) end_broken();
  if (!to_invalidate_.empty()) invalidate_waiting();
  const size_t count = std::min(completions.size(), done_count());
  std::copy_n(done_.begin() + static_cast<std::ptrdiff_t>(done_at_), count, completions.begin());
  done_at_ += count;
  for (const OneSidedCompletion& completion : completions.first(count)) {
    if (completion.kind != OneSidedCompletion::Kind::kNotice) continue;
    Connection* connection = find(own_way(completion.peer));
    if (connection == nullptr || connection->notices_waiting == 0) continue;
    --connection->notices_waiting;
    if (!std::exchange(connection->renewing, true)) to_renew_.push_back(completion.peer);
  }
  if (done_at_ == done_.size() || done_at_ >= kSlots) {
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(done_at_));
    done_at_ = 0;
  }
  return count;
}

void RcConnections::begin_sleep() {
  inbox_.set_sleeping(true);
  if (shared_in_flight_ > 0) hub_->arm();
}

bool RcConnections::idle() {
  poll(true);
  if (!broken_.empty()) end_broken();
  return done_count() == 0;
}

}  // namespace skua::rpc::verbs
