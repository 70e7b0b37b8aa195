// SmallCalls over a driver that records: what is written into bundles, when these are sealed, and what becomes of what
// comes in.
#ifndef SKUA_TESTS_RPC_PROTOCOL_SMALL_CALLS_HARNESS_H_
#define SKUA_TESTS_RPC_PROTOCOL_SMALL_CALLS_HARNESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/protocol/small_calls.h"
#include "tests/rpc/wire/bundle_testing.h"

namespace skua::rpc::testing {

inline constexpr uint32_t kPeer = 5;
inline constexpr uint32_t kWindow = 64;
inline constexpr uint8_t kMethod = 9;

struct LateAnswer {
  uint32_t number = 0;
  std::string bytes;
  Ticks echo = 0;
};

/// A bundle that was sent, taken apart.
struct Sent {
  const Association* association = nullptr;
  BundleHead head;
  std::vector<Record> records;
};

class RecordingDriver final : public LeaseOwner {
 public:
  // --- The driver that SmallCalls wants
  SessionHot& hot(uint32_t index) { return sessions.contains(index) ? *sessions[index] : nobody; }
  SessionHot& hot_of(uint32_t handle) { return hot(index_of_handle(handle)); }
  Association* association(uint32_t index, uint32_t epoch, uint32_t peer) {
    return associations.find(index, epoch, peer);
  }
  bool open_frame(Association& a) {
    if (!has_room) return false;
    frames.push_back(std::make_unique<std::vector<std::byte>>(frame_room + 64));
    a.begin = frames.back()->data();
    a.end = a.begin + frame_room;
    return true;
  }
  void send_frame(Association& a, uint32_t bytes) {
    if (bytes == 0) {
      ++empty_frames;
      return;
    }
    const ByteSpan bundle(a.begin, bytes);
    Sent one{&a, {}, {}};
    DropReason why{};
    ASSERT_TRUE(open_bundle(bundle, false, one.head, why));
    const RecordsRead read = read_records_by_hand(bundle, one.head.records);
    EXPECT_FALSE(read.is_malformed);
    one.records = read.records;
    written.push_back(one);
  }
  void flush() {
    sent.insert(sent.end(), written.begin(), written.end());
    written.clear();
  }
  bool keep(SessionHot&, ByteSpan bytes, LeaseParts& parts) {
    if (keep_fails) return false;
    if (!bytes.empty()) parts = {bytes, this, static_cast<uint64_t>(++kept)};
    return true;
  }
  void return_lease(uint64_t) override { --kept; }
  void deliver(SessionHot& session, RawRecord record, LeaseParts parts) {
    const Lease request(parts);
    ++delivered;
    const std::string bytes(as_string_view(request.bytes()));
    requests.emplace_back(record.number, bytes);
    last_time = record.time();
    if (handler) handler(session, record.number, bytes);
  }
  void complete(CompletionFn& completion, LeaseParts response) {
    completion({.status = absl::OkStatus(), .response = Lease(response)});
  }
  [[nodiscard]] uint32_t group_records() const { return groups_of; }
  [[nodiscard]] bool is_burst_dear() const { return burst_is_dear; }
  void burst_end() {
    ++burst_ends;
    if (on_burst_end) on_burst_end();
  }
  void on_join(const BundleHead&, const RawRecord& record, ByteSpan, uint32_t) {
    joins.push_back(static_cast<RecordKind>(record.kind()));
  }
  void on_larger_answer(SessionHot&, uint32_t bytes) { larger = bytes; }
  void count_retransmit() { ++retransmits; }
  void arm(SessionHot& session, Ticks by) {
    ++armed;
    session.due = by;
    session.hinder(SessionHot::kUnarmed, false);
  }
  void make_slots(SessionHot& session) { slots[&session].make(session); }
  bool yield_slot(SessionHot& session, uint32_t number) {
    if (yields) session.server()[number & session.mask].state = ServerSlot::State::kIdle;
    return yields;
  }
  void on_slot_freed(SessionHot&) { ++freed; }
  void on_late_answer(SessionHot&, const RawRecord& record, ByteSpan bytes, Ticks echo) {
    late.push_back({record.number, std::string(as_string_view(bytes)), echo});
  }
  void on_sample(SessionHot&, Ticks delay, uint32_t answers, uint32_t) { samples.emplace_back(delay, answers); }
  void drop(DropReason reason) { ++drops[reason]; }
  [[nodiscard]] TimeNs now_ns() const { return now; }
  [[nodiscard]] bool integrity() const { return false; }

