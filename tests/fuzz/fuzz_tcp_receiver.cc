// Two connections' byte streams into the receivers of one TCP transport, cut anywhere: frames of packets and of
// bundles that make sense, almost do, or are any bytes.
//
// One connection speaks dialect 1, the other dialect 2. What comes out is what a plain parser finds in the stream, but
// for payloads that nobody had room for, in its order and however it was cut. Placed bytes stay within their memory.
// Bundles are lent in one piece. In the end no chunk is held and no placement is left.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/transport/tcp/receiver.h"
#include "rpc/transport/tcp/socket.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::rpc::tcp {
namespace {

using fuzz::FuzzInput;
using State = FrameReceiver::State;

/// Each speaks a dialect.
constexpr size_t kConnections = 2;
constexpr size_t kStreamBytesMax = 64 << 10;
constexpr uint32_t kPayloadBytesMax = 20'000;

/// Chunks are kept from input to input: mapping memory takes longer than an input.
struct Pool {
  uint32_t chunk_bytes;
  uint32_t chunk_count;
  uint32_t place_above_bytes;
  std::unique_ptr<ChunkPool> chunks{};
};
std::array<Pool, 4> g_pools = {{{128, 3, 40, {}}, {512, 1, 200, {}}, {4096, 4, 1000, {}}, {16384, 8, 9000, {}}}};

class Placer final : public RxPlacer {
 public:
  Placement place(PeerId from, ByteSpan header, size_t payload_bytes) override {
    SKUA_CHECK(header.size() == kPacketHeaderBytes && payload_bytes <= kPayloadBytesMax, "a placement beyond bounds");
    SKUA_CHECK(from < kConnections, "a placement for nobody");
    refused += refuses ? 1 : 0;
    if (refuses) return {};
    const uint64_t cookie = next_++;
    std::vector<std::byte>& memory = placed[cookie];
    memory.resize(payload_bytes);
    return {memory.data(), cookie};
  }
  void abandon(uint64_t cookie) override {
    SKUA_CHECK(placed.erase(cookie) == 1, "a placement was abandoned twice, or never made");
  }

  std::map<uint64_t, std::vector<std::byte>> placed;
  bool refuses = false;
  size_t refused = 0;

 private:
  uint64_t next_ = 1;
};

/// One end of a connection, and what a plain parser makes of all that was written to the other.
struct Connection {
  UniqueFd in;
  UniqueFd out;
  FrameReceiver receiver;
  const Dialect* dialect = nullptr;
  std::string stream;
  size_t parsed = 0;
  /// Of the frames that were parsed.
  uint32_t has = 0;
  uint32_t asked = 0;
  /// Of the frames that were parsed: thrown away, by number.
  std::set<size_t> dropped;
  size_t frames = 0;
  bool open = true;

  [[nodiscard]] bool next_frame(uint32_t chunk_bytes, std::string& header, std::string& payload) {
    const size_t prefix_bytes = dialect->frame_bytes + kPacketHeaderBytes;
    FramePrefix prefix;
    while (true) {
      if (stream.size() - parsed < dialect->frame_bytes) return false;
      if (!dialect->unpack(as_byte_span(stream).data() + parsed, prefix)) return false;
      if (prefix.payload_bytes > kPayloadBytesMax) return false;
      has = prefix.has;
      if (!prefix.is_alone) break;
      parsed += dialect->frame_bytes;
    }
    if (stream.size() - parsed < prefix_bytes) return false;
    const uint32_t bytes = prefix.payload_bytes;
    const std::byte* at = as_byte_span(stream).data() + parsed + dialect->frame_bytes;
    const uint64_t whole = kPacketHeaderBytes + uint64_t{bytes};
    if (is_bundle_header(at) && (whole < kBundleBytesMin || whole > kBundleBytesMax || bundle_bytes(at) != whole ||
                                 dialect->frame_bytes + whole > chunk_bytes)) {
      return false;
    }
    if (stream.size() - parsed - prefix_bytes < bytes) return false;
    header = stream.substr(parsed + dialect->frame_bytes, kPacketHeaderBytes);
    payload = stream.substr(parsed + prefix_bytes, bytes);
    parsed += prefix_bytes + bytes;
    ++frames;
    asked += prefix.asks ? 1 : 0;
    return true;
  }
  /// A frame that is not going to come out, or not whole when the stream ends.
  void drop_next() { dropped.insert(done++); }
  /// Frames that came out, or are not going to.
  size_t done = 0;
};

class Script {
 public:
  Script(Pool& pool, ByteSpan bytes) : chunks_(*pool.chunks), in_(bytes) {
    context_.chunks = &chunks_;
    context_.placer = &placer_;
    context_.counters = &counters_;
    context_.payload_max_bytes = kPayloadBytesMax;
    context_.place_above_bytes = pool.place_above_bytes;
    for (size_t i = 0; i < kConnections; ++i) {
      std::array<int, 2> fds;
      SKUA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0, "no more sockets");
      connections_[i].in = UniqueFd(fds[0]);
      connections_[i].out = UniqueFd(fds[1]);
      connections_[i].dialect = &builtin_dialects()[i];
      connections_[i].receiver.open(static_cast<PeerId>(i), *connections_[i].dialect);
    }
  }

