// Two endpoints with a session, and bundles in the name of either of them: of a living association, with any records.
// The input is a script (fuzz_input.h): calls, answers, cancels, sessions that end and begin, time, and bundles that
// are made, damaged, or sent once more.
//
//     caller  <== association ==>  server
//        ^                           ^
//        +----- forged bundles ------+     right head, right checksum, any records
//
// What must hold, whatever they say: each call completes once; when all is over no lease and no buffer is left; the
// engine's own checks.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/rpc/wire/bundle_testing.h"

namespace {

using namespace skua;                // NOLINT(google-build-using-namespace)
using namespace skua::rpc;           // NOLINT(google-build-using-namespace)
using namespace skua::rpc::testing;  // NOLINT(google-build-using-namespace)

constexpr MethodId kEcho = 1;
constexpr MethodId kHold = 2;
constexpr size_t kSteps = 300;
constexpr size_t kHeardMax = 8;
constexpr size_t kSessionsMax = 3;

class World {
 public:
  explicit World(ByteSpan script) : in_(script) {
    network_.set_watch([this](uint32_t, uint32_t to, std::vector<std::byte>& packet) { watch(to, packet); });
    for (uint32_t i = 0; i < nodes_.size(); ++i) start(i);
    connect();
    run_for(kMillisecond);
    call(0, sessions_.front(), kEcho, 5);  // makes its sslots
    run_for(kMillisecond);
  }
  ~World() {
    forging_ = false;
    for (Node& node : nodes_) node.held.clear();
    leases_.clear();
    for (const SessionId session : sessions_) nodes_[0].endpoint->close(session);
    run_for(kMillisecond);
    for (Node& node : nodes_) {
      SKUA_CHECK(node.endpoint->balance().lent_buffers == 0, "a buffer is lent to nobody");
      SKUA_CHECK(node.endpoint->balance().handlers == 0, "a handler runs that has answered");
      node.endpoint.reset();
    }
    leases_.clear();
    for (const int completions : completions_) SKUA_CHECK(completions == 1, "a call completed not once");
    SKUA_CHECK(network_.violations().bad_release == 0, "a buffer was released twice");
  }

  void run() {
    for (size_t step = 0; step < kSteps && !in_.empty(); ++step) {
      act();
      for (Node& node : nodes_) node.endpoint->poll();
    }
  }

 private:
  struct Node {
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<Endpoint> endpoint;
    std::deque<IncomingCall> held;
    std::deque<std::string> heard;  // bundles that came here
  };

  void start(uint32_t index) {
    Node& node = nodes_[index];
    EndpointIdentity identity;
    identity.uuid.bytes[0] = static_cast<uint8_t>(index + 1);
    identity.incarnation = 1;
    node.transport = network_.attach(index + 1, identity, {.rx_ring = 32});
    EndpointOptions options;
    options.simulation_seed = index + 1;
    options.memory_limit_bytes = 4 << 20;
    options.protocol.window = 8;
    options.protocol.credits = 8;
    options.protocol.peer_timeout_ns = kSecond;
    node.endpoint = std::make_unique<Endpoint>(*node.transport, network_.clock(), options);
    node.endpoint->serve(kEcho,
                         [this, &node](IncomingCall&& incoming) {
                           last_caller_[static_cast<size_t>(&node - nodes_.data())] = incoming.session;
                           if (!incoming.one_way) incoming.reply.reply(MessagePtr::copy_of(incoming.request.bytes()));
                         },
                         {.one_way = true});
    node.endpoint->serve(kHold, [this, &node](IncomingCall&& incoming) {
      if (forging_) node.held.push_back(std::move(incoming));
    });
  }

  void connect() {
    if (sessions_.size() >= kSessionsMax) return;
    sessions_.push_back(nodes_[0].endpoint->connect(nodes_[1].transport->local_descriptor()).value());
  }

  void watch(uint32_t to, const std::vector<std::byte>& packet) {
    BundleHead head;
    DropReason why{};
    if (!forging_ || !is_bundle(packet.data()) || !open_bundle(packet, false, head, why)) return;
    std::deque<std::string>& heard = nodes_[to - 1].heard;
    heard.emplace_back(as_string_view(packet));
    if (heard.size() > kHeardMax) heard.pop_front();
  }

  void run_for(DurationNs time_ns) {
    const TimeNs until = network_.now_ns() + time_ns;
    for (int turn = 0; turn < 2000; ++turn) {
      for (Node& node : nodes_) node.endpoint->poll();
      TimeNs next = network_.next_event_ns();
      for (Node& node : nodes_) next = std::min(next, node.endpoint->next_timer_ns());
      if (next > until) break;
      network_.advance_to(std::max(next, network_.now_ns()));
    }
    network_.advance_to(until);
  }

  void act() {
    switch (in_.pick(12)) {
      case 0:
      case 1:
      case 2: return call_any();
      case 3: return answer();
      case 4:
        if (!calls_.empty()) nodes_[0].endpoint->cancel(calls_[in_.byte() % calls_.size()]);
        return;
      case 5: return in_.flag() ? connect() : close();
      case 6: return run_for(in_.byte() * 10 * kMicrosecond);
      case 7: return run_for(in_.seldom() ? in_.byte() * 10 * kMillisecond : 20 * kMicrosecond);
      case 8: leases_.clear(); return;
      case 9: return replay();
      default: return forge();
    }
  }

