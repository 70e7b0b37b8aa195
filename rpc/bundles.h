// Bundles: the endpoint's small calls (rpc/protocol/small_calls.h), and what they need of it: frames of the transport,
// leases of received frames, associations and how sessions join them.
//
// Joining. Both sides agreed on version 2 when the session was opened; then its opener sends a join by a bundle, again
// and again until it is answered (JoinRecord in rpc/wire/bundle.h). It is taken from the session's peer alone, and only
// with the session's generation, which only the peer was told. A session leaves its association when it ends or breaks,
// or when the connection that it goes by ends. The two sides may differ in that: an association that does not answer
// joins may have ended at the peer, so the session tries another one. Of a session's joins the one that was sent last
// counts.
#ifndef SKUA_RPC_BUNDLES_H_
#define SKUA_RPC_BUNDLES_H_

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "rpc/base/lease.h"
#include "rpc/endpoint.h"
#include "rpc/protocol/association.h"
#include "rpc/protocol/session.h"
#include "rpc/protocol/small_calls.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct SessionEntry;

/// Received frames that are lent in pieces: a frame goes back when its last piece does. Thread: the endpoint's.
class FrameLeases final : public LeaseOwner {
 public:
  explicit FrameLeases(EndpointImpl& endpoint) : endpoint_(endpoint), current_(take()) { adopt_thread(); }

  /// The frame that is being handled; end() ends that.
  void begin(RxBufferId buffer) {
    current_buffer_ = buffer;
    lent_[current_] = 1;
  }
  [[nodiscard]] LeaseParts lend(ByteSpan piece) {
    ++lent_[current_];
    return {piece, this, current_};
  }
  /// True: pieces of it are still lent.
  [[nodiscard]] bool end() {
    if (--lent_[current_] > 0) {
      buffers_[current_] = current_buffer_;
      current_ = take();
      return true;
    }
    release(current_buffer_);
    return false;
  }
  void return_lease(uint64_t cookie) override;
  void adopt_thread() { thread_ = this_thread_mark(); }

 private:
  [[gnu::noinline]] uint32_t take();
  void release(RxBufferId buffer);

  EndpointImpl& endpoint_;
  // By number: a frame's buffer, and how many pieces of it are lent, and one while it is being handled.
  std::vector<RxBufferId> buffers_;
  std::vector<uint32_t> lent_;
  std::vector<uint32_t> free_;
  // Of the frame that is being handled, or will be.
  uint32_t current_;
  RxBufferId current_buffer_ = kNoBuffer;
};

/// Thread: the endpoint's, which owns it.
class Bundles final {
 public:
  Bundles(EndpointImpl& endpoint, Transport& transport, const ProtocolOptions& options);
  Bundles(const Bundles&) = delete;
  Bundles& operator=(const Bundles&) = delete;

  /// Before the packets of a burst of many peers are handled: what they need of memory is fetched ahead.
  void look_ahead(std::span<const RxPacket> burst);
  /// The packet at that place of a burst, a bundle; its buffer is the transport's again when all leases of it are gone.
  /// `of_many`: look_ahead() has seen the burst.
  void on_packet(std::span<const RxPacket> burst, size_t at, bool of_many);
  [[nodiscard]] bool in_packet() const { return in_packet_; }
  void send_all() {
    if (!calls_.nothing_written() || out_count_ > 0) calls_.send_all();
  }
  [[nodiscard]] bool nothing_written() const { return calls_.nothing_written() && out_count_ == 0; }

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
  /// Asks the peer to let the session join; again after a while (SessionEntry::next_join_ns).
  void join(SessionEntry& entry);
  /// Small calls in flight go on as large ones.
  void leave(SessionEntry& entry);
  /// At a turn's end.
  void bury_ended() { associations_.bury(); }

  // --- Calls
  [[nodiscard]] SmallCalls<Bundles>& calls() { return calls_; }
  [[nodiscard]] const SmallCalls<Bundles>& calls() const { return calls_; }

