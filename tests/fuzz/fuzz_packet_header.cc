// Everything of the engine that reads a peer's bytes before an application does: the packet header, packet sets, the
// handshake records, the endpoint descriptor, and sessions that are fed arbitrary packets.
//
//     first byte   0 header   1 packet set   2 offer   3 answer   4 descriptor   else: a session
//
// The session plays both roles at once, against nobody: the input is a script of packets, calls, cancels, answers and
// time. It must not crash, emit without room, hold more credits than its terms say, spin on a timer, complete a call
// twice, or keep memory that it was lent.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/protocol/session.h"
#include "rpc/transport/descriptor.h"
#include "rpc/wire/handshake.h"
#include "rpc/wire/packet_header.h"
#include "rpc/wire/read_list.h"

namespace {

using namespace skua;       // NOLINT(google-build-using-namespace)
using namespace skua::rpc;  // NOLINT(google-build-using-namespace)

// --- Decoders --------------------------------------------------------------------------------------------------------

void fuzz_header(ByteSpan bytes) {
  const DecodedHeader decoded = decode_header(bytes);
  if (!decoded.ok) return;
  std::array<std::byte, kHeaderBytes> again;
  encode_header(decoded.header, again.data());
  SKUA_CHECK(std::equal(again.begin(), again.begin() + 28, bytes.begin()), "header does not round trip");
  static_cast<void>(verify_checksum(bytes.first(kHeaderBytes), bytes.subspan(kHeaderBytes)));
}

void fuzz_packet_set(ByteSpan bytes) {
  PacketSet set;
  if (!PacketSet::decode(bytes, set)) return;
  std::array<std::byte, PacketSet::kEncodedMax> again;
  const size_t size = set.encode(again.data());
  SKUA_CHECK(as_string_view({again.data(), size}) == as_string_view(bytes), "packet set does not round trip");
}

template <typename Record>
void fuzz_record(ByteSpan bytes) {
  const auto record = Record::decode(bytes);
  if (record.ok()) SKUA_CHECK(record->encode() == as_string_view(bytes), "record does not round trip");
}

// --- A session and its surroundings ----------------------------------------------------------------------------------

class Surroundings final : public SessionHost, public PacketSink, public LeaseOwner {
 public:
  void mark_ready(Session&) override {}
  PacketSink* express(const Session& /*session*/) override { return nullptr; }
  void arm_timer(Session&, TimeNs when) override { timer = std::min(timer, when); }
  bool keep(const Arrival& arrival, Lease& lease) override {
    if (scarce) return false;
    lease = lend(std::vector<std::byte>(arrival.payload.begin(), arrival.payload.end())).lease;
    return true;
  }
  std::optional<Assembly> assemble(const Session& /*session*/, size_t bytes, bool /*is_request*/) override {
    if (scarce) return std::nullopt;
    return lend(std::vector<std::byte>(bytes));
  }
  [[nodiscard]] size_t assembly_bytes_max() const override { return SIZE_MAX; }
  MessagePtr make_message() override { return messages.make(); }
  Announcement announce(const MessageOwner&, const MessagePtr& message) override {
    if (!reads || message->size() > kReadHeadMax) return {};
    ReadList list;
    list.connection = 1;
    list.span_count = 1;
    list.spans[0] = {.address = 4096, .key = 1, .bytes = static_cast<uint32_t>(message->size())};
    MessagePtr out = messages.make();
    out->set_head_size(list.encode(out->head_room()));
    return Announcement(std::move(out));
  }
  Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) override {
    if (!reads) return Fetch::kImpossible;
    SKUA_CHECK(list.message_bytes() == message_bytes, "a fetch of other bytes than the message has");
    if (scarce) return Fetch::kNoMemory;
    fetches.push_back({owner, lend(std::vector<std::byte>(message_bytes)).lease});
    return Fetch::kStarted;
  }
  void sever(const Session&) override {}
  void deliver(Session&, ArrivedRequest&& request) override { requests.push_back(std::move(request)); }
  [[nodiscard]] bool takes_one_way(uint16_t method) const override { return method % 2 == 0; }
  bool start_small(Session& /*session*/, Call& /*call*/) override { return false; }
  Call& take_over(Session& /*session*/) override { return taken_over_.emplace_back(); }
  void complete(Call& call) override {
    SKUA_CHECK(call.request, "a call completed twice");
    SKUA_CHECK(!call.hook.linked() && call.slot == kNoSlot, "a completed call is still in the session");
    call.request.reset();
    call.outcome = {};
  }
  void count_drop(DropReason) override {}
  void count_retransmit() override {}
  void count_copied(size_t) override {}

