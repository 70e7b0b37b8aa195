// Bundles: the endpoint's small calls (rpc/protocol/small_calls.h), and what they need from the endpoint: frames of the
// transport, leases of received frames, handlers and completions, and the associations. How sessions join associations
// is in association_joins.h.
#ifndef SKUA_RPC_BUNDLES_H_
#define SKUA_RPC_BUNDLES_H_

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "rpc/base/lease.h"
#include "rpc/endpoint.h"
#include "rpc/endpoint_context.h"
#include "rpc/frame_leases.h"
#include "rpc/incoming_calls.h"
#include "rpc/protocol/association.h"
#include "rpc/protocol/session.h"
#include "rpc/protocol/small_calls.h"
#include "rpc/receive_memory.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

class AssociationJoins;

/// Thread: the endpoint's, which owns it.
class Bundles final {
 public:
  Bundles(EndpointContext& context, ReceiveMemory& memory, IncomingCalls& incoming, AssociationJoins& joins);
  Bundles(const Bundles&) = delete;
  Bundles& operator=(const Bundles&) = delete;

  /// Call it before the packets of a burst of many peers are handled: it prefetches the memory that they need.
  void look_ahead(std::span<const RxPacket> burst);
  /// Handles the packet at `at` of the burst, which is a bundle. Its buffer goes back to the transport when all leases
  /// of it are gone. `of_many`: look_ahead() has seen this burst.
  void on_packet(std::span<const RxPacket> burst, size_t at, bool of_many);
  [[nodiscard]] bool in_packet() const { return in_packet_; }
  void send_all() {
    if (!calls_.writer().empty() || out_count_ > 0) calls_.writer().send_all();
  }
  [[nodiscard]] bool nothing_written() const { return calls_.writer().empty() && out_count_ == 0; }

  void adopt_thread() { leases_.adopt_thread(); }

  // --- Sessions
  void add(SessionHot& hot) {
    const uint32_t index = index_of_handle(hot.handle);
    if (index > hots_mask_) {
      hots_mask_ = std::bit_ceil(index + 1) - 1;
      hots_.resize(size_t{hots_mask_} + 1, &nobody_);
    }
    hots_[index] = &hot;
  }
  void remove(uint32_t index) {
    if (index <= hots_mask_) hots_[index] = &nobody_;
  }
  /// Frees associations that have ended. At a turn's end.
  void bury_ended() { associations_.bury(); }

  /// The session with this handle, which a peer named. Null: there is none.
  [[nodiscard]] SessionHot* find(uint32_t handle) {
    SessionHot& named = hot_of(handle);
    return &named != &nobody_ && named.handle == handle ? &named : nullptr;
  }
  [[nodiscard]] Associations& associations() { return associations_; }
  [[nodiscard]] BundleWriter<Bundles>& writer() { return calls_.writer(); }

  // --- Calls
  [[nodiscard]] SmallCalls<Bundles>& calls() { return calls_; }
  [[nodiscard]] const SmallCalls<Bundles>& calls() const { return calls_; }