  // --- Driver of SmallCalls
  /// Of an index that is none it may be another session's: whoever was told the index looks at `handle`.
  [[nodiscard]] const SessionHot& hot(uint32_t index) const { return *hots_[index & hots_mask_]; }
  [[nodiscard]] SessionHot& hot(uint32_t index) { return *hots_[index & hots_mask_]; }
  /// The same of a handle, whose index is in its low bits.
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
      // Without memory to copy to, lending above the watermark is the lesser evil.
      if (!current_is_lendable_) return false;
    }
    zero_copy_bytes_ += bytes.size();
    parts = leases_.lend(bytes);
    return true;
  }
  /// What is worth a burst of its own. Where handlers gather requests, smaller bundles wait for each other; on a stream
  /// a burst is a system call, so all of them do. Where many peers have a call or two each, what they get leaves
  /// together, at the end of what was received together.
  [[nodiscard]] uint32_t group_records() const { return waits_for_others_ ? few_records_ : group_records_; }
  /// Handlers gather requests, or do not.
  void gather(bool is) {
    group_records_ = is_stream_ ? UINT32_MAX : is ? kGatheredRecords : 1;
    few_records_ = std::max(group_records_, kFewRecords);
  }
  [[gnu::always_inline]] inline void deliver(SessionHot& hot, RawRecord record, LeaseParts request);
  [[gnu::always_inline]] inline void complete(CompletionFn& completion, LeaseParts response);
  void burst_end();
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
  [[nodiscard]] TimeNs now_ns() const { return now_ns_; }
  [[nodiscard]] bool integrity() const { return integrity_; }

 private:
  static constexpr uint32_t kGatheredRecords = 8;
  /// Bundles of fewer records wait for those behind them in the burst.
  static constexpr uint32_t kFewRecords = 4;
  static constexpr uint32_t kJoinsPerAssociation = 3;

  /// time_of_code(): most requests have the code of the one before.
  [[nodiscard]] DurationNs time_of(uint8_t code) {
    if (code != time_code_) [[unlikely]] {
      time_code_ = code;
      time_ns_ = time_of_code(code);
    }
    return time_ns_;
  }
  [[gnu::always_inline]] inline void fetch_for(size_t at, size_t count) const;
  void refuse(SessionHot& hot, uint32_t number, uint8_t method);
  /// Nobody's: there is no memory.
  LeaseParts copy_out(const SessionHot& hot, ByteSpan bytes);
  [[nodiscard]] Session& session_of(const SessionHot& hot);
  void on_join_request(const BundleHead& head, RawRecord record, const JoinRecord& join, PeerId from);
  void on_joined(RawRecord record, const JoinRecord& join, Association* association);
  void enter(SessionEntry& entry, Association& association);
  void remember(Association& association);

  EndpointImpl& endpoint_;
  Transport& transport_;
  const ProtocolOptions& options_;
  const TimeNs& now_ns_;  // the endpoint's
  const bool integrity_;
  const bool is_stream_;
  uint32_t group_records_ = 1;
  uint32_t few_records_ = kFewRecords;
  bool waits_for_others_ = false;  // the bundle that is being handled, if it has few records
  SessionHot nobody_;
  // By index, a power of two of them: the index needs no bound, only a mask.
  std::vector<SessionHot*> hots_{&nobody_};
  uint32_t hots_mask_ = 0;
  Associations associations_;
  FrameLeases leases_;
  SmallCalls<Bundles> calls_;
  /// What a packet of a burst of many peers will need: who its first record, mostly its only one, is for. A claim: only
  /// prefetches come of it.
  struct Ahead {
    uint32_t session = 0;  // index of its handle
    uint32_t number = 0;
  };
  std::array<Ahead, kBurstMax> ahead_;
  // Frames that are written, and not sent yet.
  std::array<TxFrame, kBurstMax> out_;
  size_t out_count_ = 0;
  // The bundle being handled.
  bool in_packet_ = false;
  bool current_lends_ = false;
  bool current_is_lendable_ = false;
  PeerId current_from_ = kNoPeer;
  uint64_t zero_copy_bytes_ = 0;
  // Of the last request.
  DurationNs time_ns_ = 0;
  uint8_t time_code_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_BUNDLES_H_