  [[nodiscard]] uint32_t room_packets() const override { return static_cast<uint32_t>(room); }
  void emit(const Session&, const PacketHeader&, const MessagePtr& payload, size_t offset, size_t length) override {
    SKUA_CHECK(room-- > 0, "emitted without room");
    if (length == 0) return;
    SKUA_CHECK(offset + length <= payload->size(), "emitted bytes that the message does not have");
    std::array<ByteSpan, Message::kBodiesMax + 1> pieces;
    payload->slice(offset, length, pieces);
  }

  void return_lease(uint64_t cookie) override { SKUA_CHECK(lent.erase(cookie) == 1, "a lease came back twice"); }

  MessagePool messages{16};
  std::map<uint64_t, std::vector<std::byte>> lent;
  std::deque<ArrivedRequest> requests;
  struct Fetching {
    MessageOwner owner;
    Lease message;
  };
  std::deque<Fetching> fetches;
  TimeNs timer = kTimeNever;
  size_t room = 0;
  bool scarce = false;
  bool reads = false;

 private:
  static constexpr size_t kReadHeadMax = 16 << 10;
  std::deque<Call> taken_over_;
  Assembly lend(std::vector<std::byte> bytes) {
    const uint64_t cookie = next_cookie_++;
    std::vector<std::byte>& kept = lent[cookie] = std::move(bytes);
    Assembly out;
    out.data = kept.data();
    out.lease = Lease(kept, this, cookie);
    return out;
  }
  uint64_t next_cookie_ = 1;
};

class SessionScript {
 public:
  explicit SessionScript(ByteSpan bytes) : in_(bytes) {}

  void run() {
    terms_.window = static_cast<uint16_t>(1u << (in_.read<uint8_t>() % 4));
    terms_.credits = 1 + in_.read<uint8_t>() % 40;
    terms_.payload_bytes = 1 + in_.read<uint8_t>() % 64;
    terms_.message_max_bytes =
        std::min<uint32_t>(1 + in_.read<uint16_t>(), terms_.payload_bytes * kPacketsPerMessageMax);
    options_.backlog_max = 8;
    session_ = std::make_unique<Session>(around_, options_, 1);
    reliable_ = in_.read<uint8_t>() % 4 == 0;
    open();
    while (in_.ok() && in_.remaining() > 0) {
      step(in_.read<uint8_t>());
      SKUA_CHECK(session_->credits_missing() <= terms_.credits, "more credits in use than there are");
    }
    session_->abort_all(absl::CancelledError("the end"), now_);
    SKUA_CHECK(session_->outstanding_calls() == 0, "a call survived abort_all");
    around_.requests.clear();
    around_.fetches.clear();
    session_.reset();
    SKUA_CHECK(around_.lent.empty(), "lent memory was not given back");
    SKUA_CHECK(around_.messages.outstanding_count() == 0, "a message was not given back");
  }

 private:
  static constexpr size_t kCallsMax = 64;

  void open() { session_->open({1, ++generation_, 2, generation_}, terms_, reliable_, now_); }

  void step(uint8_t what) {
    switch (what % 16) {
      case 0:
      case 1: return call();
      case 2: return cancel();
      case 3: return respond();
      case 4: around_.scarce = in_.read<uint8_t>() % 2 == 1; return;
      case 5: session_->interrupt(absl::UnavailableError("interrupted"), now_); return open();
      case 6: return session_->on_link_lost(now_);
      case 7: return pass_time();
      case 8: return unplaceable();
      case 9:
      case 10: return transmit();
      case 11: return fetched();
      case 12: around_.reads = in_.read<uint8_t>() % 2 == 1; return;
      default: return packet();
    }
  }

  void call() {
    Call& call = calls_.emplace_back();
    call.request = around_.messages.make();
    call.request->append_copy(ByteSpan(filler_).first(in_.read<uint16_t>() % (filler_.size() + 1)));
    call.one_way = in_.read<uint8_t>() % 4 == 0;
    call.deadline_ns = now_ + in_.read<uint16_t>() * kMillisecond;
    if (calls_.size() > kCallsMax || !session_->start(call, now_).ok()) calls_.pop_back();
  }

