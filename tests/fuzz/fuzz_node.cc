// A storage node's worker among liars: sequences of packets, offers, requests, answers, changes of views and time. The
// input is a script; tests/fuzz/node_world.h says who takes part.
//
// After each input everything comes to rest. Then nothing aborted, an honest client's PUT and GET are answered, its
// session was never broken, no session, handler, call, buffer, message or credit of the others is left, and no replica
// has adopted a view that the control plane did not make. And whoever only says to be a node has got nothing that is
// for nodes: no message of its reached a replica, no piece of a copy and no entry of a log went to it.
//
// The world is kept for kInputsOfAWorld inputs, because making one takes much longer than an input. Its time is
// virtual: what an input does hardly depends on the machine. But it may fail because of those before it: with
// SKUA_FUZZ_FRESH=1 each gets a world of its own; several files on one command line run in one world, in their order.
// SKUA_FUZZ_RECORD=FILE keeps the inputs of the current world in a file, and SKUA_FUZZ_REPLAY=FILE runs what such a
// file has, in place of the first input.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rpc/wire/packet_header.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/input_record.h"
#include "tests/fuzz/node_requests.h"
#include "tests/fuzz/node_world.h"

namespace skua::kv::fuzz {
namespace {

using rpc::PacketHeader;
using rpc::PacketType;
using rpc::SessionOffer;

constexpr size_t kStepsMax = 60;
constexpr size_t kInputsOfAWorld = 2000;
constexpr size_t kPacketBytesMax = 1024;

class Script {
 public:
  Script(NodeWorld& world, ByteSpan bytes) : world_(world), in_(bytes) {}

  void run() {
    for (size_t i = 0; i < kStepsMax && !in_.empty(); ++i) step();
    for (const WireSession& session : stranger_sessions_) disconnect(session);
    world_.end_of_input();
    world_.check_proofs();
    world_.check_balance();
    world_.check_client();
  }

 private:
  void step() {
    switch (in_.pick(24)) {
      case 0:
      case 1:
      case 2: return packet();
      case 3: return any_bytes();
      case 4: return offer();
      case 5: return offer_in_packet();
      case 6: return any_offer();
      case 7:
      case 8:
      case 9: return request_of_stranger();
      case 10:
      case 11:
      case 12:
      case 13:
      case 14:
      case 15: return request_of_peer();
      case 16: return prepare_answer();
      case 17: return bootstrap();
      case 18: return time();
      case 19: return control_plane();
      case 20: return world_.rest();
      case 21: return peer_session();
      case 22: return network();
      default:
        for (size_t turns = 1 + in_.pick(8); turns > 0; --turns) world_.turn();
    }
  }

  // --- Packets

  [[nodiscard]] WireSession pick_session() {
    WireSession session;
    const size_t which = in_.pick(8);
    const auto& peers = world_.peer_sessions();
    if (which < 4 && !stranger_sessions_.empty()) {
      session = stranger_sessions_[in_.pick(stranger_sessions_.size())];
    } else if (which < 6 && !peers.empty()) {
      session = peers[in_.pick(peers.size())];
    } else {
      session = world_.client_session();
    }
    if (in_.seldom()) session.index = static_cast<uint32_t>(in_.near(session.index));
    if (in_.seldom()) session.generation = static_cast<uint32_t>(in_.near(session.generation));
    return session;
  }

  void send(uint8_t from, const PacketHeader& header, std::string_view payload, bool sealed = true) {
    payload = payload.substr(0, kPacketBytesMax);
    if (from == NodeWorld::kStranger) world_.stranger_watch().on_sent(header);
    rpc::TxPacket packet;
    packet.peer = world_.transport(from).resolve(world_.transport(NodeWorld::kWorker).local_descriptor()).value();
    packet.payload_bytes = static_cast<uint32_t>(payload.size());
    packet.segments[0] = as_byte_span(payload);
    packet.segment_count = payload.empty() ? 0 : 1;
    if (sealed) {
      encode_sealed_header(header, packet.segments.data(), packet.segment_count, packet.header.data());
    } else {
      encode_header(header, packet.header.data());
    }
    static_cast<void>(world_.transport(from).tx_burst({&packet, 1}));
  }
  void send(const PacketHeader& header, std::string_view payload) {
    // The peer's own packets are made by its endpoint; these are what others, or its own broken one, make.
    const bool is_peer = in_.pick(3) == 0;
    if (is_peer && header.type == PacketType::kRequest) world_.count_peer_request(static_cast<Method>(header.method));
    send(is_peer ? NodeWorld::kPeer : NodeWorld::kStranger, header, payload, !in_.seldom());
  }