  // --- What a test sets and sees
  TimeNs now = 100 * kSecond;
  bool has_room = true;
  uint32_t frame_room = 1056;
  bool keep_fails = false;
  bool yields = true;
  std::function<void(SessionHot&, uint32_t, const std::string&)> handler;
  std::function<void()> on_burst_end;
  Associations associations;
  SessionHot nobody;
  std::map<uint32_t, SessionHot*> sessions;
  std::map<SessionHot*, SmallSlots> slots;
  std::vector<std::unique_ptr<std::vector<std::byte>>> frames;
  std::vector<Sent> written;
  std::vector<Sent> sent;
  std::vector<std::pair<uint32_t, std::string>> requests;
  std::vector<LateAnswer> late;
  std::vector<std::pair<Ticks, uint32_t>> samples;
  std::vector<RecordKind> joins;
  std::map<DropReason, int> drops;
  uint32_t groups_of = 8;
  bool burst_is_dear = false;
  uint32_t larger = 0;
  int retransmits = 0;
  int empty_frames = 0;
  int delivered = 0;
  int burst_ends = 0;
  int armed = 0;
  int freed = 0;
  int64_t kept = 0;
  uint8_t last_time = 0;
};

class SmallCallsHarness : public ::testing::Test {
 protected:
  using Calls = SmallCalls<RecordingDriver>;

  SmallCallsHarness() {
    a_ = &driver_.associations.make_own(kPeer, 77);
    a_->remote_index = 4;
    a_->remote_epoch = 44;
    a_->bundle_bytes_max = 1056;
    a_->probe_ticks = to_ticks(kMillisecond);
    a_->sent = std::make_unique<SentBundles>();
    for (uint32_t i = 0; i < 2; ++i) add(i, hots_[i], *a_);
  }

  void add(uint32_t index, SessionHot& hot, Association& association) {
    driver_.sessions[index] = &hot;
    hot.mask = kWindow - 1;
    hot.handle = session_handle(index, 3);
    hot.remote_handle = session_handle(index + 10, 8);
    hot.credits = 100;
    hot.charge_bytes = UINT16_MAX;
    hot.hindrances = SessionHot::kUnarmed;
    hot.association = &association;
    driver_.make_slots(hot);
  }

  /// The number; 0xffffffff: not from here.
  uint32_t start(SessionHot& hot, std::string_view text = "request", DurationNs timeout_ns = kSecond) {
    const bool as_bytes = as_bytes_ && text.size() <= FewBytes::kMax;
    MessagePtr request = as_bytes ? MessagePtr() : MessagePtr::copy_of(as_byte_span(text));
    CompletionFn completion = [this](CallOutcome&& outcome) {
      completed_.emplace_back(as_string_view(outcome.response.bytes()));
      if (on_complete_) std::exchange(on_complete_, nullptr)();
    };
    uint32_t number = UINT32_MAX;
    const bool started = as_bytes
                             ? calls_.start(hot, kMethod, SentBytes(as_byte_span(text)), timeout_ns, completion, number)
                             : calls_.start(hot, kMethod, SentMessage(request), timeout_ns, completion, number);
    EXPECT_EQ(!started && !as_bytes, static_cast<bool>(request))
        << "the message is taken if, and only if, the call began";
    EXPECT_NE(started, static_cast<bool>(completion));
    return started ? number : UINT32_MAX;
  }
  bool answer(SessionHot& hot, uint32_t number, std::string_view text) {
    if (as_bytes_ && text.size() <= FewBytes::kMax) return calls_.answer(hot, number, SentBytes(as_byte_span(text)));
    MessagePtr response = MessagePtr::copy_of(as_byte_span(text));
    const bool answered = calls_.answer(hot, number, SentMessage(response));
    EXPECT_NE(answered, static_cast<bool>(response));
    return answered;
  }

  [[nodiscard]] BundleHead head(size_t records) const {
    return {.flags = bundle_flags::kNoEcho,
            .records = static_cast<uint16_t>(records),
            .association = a_->index,
            .epoch = 77,
            .stamp = to_ticks(driver_.now)};
  }
  static Record request(const SessionHot& hot, uint32_t number, std::string bytes = "do") {
    Record out;
    out.head = {hot.handle,           number,  static_cast<uint16_t>(bytes.size()),
                RecordKind::kRequest, kMethod, time_code(kSecond)};
    out.bytes = std::move(bytes);
    return out;
  }
  static Record response(const SessionHot& hot, uint32_t number, std::string bytes = "done") {
    Record out = request(hot, number, std::move(bytes));
    out.head.kind = RecordKind::kResponse;
    out.head.method = out.head.time = 0;
    return out;
  }
  void receive(const BundleHead& head, std::string_view records, uint32_t from = kPeer) {
    received_.push_back(seal(head, false, records));
    calls_.on_bundle(as_byte_span(received_.back()), from);
  }
  void receive(const std::vector<Record>& records) { receive(head(records.size()), encode_records(records)); }
  [[nodiscard]] std::vector<size_t> sizes() const {
    std::vector<size_t> out;
    for (const Sent& one : driver_.sent) out.push_back(one.records.size());
    return out;
  }

  RecordingDriver driver_;
  ProtocolOptions options_;
  Calls calls_{driver_, options_};
  Association* a_ = nullptr;
  SessionHot hots_[4];
  bool as_bytes_ = false;  // requests and answers are given as bytes, if an sslot can keep them
  std::vector<std::string> completed_;
  std::function<void()> on_complete_;  // in the next completion
  std::deque<std::string> received_;
};

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_PROTOCOL_SMALL_CALLS_HARNESS_H_
