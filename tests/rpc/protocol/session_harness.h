// Two sessions, a wire between them that a test scripts packet by packet, and virtual time.
//
//     Side client  <-- transmit() -- [ encode, fate, latency, decode ] -- on_packet() -->  Side server
//
// Everything the engine would be to a session is here in its dumbest form: memory is heap blocks that
// are scribbled over when returned, a sink that refuses to be overrun, timers as in the endpoint.
// Packets cross as bytes. Harness::expect_rest() is what must hold after every story.
#ifndef SKUA_TESTS_RPC_PROTOCOL_SESSION_HARNESS_H_
#define SKUA_TESTS_RPC_PROTOCOL_SESSION_HARNESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/protocol/session.h"

namespace skua::rpc::testing {

/// `size` bytes that depend on `seed` and position.
std::string pattern(uint64_t seed, size_t size);
MessagePtr message_of(MessagePool& pool, std::string_view bytes);

/// A packet on the wire.
struct Flight {
  PacketHeader header;
  std::vector<std::byte> payload;
  /// Counted over the harness, from 0.
  size_t number = 0;
  bool to_server = false;
  /// For kAck and kPull.
  [[nodiscard]] PacketSet set() const;
};

/// One call and how it ended.
struct TestCall {
  Call call;
  std::string request;
  int completions = 0;
  CallOutcome outcome;

  [[nodiscard]] bool done() const { return completions > 0; }
  [[nodiscard]] absl::StatusCode code() const { return outcome.status.code(); }
  [[nodiscard]] std::string_view response() const { return as_string_view(outcome.response.bytes()); }
};

class Harness;

/// Of all methods, the one that is not called one-way.
inline constexpr uint16_t kAnswersOnly = 99;

/// One endpoint's part: the host and sink of one session.
class Side final : public SessionHost, public PacketSink, public LeaseOwner, public Lender {
 public:
  Side(Harness& harness, bool is_server, ReceiveBudget* budget = nullptr);
  virtual ~Side();

  // SessionHost.
  void mark_ready(Session& session) override;
  PacketSink* express(const Session& /*session*/) override { return express_open && has_room() ? this : nullptr; }
  void arm_timer(Session& session, TimeNs when) override;
  bool keep(const Arrival& arrival, Lease& lease) override;
  std::optional<Assembly> assemble(const Session& /*session*/, size_t bytes, bool is_request) override;
  [[nodiscard]] uint64_t progress(const Session& /*session*/) const override { return progress_now; }
  [[nodiscard]] size_t assembly_bytes_max() const override { return memory_max; }
  MessagePtr make_message() override { return messages.make(); }
  Announcement announce(const MessageOwner& owner, const MessagePtr& message) override;
  Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) override;
  void sever(const Session& session) override;
  void deliver(Session& session, ArrivedRequest&& request) override;
  [[nodiscard]] bool takes_one_way(uint16_t method) const override { return method != kAnswersOnly; }
  void complete(Call& call) override;
  bool start_small(Session& /*session*/, Call& /*call*/) override { return false; }
  Call& take_over(Session& /*session*/) override { return taken_over.emplace_back(); }
  void count_drop(DropReason reason) override { ++drops[reason]; }
  void count_retransmit() override { ++retransmits; }
  void count_copied(size_t bytes) override { copied_bytes += bytes; }
  // PacketSink.
  [[nodiscard]] uint32_t room_packets() const override {
    return static_cast<uint32_t>(std::min<size_t>(room, UINT32_MAX));
  }
  void emit(const Session& session, const PacketHeader& header, const MessagePtr& payload, size_t offset,
            size_t length) override;
  // LeaseOwner.
  void return_lease(uint64_t cookie) override;
  // Lender.
  [[nodiscard]] State state_of(uint32_t announcement) const override { return announced.at(announcement).state; }
  void end(uint32_t announcement) override { EXPECT_EQ(announced.erase(announcement), 1u); }

  /// Of all that is pending.
  void on_lent(bool ok);

  /// READs that are due now have brought their bytes; false if there were none.
  bool run_fetches();

  /// Starts a call of `request` bytes; it must be accepted.
  TestCall& call(std::string request, DurationNs timeout_ns = 10 * kSecond, bool one_way = false);
  /// The same, with what start() said.
  absl::Status try_call(std::string request, DurationNs timeout_ns, bool one_way, TestCall** out);
  bool respond(const ArrivedRequest& request, std::string_view bytes, absl::StatusCode code = absl::StatusCode::kOk);

