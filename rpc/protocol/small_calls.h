// SmallCalls: the way of small calls. Most calls are small: request and answer each fit a record of a bundle, the
// answer is OK, and it arrives.
//
//   start()      sslot, number, record into the open bundle   -->   on_bundle()   sslot, handler
//   on_bundle()  completion, sslot is free                    <--   answer()      number, record; the answer is kept
//
// All other cases are handled elsewhere. start() and answer() return false if the call has to take the way of large
// calls (CallerHalf, CalleeHalf). These also take over a small call's sslot, under its number, when its time-out
// passes, when it is cancelled, and so on (small_slots.h). So there are no acknowledgements and no backlog here, and no
// retransmission except of lost bundles (bundle_history.h).
//
// The caller sends its bundle when the bundle holds half of what is usually in flight to that peer, so that the two
// sides overlap instead of taking turns. The callee sends its bundle when the bundle that it answers is finished.
// Bundles of few records wait for the end of their burst: their handlers' answers are gathered
// (Endpoint::on_burst_end) and sent then. What a bundle is while it is written: bundle_writer.h.
//
// This is a template over its driver, so that no call between an application and the wire is virtual. The endpoint is
// one driver, a test's recorder another:
//
//   SessionHot& hot(index), hot_of(handle)       never null: an index that does not exist gives a closed or another one
//   Association* association(index, epoch, peer) null: none
//   what BundleWriter wants: open_frame, send_frame, flush, now_ns, integrity
//   bool keep(SessionHot&, bytes, LeaseParts&)   keeps bytes of the bundle being handled; false: no memory
//   void deliver(SessionHot&, record, LeaseParts)
//   void complete(CompletionFn&, LeaseParts)     the call's response has come
//   uint32_t group_records()                     bundles of so many are sent, and answered, at once; others at the
//                                                burst's end
//   bool is_burst_dear()                         a burst is a system call: outside of a received bundle only full bundles
//                                                are sent before the next poll
//   void burst_end()                             handlers that gather requests answer them now
//   void on_join(head, record, bytes, peer)      kJoin and kJoined
//   void arm(SessionHot&, Ticks) · make_slots(SessionHot&)
//   bool yield_slot(SessionHot&, number) · void on_slot_freed(SessionHot&)
//   void on_larger_answer(SessionHot&, bytes)    an answer was larger than small calls pay for
//   void on_late_answer(SessionHot&, record, bytes, echo)
//   void on_sample(SessionHot&, ticks, answers, record_bytes)
//   count_retransmit() · drop(reason)
#ifndef SKUA_RPC_PROTOCOL_SMALL_CALLS_H_
#define SKUA_RPC_PROTOCOL_SMALL_CALLS_H_

#include <algorithm>
#include <cstring>
#include <utility>

#include "rpc/base/clock.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"
#include "rpc/protocol/association.h"
#include "rpc/protocol/bundle_writer.h"
#include "rpc/protocol/options.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/small_sent.h"
#include "rpc/protocol/small_slots.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {

/// Thread: the driver's.
template <typename Driver>
class SmallCalls {
 public:
  /// One of so many bundles without answers is used as a sample of the round trip.
  static constexpr uint32_t kSampleEvery = 8;

  SmallCalls(Driver& driver, const ProtocolOptions& options) : driver_(driver), options_(options), writer_(driver) {}

  /// Starts a call, and sets `number`. False: the call is not a small one, and nothing has happened. `request` and
  /// `response`: SentMessage or SentBytes.
  template <typename Sent>
  [[gnu::always_inline]] inline bool start(SessionHot& hot, uint8_t method, Sent request, DurationNs timeout_ns,
                                           CompletionFn& completion, uint32_t& number);
  /// Answers OK. False: the answer is not a small one, and nothing has happened.
  template <typename Sent>
  [[gnu::always_inline]] inline bool answer(SessionHot& hot, uint32_t number, Sent response);
  void on_bundle(ByteSpan bundle, uint32_t from);
  /// The session has one small call less: it has ended, or has become a large one.
  void give_up(SessionHot& hot) {
    --hot.small_count;
    --hot.association->in_flight;
    --in_flight_;
  }
  /// Small calls of ours, over all sessions.
  [[nodiscard]] uint32_t in_flight() const { return in_flight_; }
  /// The bundles into which the calls are written.
  [[nodiscard]] BundleWriter<Driver>& writer() { return writer_; }
  [[nodiscard]] const BundleWriter<Driver>& writer() const { return writer_; }