  // --- Driver of SmallCalls
  /// For an index that does not exist this may be another session: compare its `handle` with the one wanted.
  [[nodiscard]] const SessionHot& hot(uint32_t index) const { return *hots_[index & hots_mask_]; }
  [[nodiscard]] SessionHot& hot(uint32_t index) { return *hots_[index & hots_mask_]; }
  /// As hot(), for a handle: the index is in its low bits.
  [[nodiscard]] SessionHot& hot_of(uint32_t handle) { return hot(handle); }
  [[nodiscard]] Association* association(uint32_t index, uint32_t epoch, PeerId peer) {
    return associations_.find(index, epoch, peer);
  }
  bool open_frame(Association& association) {
    const TxFrame frame = transport_.take_frame(association.peer);
    if (frame.bytes == nullptr) return false;
    association.begin = frame.bytes;
    association.end = frame.bytes + frame.room;
    association.cookie = frame.cookie;
    return true;
  }
  void send_frame(Association& association, uint32_t bytes) {
    out_[out_count_++] = {association.peer, bytes, association.begin,
                          static_cast<uint32_t>(association.end - association.begin), association.cookie};
    if (out_count_ == out_.size()) flush();
  }
  void flush();
  bool keep(const SessionHot& hot, ByteSpan bytes, LeaseParts& parts) {
    if (bytes.empty()) return true;
    if (!current_lends_) [[unlikely]] {
      parts = copy_out(hot, bytes);
      if (parts.owner != nullptr) return true;
      // There is no memory for a copy. Lending above the watermark is better than losing the record.
      if (!current_is_lendable_) return false;
    }
    zero_copy_bytes_ += bytes.size();
    parts = leases_.lend(bytes);
    return true;
  }
  /// A bundle with so many records is sent as a burst of its own; smaller ones wait. Where handlers gather requests,
  /// smaller bundles wait for each other. On a stream a burst is a system call, so all bundles wait. Where many peers
  /// have a call or two each, their answers leave together, at the end of the received burst.
  [[nodiscard]] uint32_t group_records() const { return waits_for_others_ ? few_records_ : group_records_; }
  [[nodiscard]] bool is_burst_dear() const { return is_stream_; }
  /// Sets whether handlers gather requests (Endpoint::on_burst_end).
  void gather(bool is) {
    group_records_ = is_stream_ ? UINT32_MAX : is ? kGatheredRecords : 1;
    few_records_ = std::max(group_records_, kFewRecords);
  }
  [[gnu::always_inline]] inline void deliver(SessionHot& hot, RawRecord record, LeaseParts request);
  [[gnu::always_inline]] inline void complete(CompletionFn& completion, LeaseParts response);
  void burst_end() { incoming_.tell_burst_end(); }
  void on_join(const BundleHead& head, RawRecord record, ByteSpan bytes, PeerId from);
  void arm(SessionHot& hot, Ticks by);
  void make_slots(SessionHot& hot);
  bool yield_slot(SessionHot& hot, uint32_t number);
  void on_slot_freed(SessionHot& hot);
  void on_larger_answer(SessionHot& hot, uint32_t bytes);
  void on_late_answer(SessionHot& hot, RawRecord record, ByteSpan bytes, Ticks echo);
  void on_sample(SessionHot& hot, Ticks delay, uint32_t answers, uint32_t record_bytes);
  void count_retransmit();
  void drop(DropReason reason);
  [[nodiscard]] TimeNs now_ns() const { return context_.now_ns; }
  [[nodiscard]] bool integrity() const { return integrity_; }

 private:
  static constexpr uint32_t kGatheredRecords = 8;
  /// In a burst of many peers, bundles with fewer records wait for those behind them.
  static constexpr uint32_t kFewRecords = 4;

  /// time_of_code(), remembered: most requests have the same code as the one before.
  [[nodiscard]] DurationNs time_of(uint8_t code) {
    if (code != time_code_) [[unlikely]] {
      time_code_ = code;
      time_ns_ = time_of_code(code);
    }
    return time_ns_;
  }
  [[gnu::always_inline]] inline void fetch_for(size_t at, size_t count) const;
  [[gnu::noinline]] void refuse(SessionHot& hot, uint32_t number, uint8_t method);
  /// Copies `bytes` to pool memory. The result has no owner if there is no memory.
  LeaseParts copy_out(const SessionHot& hot, ByteSpan bytes);
  [[nodiscard]] Session& session_of(const SessionHot& hot);

  EndpointContext& context_;
  ReceiveMemory& memory_;
  IncomingCalls& incoming_;
  AssociationJoins& joins_;
  Transport& transport_;
  const bool integrity_;
  const bool is_stream_;
  uint32_t group_records_ = 1;
  uint32_t few_records_ = kFewRecords;
  bool waits_for_others_ = false;  // whether the bundle that is being handled waits if it has few records
  SessionHot nobody_;
  // By session index. The size is a power of two, so a mask makes every index valid without a check.
  std::vector<SessionHot*> hots_{&nobody_};
  uint32_t hots_mask_ = 0;
  Associations associations_;
  FrameLeases leases_;
  SmallCalls<Bundles> calls_;
  /// The session and number that the first (mostly the only) record of a packet is for. Not checked yet; used only for
  /// prefetches.
  struct Ahead {
    uint32_t session = 0;  // index in the session's handle
    uint32_t number = 0;
  };
  std::array<Ahead, kBurstMax> ahead_;
  // Frames that are written and not sent yet.
  std::array<TxFrame, kBurstMax> out_;
  size_t out_count_ = 0;
  // The bundle being handled.
  bool in_packet_ = false;
  bool current_lends_ = false;
  bool current_is_lendable_ = false;
  PeerId current_from_ = kNoPeer;
  uint64_t zero_copy_bytes_ = 0;
  // The time-out of the last request, and its code.
  DurationNs time_ns_ = 0;
  uint8_t time_code_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_BUNDLES_H_