  void packet() {
    PacketHeader header;
    header.type = static_cast<PacketType>(1 + in_.pick(15));
    header.flags = in_.pick(4) == 0 ? in_.byte() : 0;
    const Method method = pick_method(in_);
    header.method = in_.seldom() ? in_.number<uint16_t>() : static_cast<uint16_t>(method);
    const WireSession session = pick_session();
    header.session_index = session.index;
    header.session_generation = session.generation;
    header.req_num = in_.seldom() ? in_.number<uint32_t>() : in_.byte() % 40;
    header.packet_index = in_.pick(4) == 0 ? in_.number<uint16_t>() : 0;
    header.deadline_ms = in_.pick(4) == 0 ? in_.number<uint16_t>() : rpc::kDeadlineUnlimited;
    header.stamp = in_.byte();
    const std::string payload = in_.flag() ? make_request(in_, world_, method) : in_.short_text();
    header.message_bytes = static_cast<uint32_t>(payload.size());
    if (in_.pick(4) == 0) header.message_bytes = static_cast<uint32_t>(in_.near(payload.size()));
    send(header, payload);
  }

  void any_bytes() {
    const std::string bytes = in_.short_text();
    rpc::TxPacket packet;
    packet.peer =
        world_.transport(NodeWorld::kStranger).resolve(world_.transport(NodeWorld::kWorker).local_descriptor()).value();
    packet.header.fill(std::byte{0});
    const size_t head = std::min(bytes.size(), packet.header.size());
    copy_bytes(packet.header.data(), as_byte_span(bytes).first(head));
    packet.segments[0] = as_byte_span(bytes).subspan(head);
    packet.segment_count = 1;
    packet.payload_bytes = static_cast<uint32_t>(bytes.size() - head);
    static_cast<void>(world_.transport(NodeWorld::kStranger).tx_burst({&packet, 1}));
  }

  void disconnect(const WireSession& session) {
    PacketHeader header;
    header.type = PacketType::kDisconnect;
    header.session_index = session.index;
    header.session_generation = session.generation;
    send(NodeWorld::kStranger, header, {});
  }

  // --- Offers

  /// In the name of the stranger, of others, or of nobody. Whoever speaks for the client takes its session away, and
  /// may: nothing here proves who one is.
  [[nodiscard]] rpc::Descriptor pick_descriptor() {
    rpc::Descriptor descriptor = world_.transport(NodeWorld::kStranger).local_descriptor();
    switch (in_.pick(8)) {
      case 0: descriptor.identity = NodeWorld::identity(NodeWorld::kPeer); break;
      case 1: descriptor.identity = NodeWorld::identity(NodeWorld::kWorker); break;
      case 2: descriptor = world_.transport(NodeWorld::kPeer).local_descriptor(); break;
      case 3: descriptor = world_.transport(NodeWorld::kWorker).local_descriptor(); break;
      case 4: descriptor.identity.uuid.bytes[in_.pick(16)] = in_.byte(); break;
      case 5: descriptor.address = in_.flag() ? "1" : in_.short_text(); break;
      case 6: descriptor.identity = NodeWorld::identity(NodeWorld::kPeer); break;
      default: break;
    }
    if (in_.seldom()) descriptor.identity.incarnation = in_.near(1);
    if (in_.seldom()) descriptor.identity.cluster_id.bytes[in_.pick(16)] = in_.byte();
    if (descriptor.identity.uuid == NodeWorld::identity(NodeWorld::kClient).uuid) descriptor.identity.uuid = {};
    return descriptor;
  }