 private:
  /// Remembers the time-out in all its forms: most calls have the same one as the call before. False: a small call
  /// cannot have this time-out.
  bool learn_timeout(DurationNs timeout_ns) {
    if (timeout_ns <= 0 || timeout_ns > kSmallTimeoutMax) return false;
    timeout_ns_ = timeout_ns;
    timeout_ticks_ = to_ticks(timeout_ns);
    timeout_code_ = time_code(timeout_ns);
    return true;
  }
  /// Reads the head, and finds the association. Null: the bundle has none. False: the bundle is dropped.
  [[gnu::always_inline]] inline bool hear(ByteSpan bundle, uint32_t from, BundleHead& head, Association*& association);
  [[gnu::always_inline]] inline void on_response(SessionHot& hot, const RawRecord& record, ByteSpan bytes, Ticks echo);
  [[gnu::always_inline]] inline void on_request(SessionHot& hot, const RawRecord& record, ByteSpan bytes);
  void sample(Association& association, const BundleHead& head, Ticks now, uint32_t answers, SessionHot* answered,
              size_t bytes);
  /// By value: references would force the caller's variables out of registers.
  void on_other(const BundleHead& head, RawRecord record, ByteSpan bytes, uint32_t from);
  void tell_missing(Association& association);
  void on_missing(Association& association, RawRecord record, ByteSpan bytes);
  /// False: there is no room.
  bool write_again(SessionHot& hot, const Kept& kept, const FewBytes& few, const RecordHead& head);
  void repeat_request(SessionHot& hot, uint32_t number);
  void repeat_answer(SessionHot& hot, uint32_t number);
  /// For a mutant: yields the part that is there of a record that does not fit. `bytes`: those of the last whole
  /// record.
  static bool take_cut(ByteSpan bundle, RawRecord& record, ByteSpan& bytes);

  Driver& driver_;
  const ProtocolOptions& options_;
  uint32_t in_flight_ = 0;
  bool in_bundle_ = false;
  // The last call's time-out, also in ticks and as a record's code. Before the first call: one that calls may have.
  DurationNs timeout_ns_ = kSmallTimeoutMax;
  Ticks timeout_ticks_ = to_ticks(kSmallTimeoutMax);
  uint8_t timeout_code_ = time_code(kSmallTimeoutMax);
  BundleWriter<Driver> writer_;
};

// --- Calls -----------------------------------------------------------------------------------------------------------

template <typename Driver>
template <typename Sent>
bool SmallCalls<Driver>::start(SessionHot& hot, uint8_t method, Sent request, DurationNs timeout_ns,
                               CompletionFn& completion, uint32_t& number) {
  const size_t size = request.size();
  const uint32_t hindered = hot.hindrances & ~uint32_t{SessionHot::kUnarmed};
  if ((hindered != 0) | (hot.free_head == kNoFreeSlot) | (hot.credits - hot.credits_barred < hot.charge) |
      (size > kRecordBytesMax)) [[unlikely]] {
    return false;
  }
  if (timeout_ns != timeout_ns_) [[unlikely]] {
    if (!learn_timeout(timeout_ns)) return false;
  }
  Association& a = *hot.association;
  const auto bytes = static_cast<uint32_t>(size);
  std::byte* at = writer_.room(a, static_cast<uint32_t>(kRecordHeadBytes) + bytes);
  if (at == nullptr) [[unlikely]] {
    return false;
  }
  const Ticks now = to_ticks(driver_.now_ns());
  const Ticks timeout = timeout_ticks_;
  ClientSlot& slot = hot.client[hot.take_slot(ClientSlot::State::kSmall)];
  hot.credits = static_cast<int16_t>(hot.credits - hot.charge);
  ++hot.small_count;
  ++a.in_flight;
  ++in_flight_;
  if (mutant(Mutant::kReuseNumber)) slot.req_num -= hot.window();
  number = slot.req_num;
  slot.method = method;
  slot.charge = hot.charge;
  slot.sent = now;
  slot.deadline = now + timeout;
  if (a.sent != nullptr) a.sent->add(index_of_handle(hot.handle), number, false);
  RawRecord::write(at, hot.remote_handle, number, bytes, RecordKind::kRequest, method, timeout_code_);
  request.put(at + kRecordHeadBytes, bytes, slot.request, slot.few);
  slot.completion.fill(completion);
  const Ticks by = now + std::min(a.probe_ticks, timeout);
  if ((static_cast<int32_t>(hot.due - by) > 0) | ((hot.hindrances & SessionHot::kUnarmed) != 0)) [[unlikely]] {
    driver_.arm(hot, by);
  }
  if (a.in_flight > a.depth) [[unlikely]] {
    a.set_depth(a.in_flight);
  }
  if (a.records >= a.goal) {
    const uint32_t outside = driver_.is_burst_dear() ? Association::kGoalMax : 1;
    const bool at_once = a.records >= (in_bundle_ ? driver_.group_records() : outside);
    writer_.seal(a);
    if (at_once) driver_.flush();
  }
  return true;
}

