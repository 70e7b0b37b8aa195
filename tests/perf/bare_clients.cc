// Clients that cost next to nothing, for measuring what a server of many clients can do:
//
//   bare_clients 127.0.0.1:18530 --device net_memif0,role=client,... --address 10.77.0.2/24 [--clients 64] [--seconds 3]
//
// Each client is an endpoint at first: it opens a session to a skua-perf server and makes a few calls. Then its
// endpoint is gone, and what is left is the last frame that it sent. From now on a loop answers each response of the
// server by that client's next
// request: the same frame with the next request number, sequence, time stamps and checksum, as the endpoint would have
// sent it. One call of 32 bytes is outstanding for each client, so that no packet carries more than one. The loop reads
// responses as far as it takes to know that they are such, and whose.
//
// Prints calls per second as JSON, as skua-perf does.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/base/tsc_clock.h"
#include "rpc/endpoint.h"
#include "rpc/tools/perf_exchange.h"
#include "rpc/transport/dpdk/dpdk_fabric.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {
namespace {

constexpr MethodId kEchoSize = 1;  // skua-perf's
constexpr uint32_t kCallBytes = 32;
constexpr uint32_t kWindow = 64;
constexpr size_t kHeadersBytes = 42;  // Ethernet, IPv4, UDP
constexpr size_t kRequestAt = kHeadersBytes + kBundleHeadBytes;
constexpr size_t kFrameBytes = kRequestAt + kRecordHeadBytes + kCallBytes;
constexpr DurationNs kPatience = 10 * kSecond;

/// A transport as it is, and the last frame that left by it.
class Tap final : public Transport {
 public:
  explicit Tap(std::unique_ptr<Transport> wire) : wire_(std::move(wire)) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return wire_->capabilities(); }
  [[nodiscard]] const TransportCounters& counters() const override { return wire_->counters(); }
  [[nodiscard]] Descriptor local_descriptor() const override { return wire_->local_descriptor(); }
  void set_peer_use(const PeerUse* use) override { wire_->set_peer_use(use); }
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override { return wire_->resolve(peer); }
  absl::StatusOr<PeerId> resolve_claimed(const Descriptor& peer) override { return wire_->resolve_claimed(peer); }
  size_t tx_burst(std::span<TxPacket> packets) override { return wire_->tx_burst(packets); }
  bool has_room(PeerId peer) override { return wire_->has_room(peer); }
  TxFrame take_frame(PeerId peer) override { return wire_->take_frame(peer); }
  void send_frames(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) {
      if (frame.size > 0) last_.assign(frame.bytes - kHeadersBytes, frame.bytes + frame.size);
    }
    wire_->send_frames(frames);
  }
  size_t rx_burst(std::span<RxPacket> packets) override { return wire_->rx_burst(packets); }
  void release(std::span<const RxBufferId> buffers) override { wire_->release(buffers); }
  size_t reap(std::span<TxToken> tokens) override { return wire_->reap(tokens); }
  void abandon_tx() override { wire_->abandon_tx(); }
  size_t poll_links(std::span<LinkEvent> events) override { return wire_->poll_links(events); }
  void wait(DurationNs timeout_ns) override { wire_->wait(timeout_ns); }
  void wake() override { wire_->wake(); }
  [[nodiscard]] uint32_t payload_max_bytes(PeerId peer) const override { return wire_->payload_max_bytes(peer); }

  [[nodiscard]] const std::vector<std::byte>& last() const { return last_; }

 private:
  const std::unique_ptr<Transport> wire_;
  std::vector<std::byte> last_;  // from its Ethernet header on, which lacks the lengths
};

uint16_t load_be16(const std::byte* from) {
  return __builtin_bswap16(load_le<uint16_t>(from));
}
void store_be16(std::byte* to, uint32_t value) {
  store_le(to, __builtin_bswap16(static_cast<uint16_t>(value)));
}

/// What is left of a client.
struct alignas(64) BareClient {
  std::array<std::byte, kFrameBytes> frame;
  uint16_t port = 0;
  uint32_t number = 0;
  uint32_t sequence = 0;
  uint64_t answers = 0;