  [[nodiscard]] std::string make_offer() {
    SessionOffer offer;
    offer.version_min = offer.version_max = rpc::kProtocolVersion;
    if (in_.seldom()) offer.version_max = static_cast<uint8_t>(in_.near(1));
    if (in_.seldom()) offer.version_min = static_cast<uint8_t>(in_.near(1));
    offer.terms = {16, 64, 256 << 10, 1024};
    if (in_.pick(4) == 0) {
      offer.terms.window = static_cast<uint16_t>(in_.near(16));
      offer.terms.credits = static_cast<uint32_t>(in_.near(64));
      offer.terms.message_max_bytes = static_cast<uint32_t>(in_.near(1024));
      offer.terms.payload_bytes = static_cast<uint32_t>(in_.near(64));
    }
    offer.session_index = in_.byte() % 20;
    offer.session_generation = in_.seldom() ? in_.number<uint32_t>() : in_.byte();
    offer.nonce = in_.byte();
    offer.descriptor = pick_descriptor().encode();
    std::string bytes = offer.encode();
    if (in_.seldom()) in_.damage(bytes);
    return bytes;
  }

  void offer() {
    const std::string bytes = make_offer();
    const std::string answer = world_.worker().accept_offer(as_byte_span(bytes));
    const auto decoded = rpc::SessionAnswer::decode(as_byte_span(answer));
    if (!decoded.ok()) std::abort();  // whatever it was asked
    if (decoded->code != absl::StatusCode::kOk) return;
    const WireSession session{decoded->session_index, decoded->session_generation};
    stranger_sessions_.push_back(session);
    const auto own = SessionOffer::decode(as_byte_span(bytes));
    if (!own.ok()) fail("an offer that is none was taken");
    world_.stranger_watch().on_session(session, {own->session_index, own->session_generation});
  }

  void offer_in_packet() {
    PacketHeader header;
    header.type = in_.seldom() ? PacketType::kAccept : PacketType::kConnect;
    const std::string bytes = make_offer();
    header.session_index = UINT32_MAX;
    header.message_bytes = static_cast<uint32_t>(bytes.size());
    send(header, bytes);
  }

  void any_offer() {
    const std::string answer = world_.worker().accept_offer(as_byte_span(in_.short_text()));
    if (!rpc::SessionAnswer::decode(as_byte_span(answer)).ok()) std::abort();
  }

  // --- Requests

  /// All pieces of one, in the order of their numbers or not.
  void request_of_stranger() {
    if (stranger_sessions_.empty()) offer();
    if (stranger_sessions_.empty()) return;
    const Method method = pick_method(in_);
    const WireSession session = stranger_sessions_[in_.pick(stranger_sessions_.size())];
    const std::string bytes = make_request(in_, world_, method);
    PacketHeader header;
    header.type = PacketType::kRequest;
    header.flags = in_.pick(8) == 0 ? rpc::packet_flags::kOneWay : uint8_t{0};
    header.method = static_cast<uint16_t>(method);
    header.session_index = session.index;
    header.session_generation = session.generation;
    header.req_num = in_.byte() % 20;
    header.message_bytes = static_cast<uint32_t>(bytes.size());
    const size_t pieces =
        std::min<size_t>(std::max<size_t>((bytes.size() + kPacketBytesMax - 1) / kPacketBytesMax, 1), 100);
    const size_t missing = in_.pick(4) == 0 ? in_.byte() : SIZE_MAX;
    for (size_t piece = 0; piece < pieces; ++piece) {
      if (piece == missing) continue;
      header.packet_index = static_cast<uint16_t>(piece);
      send(NodeWorld::kStranger, header, std::string_view(bytes).substr(piece * kPacketBytesMax));
    }
  }

  void request_of_peer() {
    const Method method = pick_method(in_);
    const std::string bytes = make_request(in_, world_, method);
    const DurationNs timeout_ns = in_.pick(4) == 0 ? (1 + in_.byte()) * kMillisecond : kSecond;
    world_.call(method, bytes, in_.pick(8) == 0, timeout_ns);
  }