template <typename Driver>
template <typename Sent>
bool SmallCalls<Driver>::answer(SessionHot& hot, uint32_t number, Sent response) {
  if ((hot.hindrances & SessionHot::kCannotAnswer) != 0 || hot.client == nullptr) [[unlikely]] {
    return false;
  }
  ServerSlot& slot = hot.server()[number & hot.mask];
  const size_t size = response.size();
  if ((slot.req_num != number) | (slot.state != ServerSlot::State::kExecuting) | (size > kRecordBytesMax))
      [[unlikely]] {
    return false;
  }
  const auto bytes = static_cast<uint32_t>(size);
  Association& a = *hot.association;
  std::byte* at = writer_.room(a, static_cast<uint32_t>(kRecordHeadBytes) + bytes);
  if (at == nullptr) [[unlikely]] {
    return false;
  }
  if (a.sent != nullptr) a.sent->add(index_of_handle(hot.handle), number, true);
  RawRecord::write(at, hot.remote_handle, number, bytes, RecordKind::kResponse, 0, 0);
  response.put(at + kRecordHeadBytes, bytes, slot.response, slot.few);
  slot.state = ServerSlot::State::kResponding;
  if (mutant(Mutant::kForgetAnswer)) slot.req_num -= hot.window();
  return true;
}

// --- Receiving -------------------------------------------------------------------------------------------------------

template <typename Driver>
[[gnu::always_inline]] inline bool SmallCalls<Driver>::hear(ByteSpan bundle, uint32_t from, BundleHead& head,
                                                            Association*& a) {
  DropReason why;
  if (!open_bundle(bundle, driver_.integrity(), head, why)) [[unlikely]] {
    driver_.drop(why);
    return false;
  }
  a = driver_.association(head.association, head.epoch, from);
  if (a == nullptr) [[unlikely]] {
    if (head.association == kNoAssociation) return true;
    driver_.drop(DropReason::kUnknownAssociation);
    return false;
  }
  if (!a->hears(head.stamp, head.sequence, driver_.now_ns())) [[unlikely]] {
    driver_.drop(DropReason::kStaleBundle);
    return false;
  }
  return true;
}

template <typename Driver>
void SmallCalls<Driver>::on_bundle(ByteSpan bundle, uint32_t from) {
  BundleHead head;
  Association* a = nullptr;
  if (!hear(bundle, from, head, a)) [[unlikely]] {
    return;
  }
  const Ticks now = to_ticks(driver_.now_ns());
  if (a != nullptr) a->repeats = std::min(a->repeats + 1, SentBundles::kBundles);
  in_bundle_ = true;
  uint32_t answers = 0;
  SessionHot* answered = nullptr;
  // Used only for comparisons. A bundle without an association may have no records of sessions.
  const SessionHot* before = nullptr;
  const void* theirs = a != nullptr ? static_cast<const void*>(a) : this;
  RecordReader reader(bundle, head.records);
  RawRecord record;
  ByteSpan bytes;
  while (reader.next(record, bytes) || (mutant(Mutant::kBelieveCut) && take_cut(bundle, record, bytes))) {
    if (!record.is_call()) [[unlikely]] {
      on_other(head, record, bytes, from);
      continue;
    }
    SessionHot& hot = driver_.hot_of(record.session);
    // With many sessions the next one's cache line is not near: prefetch it while this record is handled.
    if (&hot != before) __builtin_prefetch(&driver_.hot_of(reader.next_session()), 1);
    before = &hot;
    const bool is_life = hot.handle == record.session || mutant(Mutant::kAnyLife);
    if (!is_life || hot.association != theirs) [[unlikely]] {
      driver_.drop(is_life ? DropReason::kForeignSender : DropReason::kOldGeneration);
      continue;
    }
    hot.heard = now;
    if (record.is(RecordKind::kResponse)) {
      ++answers;
      answered = &hot;
      on_response(hot, record, bytes, head.echo);
    } else {
      on_request(hot, record, bytes);
    }
  }
  if (reader.is_malformed()) [[unlikely]] {
    driver_.drop(DropReason::kBadLength);
  }
  if (head.records >= driver_.group_records()) {
    driver_.burst_end();
    writer_.send_all();
  }
  in_bundle_ = false;
  // This comes after the work that others wait for. Handlers and completions may have ended the association; its memory
  // stays until bury().
  if (a == nullptr) return;
  if (!a->missing.empty()) [[unlikely]] {
    if (driver_.association(head.association, head.epoch, from) == a) tell_missing(*a);
  }
  sample(*a, head, now, answers, answered, bundle.size());
}