  /// From the last frame of an endpoint, a request's.
  explicit BareClient(const std::vector<std::byte>& last) {
    SKUA_CHECK(last.size() == kFrameBytes, "the last frame is no request of the size asked for over IPv4");
    std::copy(last.begin(), last.end(), frame.begin());
    const std::byte* bundle = frame.data() + kHeadersBytes;
    const RecordHead record = RecordHead::read(bundle + kBundleHeadBytes);
    SKUA_CHECK(record.kind == RecordKind::kRequest && (load_le<uint32_t>(bundle) >> 16) == 1, "a request alone");
    number = record.number;
    sequence = load_le<uint32_t>(bundle + 24);
    port = load_be16(frame.data() + 34);
    std::byte* ip = frame.data() + 14;
    store_be16(ip + 2, kFrameBytes - 14);
    store_be16(ip + 24, kFrameBytes - 34);
    store_le(ip + 10, uint16_t{0});
    uint32_t sum = 0;
    for (size_t i = 0; i < 20; i += 2) sum += load_be16(ip + i);
    sum = (sum & 0xffff) + (sum >> 16);
    store_be16(ip + 10, ~((sum & 0xffff) + (sum >> 16)));
  }

  /// The next request, into `to`. `heard`: the server's newest stamp.
  void write_next(std::byte* to, Ticks now, Ticks heard) {
    std::memcpy(to, frame.data(), kFrameBytes);
    number += kWindow;
    ++sequence;
    std::byte* bundle = to + kHeadersBytes;
    store_le(bundle + 16, now);
    store_le(bundle + 20, heard);
    store_le(bundle + 24, sequence);
    store_le(to + kRequestAt + 4, number);
    store_le(bundle + 4, bundle_crc({bundle, kFrameBytes - kHeadersBytes}));
  }
};

struct Arguments {
  std::string server;
  std::string device;
  std::string address;
  uint16_t clients = 64;
  double seconds = 3;
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "bare_clients: %s\n", text.c_str());
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): nobody else ends the program
}

/// Until `done()`, or fails.
template <typename Done>
void poll_until(Endpoint& endpoint, const Clock& clock, const Done& done) {
  const TimeNs give_up = clock.now_ns() + kPatience;
  while (!done()) {
    endpoint.poll();
    if (clock.now_ns() > give_up) fail("the server does not answer");
  }
}

/// An endpoint opens a session, makes calls until they are small ones, and goes. Its session stays where it leads.
BareClient make_client(DpdkFabric& fabric, uint16_t lane, const Descriptor& server, const Clock& clock) {
  EndpointIdentity identity;
  identity.uuid.bytes = {static_cast<uint8_t>(lane + 1), 0xba};
  identity.incarnation = 1;
  absl::StatusOr<std::unique_ptr<Transport>> wire = fabric.make_transport(lane, identity);
  if (!wire.ok()) fail(std::string(wire.status().message()));
  Tap tap(*std::move(wire));
  EndpointOptions options;
  options.spin_ns = kTimeNever;
  options.protocol.window = kWindow;
  Endpoint endpoint(tap, clock, options);
  const absl::StatusOr<SessionId> session = endpoint.connect(server);
  if (!session.ok()) fail(std::string(session.status().message()));
  poll_until(endpoint, clock, [&] { return endpoint.is_connected(*session); });
  std::array<std::byte, kCallBytes> body{};
  store_le(body.data(), kCallBytes);
  for (int i = 0; i < 100; ++i) {
    bool done = false;
    MessagePtr request = endpoint.make_message();
    SKUA_CHECK(request->append_head(body), "a small request fits a head");
    const auto call = endpoint.call(*session, kEchoSize, std::move(request), {}, [&](CallResult&& result) {
      if (!result.status.ok()) fail(std::string(result.status.message()));
      done = true;
    });
    if (!call.ok()) fail(std::string(call.status().message()));
    poll_until(endpoint, clock, [&] { return done; });
  }
  return BareClient(tap.last());
}

class BareClients {
 public:
  BareClients(std::vector<BareClient> clients, const Clock& clock) : clients_(std::move(clients)), clock_(clock) {
    first_port_ = clients_.front().port;
  }

  void run(DpdkFabric& fabric, DurationNs warm_up_ns, DurationNs duration_ns) {
    std::vector<std::string> first;
    now_ = to_ticks(clock_.now_ns());
    for (BareClient& client : clients_) {
      std::string frame(kFrameBytes, '\0');
      const Ticks heard = load_le<uint32_t>(client.frame.data() + kHeadersBytes + 20);
      client.write_next(reinterpret_cast<std::byte*>(frame.data()), now_, heard);
      first.push_back(std::move(frame));
    }
    const TimeNs begin = clock_.now_ns() + warm_up_ns;
    const auto until = [&] {
      const TimeNs now = clock_.now_ns();
      if (now < begin) return false;
      if (began_ns_ == 0) {
        began_ns_ = now;
        calls_at_begin_ = calls_;
      }
      ended_ns_ = now;
      return now >= begin + duration_ns;
    };
    fabric.answer_raw(first, until, [this](MutableByteSpan frame, size_t bytes) { return answer(frame, bytes); });
  }