  Harness& harness;
  const bool is_server;
  ProtocolOptions options;
  MessagePool messages{64};
  /// Called for each request; unset: requests are kept in `requests`.
  std::function<void(ArrivedRequest&&)> handler;
  std::deque<ArrivedRequest> requests;
  std::deque<TestCall> calls;
  std::deque<Call> taken_over;
  std::map<DropReason, int> drops;
  int delivered = 0;
  int retransmits = 0;
  size_t copied_bytes = 0;
  /// Packets emit() still takes.
  size_t room = SIZE_MAX;
  /// Bytes assemble() still gives.
  size_t memory = SIZE_MAX;
  size_t memory_max = SIZE_MAX;
  bool keep_fails = false;
  /// Transport::progress()
  uint64_t progress_now = 0;
  bool ready = false;
  /// express() lets single packets out ahead of transmit().
  bool express_open = false;
  TimeNs timer = kTimeNever;
  /// What the other side may read.
  struct Announced {
    MessageOwner owner;
    MessagePtr message;
    State state = State::kReadable;
  };
  std::map<uint32_t, Announced> announced;
  uint32_t next_announcement = 0;
  /// Announcements are pending until on_lent().
  bool lending_waits = false;
  /// Messages being read from the other side's memory.
  struct Fetching {
    TimeNs when = 0;
    MessageOwner owner;
    ReadList list;
    std::byte* to = nullptr;
    Lease message;
    bool ok = true;
  };
  std::deque<Fetching> fetches;
  int fetched = 0;
  /// Called when a fetch begins; false: its READ will fail. Unset: it will not.
  std::function<bool()> read_works;
  std::map<uint64_t, std::vector<std::byte>> lent;
  uint64_t next_cookie = 1;
  std::unique_ptr<Session> session;
};

class Harness {
 public:
  struct Setup {
    SessionTerms terms{.window = 4, .credits = 8, .message_max_bytes = 100'000, .payload_bytes = 100};
    bool reliable = false;
    DurationNs latency_ns = 10 * kMicrosecond;
    ReceiveBudget* client_budget = nullptr;
  };
  /// What becomes of a packet: when each of its copies arrives, counted from now; none: lost.
  using Fate = std::vector<DurationNs>;

  Harness() : Harness(Setup()) {}
  explicit Harness(const Setup& setup);
  ~Harness();

  /// Opens both sessions, with new generations each time.
  void open();
  /// Transmits what is ready and delivers what is due, moving time from event to event, until
  /// nothing is left to happen before `until` (timers of pings and probes included).
  void run(DurationNs for_ns = kSecond);
  /// The same until `done`; false if nothing more happens or a minute has passed.
  bool run_until(const std::function<bool()>& done);
  /// Lets both sessions transmit once, without moving time.
  void transmit();
  /// Takes the packets that are on the wire, undelivered.
  std::vector<Flight> take_wire();
  /// Hands a packet to one side, as it is.
  void inject(bool to_server, const PacketHeader& header, std::string_view payload = {});
  /// A header addressed to that side's session.
  [[nodiscard]] PacketHeader header_to(bool server, PacketType type, uint32_t req_num) const;

  /// Answers each request with pattern(crc of the request, response_bytes) and counts runs.
  void serve(size_t response_bytes);
  [[nodiscard]] std::string expected_response(const TestCall& call, size_t response_bytes) const;
  /// Both sides have given everything back.
  void expect_rest();

  Setup setup;
  TimeNs now = kSecond;
  /// Large messages may be read by their receiver (when options.read_above_bytes says so), which takes this long.
  bool can_read = false;
  DurationNs read_ns = 30 * kMicrosecond;
  int severed = 0;
  /// Decides about each packet; unset: it arrives once, after the latency.
  std::function<Fate(const Flight&)> fate;
  /// All packets that were sent, in order.
  std::vector<Flight> sent;
  [[nodiscard]] size_t sent_count(PacketType type) const {
    return static_cast<size_t>(
        std::count_if(sent.begin(), sent.end(), [type](const Flight& flight) { return flight.header.type == type; }));
  }
  std::map<std::string, int> runs;  // request -> times its handler ran
  Side client{*this, false, setup.client_budget};
  Side server{*this, true};

 private:
  friend class Side;
  struct Arriving {
    TimeNs when;
    size_t order;
    Flight flight;
  };

  void put_on_wire(Flight flight);
  void deliver(const Flight& flight);
  bool transmit_side(Side& side);
  bool run_due();
  [[nodiscard]] TimeNs next_event_ns() const;

  uint32_t generation_ = 100;
  size_t order_ = 0;
  std::vector<Arriving> wire_;
};

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_PROTOCOL_SESSION_HARNESS_H_