/// Takes the bundle as a sample of the round trip. `answered`: the session of the last of its `answers`.
template <typename Driver>
[[gnu::always_inline]] inline void SmallCalls<Driver>::sample(Association& a, const BundleHead& head, Ticks now,
                                                              uint32_t answers, SessionHot* answered, size_t bytes) {
  // A side that only answers needs samples only for the reorder window, so a few are enough.
  if (answers == 0 && head.sequence % kSampleEvery != 0 && a.rtt.has_sample()) return;
  const auto delay = static_cast<int32_t>(now - head.echo);
  if ((head.flags & bundle_flags::kNoEcho) != 0 || delay < 0) return;
  a.rtt.add_sample(delay * kTickNs);
  if (answers == 0) return;
  if (a.sent != nullptr) a.probe_ticks = to_ticks(a.rtt.probe_timeout_ns(options_, 0));
  const bool is_news = static_cast<Ticks>(delay) - answered->quiet_from >= answered->quiet_span;
  if (is_news && answered->association == &a) {
    driver_.on_sample(*answered, static_cast<Ticks>(delay), answers, static_cast<uint32_t>(bytes / head.records));
  }
}

/// Looks up the association again: completions of earlier records may have ended it.
template <typename Driver>
[[gnu::noinline]] void SmallCalls<Driver>::on_other(const BundleHead& head, RawRecord record, ByteSpan bytes,
                                                    uint32_t from) {
  if (record.is(RecordKind::kJoin) || record.is(RecordKind::kJoined)) return driver_.on_join(head, record, bytes, from);
  if (!record.is(RecordKind::kMissing)) return driver_.drop(DropReason::kBadType);
  Association* a = driver_.association(head.association, head.epoch, from);
  if (a != nullptr) on_missing(*a, record, bytes);
}

template <typename Driver>
void SmallCalls<Driver>::tell_missing(Association& a) {
  MissingRecord gap;
  while (a.missing.take_due(a.rtt.reorder_window_ns(), driver_.now_ns(), gap)) {
    std::byte* at = writer_.write(
        a, {.session = 0, .number = gap.first, .bytes = MissingRecord::kBytes, .kind = RecordKind::kMissing});
    if (at == nullptr) return;  // the calls wait for their time-outs
    store_le(at, gap.count);
  }
}

/// Writes the records of the missing bundles again, if they are still needed and their calls are still small ones.
template <typename Driver>
void SmallCalls<Driver>::on_missing(Association& a, RawRecord record, ByteSpan bytes) {
  if (bytes.size() != MissingRecord::kBytes || a.sent == nullptr) return driver_.drop(DropReason::kBadLength);
  const auto count = load_le<uint32_t>(bytes.data());
  if (count > SentBundles::kBundles) return driver_.drop(DropReason::kBadLength);
  for (uint32_t i = 0; i < count && a.repeats > 0; ++i) {
    --a.repeats;
    a.sent->take(record.number + i, [&](uint32_t session, uint32_t number, bool is_answer) {
      SessionHot& hot = driver_.hot(session);
      if (hot.association == &a && hot.client != nullptr)
        is_answer ? repeat_answer(hot, number) : repeat_request(hot, number);
    });
  }
}

template <typename Driver>
bool SmallCalls<Driver>::write_again(SessionHot& hot, const Kept& kept, const FewBytes& few, const RecordHead& head) {
  std::byte* at = writer_.write(*hot.association, head);
  if (at == nullptr) return false;
  kept.message != nullptr ? kept.message->copy_to(at) : copy_bytes(at, ByteSpan(few.at).first(head.bytes));
  const bool is_answer = head.kind == RecordKind::kResponse;
  hot.association->sent->add(index_of_handle(hot.handle), head.number, is_answer);
  driver_.count_retransmit();
  return true;
}