  void report() const {
    const auto [least, most] = std::minmax_element(clients_.begin(), clients_.end(),
                                                   [](const auto& a, const auto& b) { return a.answers < b.answers; });
    if (least->answers * 2 < most->answers) fail("a client got no more answers: a packet was lost or refused");
    const double seconds = static_cast<double>(ended_ns_ - began_ns_) / 1e9;
    std::printf("{\"calls\": %llu, \"seconds\": %.3f, \"calls_per_second\": %.0f, \"others\": %llu}\n",
                static_cast<unsigned long long>(calls_ - calls_at_begin_), seconds,
                static_cast<double>(calls_ - calls_at_begin_) / seconds, static_cast<unsigned long long>(others_));
  }

 private:
  size_t answer(MutableByteSpan frame, size_t bytes) {
    const size_t index = bytes < kFrameBytes ? clients_.size() : size_t{load_be16(frame.data() + 36)} - first_port_;
    const std::byte* bundle = frame.data() + kHeadersBytes;
    const std::byte* record = bundle + kBundleHeadBytes;
    if (index >= clients_.size() || (load_le<uint32_t>(bundle) & 0xff) != BundleHead::kVersionAndType ||
        RawRecord::read(record).number != clients_[index].number ||
        !RawRecord::read(record).is(RecordKind::kResponse)) {
      ++others_;
      return 0;
    }
    BareClient& client = clients_[index];
    ++calls_;
    ++client.answers;
    if (calls_ % 16 == 0) now_ = to_ticks(clock_.now_ns());
    client.write_next(frame.data(), now_, load_le<uint32_t>(bundle + 16));
    return kFrameBytes;
  }

  std::vector<BareClient> clients_;
  const Clock& clock_;
  size_t first_port_ = 0;
  Ticks now_ = 0;
  uint64_t calls_ = 0;
  uint64_t calls_at_begin_ = 0;
  uint64_t others_ = 0;  // frames that are no answer to the last request
  TimeNs began_ns_ = 0;
  TimeNs ended_ns_ = 0;
};

int run(const Arguments& arguments) {
  const size_t colon = arguments.server.rfind(':');
  if (colon == std::string::npos) fail("the server is HOST:PORT");
  const uint16_t control_port = static_cast<uint16_t>(std::atoi(arguments.server.c_str() + colon + 1));
  absl::StatusOr<perf::Socket> control = perf::connect_to({arguments.server.substr(0, colon), control_port});
  if (!control.ok()) fail(std::string(control.status().message()));
  if (!perf::send_plan(*control, {.response_bytes_max = kCallBytes}).ok()) fail("the server hung up");
  const absl::StatusOr<Descriptor> server = perf::receive_reply(*control);
  if (!server.ok()) fail(std::string(server.status().message()));
  DpdkOptions options;
  options.ports = {{arguments.device, arguments.address, ""}};
  options.lanes = arguments.clients;
  options.udp_port = 20'000;
  const absl::StatusOr<std::unique_ptr<DpdkFabric>> fabric = DpdkFabric::start(options);
  if (!fabric.ok()) fail(std::string(fabric.status().message()));
  const TscClock clock;
  std::vector<BareClient> clients;
  for (uint16_t i = 0; i < arguments.clients; ++i) clients.push_back(make_client(**fabric, i, *server, clock));
  BareClients loop(std::move(clients), clock);
  loop.run(**fabric, 200 * kMillisecond, static_cast<DurationNs>(arguments.seconds * 1e9));
  loop.report();
  return 0;
}

}  // namespace
}  // namespace skua::rpc

int main(int argc, char** argv) {
  using namespace skua::rpc;  // NOLINT(google-build-using-namespace)
  Arguments arguments;
  if (argc < 2 || argc % 2 != 0)
    fail("usage: bare_clients HOST:PORT --device D --address A [--clients N] [--seconds S]");
  arguments.server = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--device")
      arguments.device = argv[i + 1];
    else if (name == "--address")
      arguments.address = argv[i + 1];
    else if (name == "--clients")
      arguments.clients = static_cast<uint16_t>(std::clamp(std::atoi(argv[i + 1]), 1, 64));
    else if (name == "--seconds")
      arguments.seconds = std::atof(argv[i + 1]);
    else
      fail("no such option: " + std::string(name));
  }
  return run(arguments);
}