  void cancel() {
    if (calls_.empty()) return;
    Call& call = calls_[in_.read<uint8_t>() % calls_.size()];
    if (call.request) session_->cancel(call, absl::CancelledError("cancelled"), now_);
  }

  void respond() {
    if (around_.requests.empty()) return;
    const ArrivedRequest request = std::move(around_.requests.front());
    around_.requests.pop_front();
    MessagePtr message = around_.messages.make();
    message->append_copy(ByteSpan(filler_).first(in_.read<uint16_t>() % (filler_.size() + 1)));
    session_->respond(request.slot, request.req_num, static_cast<absl::StatusCode>(in_.read<uint8_t>() % 20), false,
                      std::move(message), now_);
  }

  /// A read of the peer's memory ends, whoever waits for it still.
  void fetched() {
    if (around_.fetches.empty()) return;
    Surroundings::Fetching fetch = std::move(around_.fetches.front());
    around_.fetches.pop_front();
    session_->on_fetched(fetch.owner, in_.read<uint8_t>() % 4 != 0, std::move(fetch.message), now_);
  }

  void pass_time() {
    now_ += in_.read<uint16_t>() * 10 * kMicrosecond;
    if (around_.timer > now_) return;
    around_.timer = kTimeNever;
    const TimeNs next = session_->on_timer(now_);
    SKUA_CHECK(next > now_, "a timer that is due again at once");
    around_.timer = std::min(around_.timer, next);
    static_cast<void>(session_->peer_silent(now_));
  }

  void transmit() {
    around_.room = in_.read<uint8_t>() % 40;
    const bool more = session_->transmit(around_, now_);
    SKUA_CHECK(!more || around_.room == 0, "stopped although there was room");
  }

  PacketHeader header() {
    PacketHeader out;
    out.type = static_cast<PacketType>(1 + in_.read<uint8_t>() % kPacketTypeMax);
    out.flags = in_.read<uint8_t>();
    out.method = in_.read<uint8_t>();
    out.req_num = in_.read<uint8_t>();
    if (out.req_num >= 240) out.req_num = in_.read<uint32_t>();
    out.message_bytes = in_.read<uint16_t>();
    if (out.message_bytes >= 65'000) out.message_bytes = in_.read<uint32_t>();
    out.packet_index = in_.read<uint8_t>();
    if (out.packet_index >= 250) out.packet_index = in_.read<uint16_t>();
    out.deadline_ms = in_.read<uint8_t>();
    out.stamp = in_.read<uint16_t>();
    return out;
  }

  void unplaceable() {
    const PacketHeader h = header();
    // The endpoint asks expects() first.
    if (session_->expects(h)) session_->on_unplaceable(h, now_);
  }

  void packet() {
    const PacketHeader h = header();
    uint8_t choice = in_.read<uint8_t>();
    size_t size = choice % 80;
    if (choice >= 128) {  // what the header promises
      const size_t offset = size_t{h.packet_index} * terms_.payload_bytes;
      size = offset > h.message_bytes ? 0 : std::min<size_t>(terms_.payload_bytes, h.message_bytes - offset);
    }
    const ByteSpan given = in_.read_bytes(std::min(size, in_.remaining()));
    std::vector<std::byte> payload(given.begin(), given.end());
    payload.resize(size);
    static_cast<void>(session_->expects(h));
    session_->on_packet({h, payload}, now_);
  }

  ByteReader in_;
  Surroundings around_;
  ProtocolOptions options_;
  SessionTerms terms_;
  std::deque<Call> calls_;
  std::unique_ptr<Session> session_;
  std::vector<std::byte> filler_ = std::vector<std::byte>(20'000);
  TimeNs now_ = kSecond;
  uint32_t generation_ = 0;
  bool reliable_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0]) {
    case 0: fuzz_header(bytes); break;
    case 1: fuzz_packet_set(bytes); break;
    case 2: fuzz_record<SessionOffer>(bytes); break;
    case 3: fuzz_record<SessionAnswer>(bytes); break;
    case 4: fuzz_record<Descriptor>(bytes); break;
    default: SessionScript(bytes).run();
  }
  return 0;
}