template <typename Driver>
void SmallCalls<Driver>::repeat_request(SessionHot& hot, uint32_t number) {
  ClientSlot& slot = hot.client[number & hot.mask];
  if (slot.req_num != number || slot.state != ClientSlot::State::kSmall) return;
  const Ticks now = to_ticks(driver_.now_ns());
  const auto left = static_cast<int32_t>(slot.deadline - now);
  if (left <= 0) return;
  const RecordHead head{.session = hot.remote_handle,
                        .number = number,
                        .bytes = slot.request.size(),
                        .kind = RecordKind::kRequest,
                        .method = slot.method,
                        .time = time_code(left * kTickNs)};
  if (write_again(hot, slot.request, slot.few, head)) slot.sent = now;
}

template <typename Driver>
void SmallCalls<Driver>::repeat_answer(SessionHot& hot, uint32_t number) {
  const ServerSlot& slot = hot.server()[number & hot.mask];
  if (slot.req_num != number || slot.state != ServerSlot::State::kResponding) return;
  const RecordHead head{
      .session = hot.remote_handle, .number = number, .bytes = slot.response.size(), .kind = RecordKind::kResponse};
  static_cast<void>(write_again(hot, slot.response, slot.few, head));
}

template <typename Driver>
bool SmallCalls<Driver>::take_cut(ByteSpan bundle, RawRecord& record, ByteSpan& bytes) {
  const std::byte* at = bytes.data() == nullptr ? bundle.data() + kBundleHeadBytes : bytes.data() + bytes.size();
  const ByteSpan rest(at, bundle.data() + bundle.size());
  if (rest.size() < kRecordHeadBytes) return false;
  record = RawRecord::read(rest.data());
  bytes = rest.subspan(kRecordHeadBytes);
  return true;
}

template <typename Driver>
void SmallCalls<Driver>::on_response(SessionHot& hot, const RawRecord& record, ByteSpan bytes, Ticks echo) {
  const uint32_t index = record.number & hot.mask;
  if (hot.client == nullptr) [[unlikely]] {
    return driver_.drop(DropReason::kUnexpectedResponse);
  }
  ClientSlot& slot = hot.client[index];
  if (slot.req_num != record.number || slot.state != ClientSlot::State::kSmall) [[unlikely]] {
    return driver_.on_late_answer(hot, record, bytes, echo);
  }
  LeaseParts response;
  if (!driver_.keep(hot, bytes, response)) [[unlikely]] {
    return driver_.drop(DropReason::kNoMemory);  // the way of large calls asks again, and reports the error
  }
  // All state is updated before foreign code runs: a body's release, the completion.
  Message* request = std::exchange(slot.request.message, nullptr);
  CompletionFn completion = std::move(slot.completion);
  hot.free_slot(index);
  hot.credits = static_cast<int16_t>(hot.credits + slot.charge);
  if (bytes.size() > hot.charge_bytes) [[unlikely]] {
    driver_.on_larger_answer(hot, static_cast<uint32_t>(bytes.size()));
  }
  give_up(hot);
  if ((hot.hindrances & SessionHot::kBusy) != 0) [[unlikely]] {
    driver_.on_slot_freed(hot);
  }
  MessagePtr::adopt(request).reset();
  driver_.complete(completion, response);
}

template <typename Driver>
void SmallCalls<Driver>::on_request(SessionHot& hot, const RawRecord& record, ByteSpan bytes) {
  if (hot.client == nullptr) [[unlikely]] {
    driver_.make_slots(hot);
  }
  ServerSlot& slot = hot.server()[record.number & hot.mask];
  if (slot.state == ServerSlot::State::kLarge) [[unlikely]] {
    if (!driver_.yield_slot(hot, record.number)) return;
  } else if (const auto age = static_cast<int32_t>(record.number - slot.req_num); age <= 0) [[unlikely]] {
    return driver_.drop(age == 0 ? DropReason::kDuplicate : DropReason::kStaleRequest);
  }
  LeaseParts request;
  if (!driver_.keep(hot, bytes, request)) [[unlikely]] {
    return driver_.drop(DropReason::kNoMemory);
  }
  Message* released = std::exchange(slot.response.message, nullptr);
  slot.req_num = record.number;
  slot.state = ServerSlot::State::kExecuting;
  slot.method = record.method();
  slot.request_bytes = static_cast<uint16_t>(record.bytes());
  MessagePtr::adopt(released).reset();
  driver_.deliver(hot, record, request);
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SMALL_CALLS_H_