  void run() {
    while (!in_.empty()) step();
    placer_.refuses = false;
    for (const RxBufferId buffer : std::exchange(held_, {})) chunks_.drop_ref(static_cast<uint32_t>(buffer));
    for (size_t i = 0; i < 2 * kStreamBytesMax / kPacketHeaderBytes; ++i) {
      bool more = false;
      for (Connection& connection : connections_) more = receive(connection, kBurstMax, false) || more;
      if (!more) break;
    }
    for (Connection& connection : connections_) finish(connection);
    SKUA_CHECK(placer_.placed.empty(), "a placement was neither handed over nor abandoned");
    SKUA_CHECK(chunks_.ref_count() == 0, "a chunk is held by nobody");
  }

 private:
  void step() {
    Connection& connection = connections_[in_.pick(kConnections)];
    switch (in_.pick(16)) {
      case 0:
      case 1:
      case 2:
      case 3: return write(connection, make_frame(*connection.dialect));
      case 4: return write(connection, in_.short_text());
      case 5: return write(connection, std::string(in_.number<uint16_t>() % 20'000, 'x'));
      case 6: return release();
      case 7: placer_.refuses = in_.flag(); return;
      case 8:
        if (connection.open) connection.receiver.spill(context_);
        return;
      case 9: return cancel(connection);
      case 10: connection.out.reset(); return;
      case 11:
        if (in_.seldom()) close(connection);
        return;
      case 12:
      case 13: return write(connection, make_bundle(*connection.dialect));
      default: static_cast<void>(receive(connection, 1 + in_.pick(kBurstMax), in_.flag()));
    }
  }

  /// Whole, cut off, or with another length than it says.
  [[nodiscard]] std::string make_frame(const Dialect& dialect) {
    constexpr std::array<uint32_t, 8> kSizes = {0, 1, 40, 41, 200, 1000, 9001, kPayloadBytesMax};
    uint32_t bytes = kSizes[in_.pick(kSizes.size())];
    if (in_.flag()) bytes = in_.number<uint16_t>() % 2000;
    const uint32_t said = in_.seldom() ? static_cast<uint32_t>(in_.near(bytes)) : bytes;
    std::string frame = make_prefix(dialect, said);
    if (dialect.has_notices && in_.pick(4) == 0) {
      dialect.pack(reinterpret_cast<std::byte*>(frame.data()), {.has = in_.byte(), .is_alone = true});
      if (in_.seldom()) in_.damage(frame);
      return frame;
    }
    frame.append(kPacketHeaderBytes, static_cast<char>(in_.byte()));
    frame.append(filler(), 0, bytes);
    if (in_.seldom()) in_.damage(frame);
    return frame;
  }

  [[nodiscard]] std::string make_prefix(const Dialect& dialect, uint32_t payload_bytes) {
    std::string prefix(dialect.frame_bytes, '\0');
    const bool asks = dialect.has_notices && in_.flag();
    dialect.pack(reinterpret_cast<std::byte*>(prefix.data()), {.payload_bytes = payload_bytes, .asks = asks});
    return prefix;
  }
  [[nodiscard]] std::string make_bundle(const Dialect& dialect) {
    uint32_t bytes = kBundleBytesMin + in_.byte();
    // As large as a chunk takes, and larger.
    if (in_.pick(4) == 0) bytes = static_cast<uint32_t>(in_.near(chunks_.chunk_bytes() - 8));
    bytes = std::clamp<uint32_t>(bytes, kPacketHeaderBytes, kPayloadBytesMax);
    std::string frame = make_prefix(dialect, bytes - kPacketHeaderBytes);
    const size_t start = frame.size();
    frame.append(filler(), in_.byte(), bytes);
    auto* at = reinterpret_cast<std::byte*>(frame.data() + start);
    at[0] = std::byte{0x21};
    store_le(at + 4, in_.seldom() ? static_cast<uint32_t>(in_.near(bytes)) : bytes);
    if (in_.seldom()) in_.damage(frame);
    return frame;
  }

  /// No two parts of it are the same.
  [[nodiscard]] static const std::string& filler() {
    static const std::string bytes = [] {
      std::string made;
      for (uint32_t i = 0; made.size() < kPayloadBytesMax + 256; ++i) made += std::to_string(i);
      return made;
    }();
    return bytes;
  }

  void write(Connection& connection, std::string_view bytes) {
    if (!connection.out.is_open() || connection.stream.size() + bytes.size() > kStreamBytesMax) return;
    // In pieces, so that reads end everywhere.
    while (!bytes.empty()) {
      const size_t piece = !in_.empty() && in_.pick(3) == 0 ? 1 + size_t{in_.byte()} * 8 : bytes.size();
      const ssize_t sent = send(connection.out.get(), bytes.data(), std::min(piece, bytes.size()), MSG_NOSIGNAL);
      if (sent <= 0) return;
      connection.stream.append(bytes.substr(0, static_cast<size_t>(sent)));
      bytes.remove_prefix(static_cast<size_t>(sent));
      if (!in_.empty() && in_.pick(4) == 0) static_cast<void>(receive(connection, 1 + in_.pick(kBurstMax), in_.flag()));
    }
  }

  /// False: there was nothing to do.
  bool receive(Connection& connection, size_t burst, bool hold) {
    if (!connection.open) return false;
    context_.packets = std::span(packets_).first(burst);
    context_.count = 0;
    const State before = connection.receiver.state();
    RxOutcome outcome = connection.receiver.receive(connection.in.get(), context_);
    if (outcome == RxOutcome::kStarved && context_.count == 0) {
      // As the transport does when all that holds chunks are halves of packets.
      for (Connection& one : connections_) {
        if (one.open) one.receiver.spill(context_);
      }
      outcome = connection.receiver.receive(connection.in.get(), context_);
    }
    // place() is asked before the first packet of a burst only: what it refused comes before what came out.
    const size_t refused = std::exchange(placer_.refused, 0);
    for (size_t i = 0; i < refused; ++i) connection.drop_next();
    for (const RxPacket& packet : context_.packets.first(context_.count)) check(connection, packet, hold);
    if (outcome == RxOutcome::kEnd || outcome == RxOutcome::kMalformed || outcome == RxOutcome::kError) {
      close(connection);
      return true;
    }
    return context_.count > 0 || refused > 0 || before != connection.receiver.state() || outcome == RxOutcome::kMore;
  }

  void check(Connection& connection, const RxPacket& packet, bool hold) {
    std::string header;
    std::string payload;
    const size_t number = connection.done++;
    do {
      SKUA_CHECK(connection.next_frame(chunks_.chunk_bytes(), header, payload), "a packet that was not sent");
    } while (connection.frames - 1 < number);
    SKUA_CHECK(!connection.dropped.contains(number), "a packet that had been thrown away");
    SKUA_CHECK(packet.from == static_cast<PeerId>(&connection - connections_.data()), "a packet of somebody else");
    SKUA_CHECK(as_string_view(packet.header) == header, "another header than was sent");
    SKUA_CHECK(as_string_view(packet.payload) == payload, "another payload than was sent");
    SKUA_CHECK(!is_bundle_header(packet.header.data()) ||
                   (!packet.placed && packet.payload.data() == packet.header.data() + kPacketHeaderBytes),
               "a bundle in two pieces");
    if (packet.placed) {
      SKUA_CHECK(placer_.placed.erase(packet.placement) == 1, "a packet in memory that is not there");
      SKUA_CHECK(packet.buffer == kNoBuffer, "a placed packet lends nothing");
    } else if (packet.buffer != kNoBuffer) {
      if (hold) {
        held_.push_back(packet.buffer);
      } else {
        chunks_.drop_ref(static_cast<uint32_t>(packet.buffer));
      }
    }
  }

  void release() {
    if (held_.empty()) return;
    const size_t which = in_.byte() % held_.size();
    chunks_.drop_ref(static_cast<uint32_t>(held_[which]));
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(which));
  }

  void cancel(Connection& connection) {
    if (!connection.open) return;
    const bool placed = connection.receiver.state() == State::kPayloadPlaced;
    connection.receiver.cancel_placement(&placer_);
    if (placed) connection.drop_next();
  }

  void close(Connection& connection) {
    if (!std::exchange(connection.open, false)) return;
    connection.receiver.reset(context_);
    SKUA_CHECK(connection.receiver.state() == State::kClosed, "a reset receiver is closed");
  }

  /// Everything that was whole has come out, unless the stream broke before.
  void finish(Connection& connection) {
    if (connection.open) {
      std::string header;
      std::string payload;
      const uint32_t chunk_bytes = chunks_.chunk_bytes();
      while (connection.frames < connection.done && connection.next_frame(chunk_bytes, header, payload)) continue;
      SKUA_CHECK(!connection.next_frame(chunk_bytes, header, payload), "a whole frame did not come out");
      SKUA_CHECK(connection.receiver.asked_count() == connection.asked, "packets that asked were counted wrongly");
      SKUA_CHECK(connection.receiver.peer_has() == connection.has, "another count than the peer said");
    }
    close(connection);
  }

  ChunkPool& chunks_;
  FuzzInput in_;
  Placer placer_;
  TransportCounters counters_;
  RxContext context_;
  std::array<RxPacket, kBurstMax> packets_;
  std::array<Connection, kConnections> connections_;
  std::vector<RxBufferId> held_;
};

}  // namespace
}  // namespace skua::rpc::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skua::rpc::tcp;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  Pool& pool = g_pools[data[0] % g_pools.size()];
  if (pool.chunks == nullptr) pool.chunks = ChunkPool::create(pool.chunk_bytes, pool.chunk_count).value();
  Script(pool, std::as_bytes(std::span(data + 1, size - 1))).run();
  return 0;
}