  void prepare_answer() {
    if (in_.pick(4) == 0) {
      world_.holds = in_.flag();
      if (!world_.holds) world_.release_held();
      return;
    }
    if (world_.answers.size() < 16) world_.answers.push_back(make_answer(in_, world_));
  }

  void bootstrap() {
    switch (in_.pick(4)) {
      case 0: world_.offer_answer = std::optional<std::string>(); break;
      case 1: world_.offer_answer = in_.short_text(); break;
      case 2: return vouching();
      default: world_.offer_answer.reset();
    }
  }

  void vouching() {
    using Vouching = NodeWorld::Vouching;
    switch (in_.pick(4)) {
      case 0: world_.vouching = Vouching::kNo; break;
      case 1:
        world_.vouching = Vouching::kTruth;
        world_.release_held();
        break;
      case 2: world_.vouching = Vouching::kSilence; break;
      default: world_.vouching = Vouching::kTruth;
    }
  }

  // --- The rest

  /// Mostly short, as what the worker waits for; now and then everybody gives up.
  void time() {
    if (in_.pick(4) == 0) return world_.pass_unix_ms(in_.number<uint32_t>());
    const auto time = in_.number<uint16_t>();
    world_.pass(time % 4 == 0 ? time * 50 * kMicrosecond : time * kMicrosecond);
  }

  void control_plane() {
    const ShardId shard = kShards[in_.pick(kShards.size())];
    switch (in_.pick(4)) {
      case 0: return world_.change_view(shard, in_.flag());
      case 1: return world_.leave(shard);
      case 2: return world_.tell_peers(in_.pick(4) != 0, 1 + in_.pick(2));
      default: return world_.rest();
    }
  }

  void peer_session() { world_.close_peer_session(); }

  void network() {
    if (in_.flag()) return world_.network().heal();
    world_.network().block(NodeWorld::kWorker, NodeWorld::kPeer);
    if (in_.flag()) world_.network().block(NodeWorld::kPeer, NodeWorld::kWorker);
  }

  NodeWorld& world_;
  FuzzInput in_;
  std::vector<WireSession> stranger_sessions_;
};

}  // namespace
}  // namespace skua::kv::fuzz

/// Options that the command line may contradict:
///
///     detect_leaks=0   the world keeps memory from input to input; what is lost is found at the end
///     use_counters=0   how often a loop runs depends on all inputs before: such news would be most of the corpus
///     entropic=0       counts how rare each edge is, which takes as long as the input
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static std::array<std::string, 3> options = {"-detect_leaks=0", "-use_counters=0", "-entropic=0"};
  static std::vector<char*> arguments(*argv, *argv + *argc);
  for (std::string& option : options) arguments.insert(arguments.begin() + 1, option.data());
  *argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  *argv = arguments.data();
  return 0;
}

/// What an input frees is kept for some of the next ones, not for thousands: fresh memory is slow.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "quarantine_size_mb=16";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skua::kv::fuzz;  // NOLINT(google-build-using-namespace)
  static std::unique_ptr<NodeWorld> world;
  static size_t inputs = 0;
  static const bool fresh = std::getenv("SKUA_FUZZ_FRESH") != nullptr;
  static const char* const record_path = std::getenv("SKUA_FUZZ_RECORD");
  static InputRecord* const record = record_path == nullptr ? nullptr : new InputRecord(record_path);
  if (static const char* replay = std::getenv("SKUA_FUZZ_REPLAY"); replay != nullptr) {
    world = std::make_unique<NodeWorld>();
    for (const std::string& input : InputRecord::read(replay)) Script(*world, skua::as_byte_span(input)).run();
    replay = nullptr;
    return 0;
  }
  if (fresh || inputs++ % kInputsOfAWorld == 0 || (world != nullptr && world->is_full())) {
    world.reset();
    world = std::make_unique<NodeWorld>();
    if (record != nullptr) record->clear();
  }
  if (record != nullptr) record->add(std::as_bytes(std::span(data, size)));
  Script(*world, std::as_bytes(std::span(data, size))).run();
  return 0;
}