  void call_any() {
    const MethodId method = in_.seldom() ? MethodId{9} : in_.flag() ? kHold : kEcho;
    const size_t bytes = in_.seldom() ? in_.number<uint16_t>() % 6000 : in_.byte();
    if (in_.pick(4) == 3) return call(1, last_caller_[1], method, bytes);
    if (!sessions_.empty()) call(0, sessions_[in_.byte() % sessions_.size()], method, bytes);
  }

  void call(uint32_t from, SessionId session, MethodId method, size_t bytes) {
    const size_t id = completions_.size();
    completions_.push_back(0);
    const bool keeps = in_.seldom();
    const bool closes = in_.seldom();
    const absl::StatusOr<CallId> started =
        nodes_[from].endpoint->call(session, method, MessagePtr::copy_of(as_byte_span(std::string(bytes, 'r'))),
                                    {.timeout_ns = (1 + in_.byte()) * kMillisecond, .one_way = in_.seldom()},
                                    [this, id, keeps, closes](CallResult&& result) {
                                      ++completions_[id];
                                      if (closes && forging_) close();
                                      if (keeps && forging_) leases_.push_back(std::move(result.response));
                                    });
    if (!started.ok()) {
      ++completions_[id];
    } else if (from == 0) {
      calls_.push_back(*started);
    }
  }

  void answer() {
    Node& node = nodes_[in_.pick(2)];
    if (node.held.empty()) return;
    IncomingCall held = std::move(node.held.front());
    node.held.pop_front();
    if (in_.seldom()) return held.reply.fail(absl::AbortedError("no"));
    const size_t bytes = in_.seldom() ? in_.number<uint16_t>() % 6000 : in_.byte();
    held.reply.reply(MessagePtr::copy_of(as_byte_span(std::string(bytes, 'a'))));
  }

  void close() {
    if (sessions_.empty()) return;
    const size_t which = in_.byte() % sessions_.size();
    nodes_[0].endpoint->close(sessions_[which]);
    sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  /// To the node, in the other one's name.
  void send(uint32_t to, std::string_view bundle) {
    SimTransport& from = *nodes_[1 - to].transport;
    const absl::StatusOr<PeerId> peer = from.resolve(nodes_[to].transport->local_descriptor());
    TxFrame frame = from.take_frame(*peer);
    frame.size = static_cast<uint32_t>(std::min<size_t>(bundle.size(), frame.room));
    if (frame.size < kPacketHeaderBytes) frame.size = 0;
    std::copy_n(as_byte_span(bundle).data(), frame.size, frame.bytes);
    from.send_frames({&frame, 1});
    run_for(10 * kMicrosecond);
  }

  void replay() {
    const auto to = static_cast<uint32_t>(in_.pick(2));
    const std::deque<std::string>& heard = nodes_[to].heard;
    if (heard.empty()) return;
    std::string bundle = heard[in_.byte() % heard.size()];
    in_.damage(bundle);
    send(to, bundle);
  }

  void forge() {
    const auto to = static_cast<uint32_t>(in_.pick(2));
    const std::deque<std::string>& heard = nodes_[to].heard;
    if (heard.empty()) return;
    const ByteSpan like = as_byte_span(heard[in_.byte() % heard.size()]);
    BundleHead head = head_by_hand(like);
    std::vector<Record> records = read_records_by_hand(like, head.records).records;
    head.stamp = in_.seldom() ? in_.number<uint32_t>() : to_ticks(network_.now_ns());
    head.echo = in_.seldom() ? in_.number<uint32_t>() : head.stamp - in_.byte() * 16u;
    head.flags = in_.seldom() ? in_.byte() : head.flags;
    const Record model = records.empty() ? Record() : records.front();
    for (size_t more = in_.pick(6); more > 0; --more) records.push_back(model);
    for (Record& record : records) change(record);
    head.records = static_cast<uint16_t>(in_.seldom() ? in_.byte() : records.size());
    std::string bytes = encode_records(records);
    in_.damage(bytes);
    send(to, seal(head, false, bytes));
  }

  void change(Record& record) {
    if (in_.flag()) record.head.number += static_cast<uint32_t>(in_.byte()) - 64;
    if (in_.seldom()) record.head.number = in_.number<uint32_t>();
    if (in_.seldom()) record.head.session = static_cast<uint32_t>(in_.near(record.head.session));
    if (in_.flag()) record.head.kind = static_cast<RecordKind>(in_.seldom() ? in_.pick(16) : 1 + in_.pick(5));
    if (in_.seldom()) record.head.method = in_.byte();
    if (in_.seldom()) record.head.time = in_.byte();
    if (in_.seldom()) record.bytes.resize(in_.byte(), 'x');
    in_.damage(record.bytes);
    record.head.bytes = static_cast<uint16_t>(in_.seldom() ? in_.byte() : record.bytes.size() & kRecordBytesMax);
  }

  fuzz::FuzzInput in_;
  SimNetwork network_{1};
  std::array<Node, 2> nodes_;
  std::array<SessionId, 2> last_caller_;
  std::vector<SessionId> sessions_;
  std::vector<CallId> calls_;
  std::deque<int> completions_;
  std::vector<Lease> leases_;
  bool forging_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  World(std::as_bytes(std::span(data, size))).run();
  return 0;
}
