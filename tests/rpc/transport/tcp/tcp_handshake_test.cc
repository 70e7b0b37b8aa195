// Who may connect, who is refused and in which words, claims, restarts and hostile bytes.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "rpc/transport/tcp/hello.h"
#include "rpc/transport/tcp/socket.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "tests/rpc/transport/tcp/test_node.h"

namespace skua::rpc::tcp {
namespace {

using ::testing::HasSubstr;
using Kind = LinkEvent::Kind;

std::string text_of(const LinkEvent& event) {
  return std::string(event.why.message());
}

/// A plain client socket to `node`, for bytes that a TcpTransport would not send.
UniqueFd raw_connect(TestNode& node) {
  const Descriptor descriptor = node.transport->local_descriptor();
  absl::StatusOr<UniqueFd> fd = start_connect(*SocketAddress::decode(as_byte_span(descriptor.address)));
  EXPECT_TRUE(fd.ok());
  return std::move(*fd);
}

/// Steps `node` until the peer of `fd` closed it; returns what could be read before.
std::string read_to_end(TestNode& node, const UniqueFd& fd) {
  std::string out;
  EXPECT_TRUE(run_until({&node}, [&] {
    std::array<char, 512> buffer;
    const ssize_t got = recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) out.append(buffer.data(), static_cast<size_t>(got));
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }));
  return out;
}

void write_all(TestNode& node, const UniqueFd& fd, const std::string& bytes) {
  size_t sent = 0;
  EXPECT_TRUE(run_until({&node}, [&] {
    const ssize_t part = send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (part > 0) sent += static_cast<size_t>(part);
    return sent == bytes.size();
  }));
}

Hello hello_from(uint8_t id, uint64_t incarnation = 1, uint64_t dial_number = 1) {
  Hello hello;
  hello.versions = {.min = 1, .max = 1};
  hello.dial_number = dial_number;
  hello.sender = {.uuid = make_uuid(id), .incarnation = incarnation, .cluster_id = make_uuid(0xCC)};
  return hello;
}

TEST(TcpCreate, PortInUse_NamesTheAddressAndTheWayOut) {
  TestNode first(node_options(1));
  TcpOptions options = node_options(2);
  options.listen_port = SocketAddress::decode(as_byte_span(first.transport->local_descriptor().address))->port;
  const auto second = TcpTransport::create(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("127.0.0.1:" + std::to_string(options.listen_port)));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("choose another"));
}

TEST(TcpCreate, ForeignAddress_IsUnavailable) {
  TcpOptions options = node_options(1);
  options.listen_ip = "192.0.2.1";
  const auto created = TcpTransport::create(options);
  EXPECT_EQ(created.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(created.status().message()), HasSubstr("192.0.2.1"));
}

TEST(TcpCreate, ContradictoryOptions_AreInvalid) {
  const auto code = [](auto change) {
    TcpOptions options = node_options(1);
    change(options);
    return TcpTransport::create(options).status().code();
  };
  using enum absl::StatusCode;
  EXPECT_EQ(code([](TcpOptions& o) { o.listen_ip = "localhost"; }), kInvalidArgument);
  EXPECT_EQ(code([](TcpOptions& o) { o.self.uuid = {}; }), kInvalidArgument);
  EXPECT_EQ(code([](TcpOptions& o) { o.version_max = 9; }), kInvalidArgument);
  EXPECT_EQ(code([](TcpOptions& o) { o.rx_chunk_bytes = 1000; }), kInvalidArgument);
  EXPECT_EQ(code([](TcpOptions& o) { o.reconnect_max_ns = 1; }), kInvalidArgument);
}

TEST(TcpCreate, ListeningOnAll_AdvertisesAnAddressOthersCanDial) {
  TcpOptions options = node_options(1);
  options.listen_ip = "0.0.0.0";
  TestNode all(options);
  const auto address = SocketAddress::decode(as_byte_span(all.transport->local_descriptor().address));
  EXPECT_FALSE(address->is_wildcard());
  EXPECT_NE(address->port, 0);
  options.advertise_ip = "10.1.2.3";
  TestNode told(options);
  EXPECT_THAT(SocketAddress::decode(as_byte_span(told.transport->local_descriptor().address))->to_string(),
              HasSubstr("10.1.2.3:"));
}

TEST(TcpResolve, BadDescriptors_AreRefused) {
  TestNode a(node_options(1));
  Descriptor good = TestNode(node_options(2)).transport->local_descriptor();
  const auto code = [&](auto change) {
    Descriptor descriptor = good;
    change(descriptor);
    return a->resolve(descriptor).status().code();
  };
  using enum absl::StatusCode;
  EXPECT_EQ(code([](Descriptor&) {}), kOk);
  EXPECT_EQ(code([](Descriptor& d) { d.transport = "sim"; }), kInvalidArgument);
  EXPECT_EQ(code([](Descriptor& d) { d.address = "xx"; }), kInvalidArgument);
  EXPECT_EQ(code([](Descriptor& d) { d.identity.uuid = make_uuid(1); }), kInvalidArgument);
  EXPECT_EQ(code([](Descriptor& d) { d.identity.uuid = {}; }), kInvalidArgument);
  EXPECT_EQ(code([](Descriptor& d) { d.identity.cluster_id = make_uuid(0xDD); }), kFailedPrecondition);
  EXPECT_EQ(*a->resolve(good), *a->resolve(good));
}

TEST(TcpHandshake, NobodyListens_IsDownWithTheReason) {
  Descriptor gone;
  {
    TestNode b(node_options(2));
    gone = b.transport->local_descriptor();
  }
  TestNode a(node_options(1));
  const PeerId to_b = a.resolve(gone);
  const std::string body(5000, 'x');
  ASSERT_TRUE(a.send(to_b, 1, body, 5));
  ASSERT_TRUE(run_until({&a}, [&] { return !a.links.empty(); }));
  EXPECT_EQ(a.links[0].kind, Kind::kDown);
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("Connection refused"));
  EXPECT_THAT(text_of(a.links[0]), HasSubstr(make_uuid(2).to_string()));
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("check that it runs"));
  EXPECT_EQ(a.completed, std::vector<TxToken>{5}) << "the packet's memory is free again";
}

TEST(TcpHandshake, PeerWithoutAddress_IsDownAtOnce) {
  TcpOptions options = node_options(2);
  options.listen_ip = "";
  TestNode b(options);
  EXPECT_EQ(b.transport->local_descriptor().address, "");
  TestNode a(node_options(1));
  const PeerId to_b = a.resolve(b);
  ASSERT_TRUE(a.send(to_b, 1, "x"));
  a.step();
  ASSERT_EQ(a.count_links(Kind::kDown), 1U);
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("does not listen"));
  // But it can connect itself, and is answered by that connection.
  ASSERT_TRUE(b.send(b.resolve(a), 2, "y"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !a.received.empty(); }));
  ASSERT_TRUE(a.send(a.received[0].from, 3, "z"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !b.received.empty(); }));
}

TEST(TcpHandshake, ForeignCluster_IsRefusedWithAdvice) {
  TcpOptions options = node_options(2);
  options.self.cluster_id = make_uuid(0xDD);
  TestNode b(options);
  TestNode a(node_options(1));
  // The descriptor lies (or is old), so resolve() cannot tell.
  Descriptor descriptor = b.transport->local_descriptor();
  descriptor.identity.cluster_id = make_uuid(0xCC);
  ASSERT_TRUE(a.send(a.resolve(descriptor), 1, "x"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !a.links.empty(); }));
  EXPECT_EQ(a.links[0].kind, Kind::kRefused);
  EXPECT_EQ(a.links[0].why.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(text_of(a.links[0]), HasSubstr(make_uuid(0xCC).to_string()));
  EXPECT_THAT(text_of(a.links[0]), HasSubstr(make_uuid(0xDD).to_string()));
  EXPECT_TRUE(b.received.empty());
  EXPECT_TRUE(b.links.empty()) << "no state at the other side";
  EXPECT_EQ(b->counters().rx_dropped, 1U);
}

TEST(TcpHandshake, WrongUuid_IsRefused) {
  TestNode b(node_options(2));
  TestNode a(node_options(1));
  Descriptor descriptor = b.transport->local_descriptor();
  descriptor.identity.uuid = make_uuid(9);
  ASSERT_TRUE(a.send(a.resolve(descriptor), 1, "x"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !a.links.empty(); }));
  EXPECT_EQ(a.links[0].kind, Kind::kRefused);
  EXPECT_EQ(a.links[0].why.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("expected endpoint " + make_uuid(9).to_string()));
  EXPECT_TRUE(b.received.empty());
}

// Version 2 of the tests: a frame of another size.
void pack_v2(std::byte* to, const FramePrefix& prefix) {
  store_le(to, uint32_t{0x32323232});
  store_le(to + 4, uint64_t{prefix.payload_bytes});
}
bool unpack_v2(const std::byte* from, FramePrefix& prefix) {
  prefix = {.payload_bytes = static_cast<uint32_t>(load_le<uint64_t>(from + 4))};
  return load_le<uint32_t>(from) == 0x32323232;
}
const std::array<Dialect, 2> kBoth = {builtin_dialects().front(), {2, 12, false, pack_v2, unpack_v2}};

TcpOptions version_options(uint8_t id, uint16_t min, uint16_t max) {
  TcpOptions options = node_options(id);
  options.dialects = kBoth;
  options.version_min = min;
  options.version_max = max;
  return options;
}

TEST(TcpHandshake, Versions_AnyOverlapTalks) {
  const std::array<std::array<uint16_t, 4>, 5> ranges = {
      {{1, 2, 1, 2}, {1, 2, 1, 1}, {1, 1, 1, 2}, {2, 2, 1, 2}, {1, 2, 2, 2}}};
  for (const auto& range : ranges) {
    TestNode a(version_options(1, range[0], range[1]));
    TestNode b(version_options(2, range[2], range[3]));
    const PeerId to_b = a.resolve(b);
    const std::string small = "small";
    const std::string large = random_text(100'000, 1);
    // Queued before the version is known, and after.
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(a.send(to_b, i, i % 2 == 0 ? small : large));
    ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 10; }));
    for (uint64_t i = 10; i < 20; ++i) ASSERT_TRUE(a.send(to_b, i, i % 2 == 0 ? small : large));
    ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 20; }));
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(b.received[i].number, i);
      EXPECT_TRUE(b.received[i].payload == (i % 2 == 0 ? small : large));
    }
  }
}

TEST(TcpHandshake, DisjointVersions_AreRefusedNamingBoth) {
  TestNode a(version_options(1, 2, 2));
  TestNode b(version_options(2, 1, 1));
  ASSERT_TRUE(a.send(a.resolve(b), 1, "x"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !a.links.empty(); }));
  EXPECT_EQ(a.links[0].kind, Kind::kRefused);
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("speaks version 2"));
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("speaks version 1"));
}

TEST(TcpHandshake, TooManyPeers_IsRefused) {
  TcpOptions options = node_options(3);
  options.peers_max = 1;
  TestNode full(options);
  TestNode a(node_options(1));
  TestNode b(node_options(2));
  ASSERT_TRUE(a.send(a.resolve(full), 1, "x"));
  ASSERT_TRUE(run_until({&a, &full}, [&] { return full.received.size() == 1; }));
  ASSERT_TRUE(b.send(b.resolve(full), 1, "x"));
  ASSERT_TRUE(run_until({&b, &full}, [&] { return !b.links.empty(); }));
  EXPECT_EQ(b.links[0].kind, Kind::kRefused);
  EXPECT_EQ(b.links[0].why.code(), absl::StatusCode::kResourceExhausted);
}

TEST(TcpHandshake, SimultaneousDials_EachHasItsOwn) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    TestNode a(node_options(seed % 2 == 0 ? 1 : 2));
    TestNode b(node_options(seed % 2 == 0 ? 2 : 1));
    const PeerId to_b = a.resolve(b);
    const PeerId to_a = b.resolve(a);
    ASSERT_TRUE(a.send(to_b, 1, "from a"));
    // The other side dials at once, or some steps later.
    for (uint64_t i = rng.below(4); i > 0; --i) (rng.chance(0.5) ? a : b).step();
    ASSERT_TRUE(b.send(to_a, 2, "from b"));
    for (int i = 0; i < 20; ++i) (rng.chance(0.5) ? a : b).step();
    ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() + b.received.size() == 2; }));
    EXPECT_EQ(a.transport->stats().link_count, 2U);
    EXPECT_EQ(b.transport->stats().link_count, 2U);
    // What comes by a connection that was dialled from there is answered by it.
    EXPECT_NE(a.received.at(0).from, to_b);
    ASSERT_TRUE(a.send(a.received[0].from, 3, "answer"));
    ASSERT_TRUE(run_until({&a, &b}, [&] { return b.received.size() == 2; }));
    EXPECT_EQ(b.received[1].from, to_a);
    EXPECT_EQ(a.count_links(Kind::kDown) + b.count_links(Kind::kDown), 0U);
    EXPECT_EQ(a.transport->stats().handshake_count + b.transport->stats().handshake_count, 0U);
  }
}

/// Whatever a stranger says of itself: the name of a peer that was dialled, or of a caller, a later life, the highest
/// dial number.
TEST(TcpHandshake, AClaimedName_ChangesNothingForItsOwner) {
  TestNode a(node_options(1));
  TestNode b(node_options(2, 7));
  const PeerId to_b = a.resolve(b);
  const PeerId to_a = b.resolve(a);
  ASSERT_TRUE(a.send(to_b, 1, "out"));
  ASSERT_TRUE(b.send(to_a, 2, "in"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() + b.received.size() == 2; }));
  const PeerId b_calls = a.received[0].from;
  std::vector<UniqueFd> liars;
  for (const uint64_t incarnation : {uint64_t{0}, uint64_t{7}, uint64_t{8}, UINT64_MAX}) {
    for (const uint64_t dial_number : {uint64_t{0}, UINT64_MAX}) {
      const size_t before = a.count_links(Kind::kUp);
      liars.push_back(raw_connect(a));
      write_all(a, liars.back(), encode_hello(hello_from(2, incarnation, dial_number)));
      ASSERT_TRUE(run_until({&a, &b}, [&] { return a.count_links(Kind::kUp) == before + 1; }));
      EXPECT_NE(a.links.back().peer, to_b);
      EXPECT_NE(a.links.back().peer, b_calls);
    }
  }
  EXPECT_EQ(a.count_links(Kind::kDown) + b.count_links(Kind::kDown), 0U);
  ASSERT_TRUE(a.send(to_b, 3, "out"));
  ASSERT_TRUE(a.send(b_calls, 4, "answer"));
  ASSERT_TRUE(b.send(to_a, 5, "in"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() + b.received.size() == 5; }));
  EXPECT_EQ(a.received[1].from, b_calls);
  liars.clear();
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.count_links(Kind::kDown) == 8; }));
  for (const LinkEvent& event : a.links) {
    EXPECT_TRUE(event.kind != Kind::kDown || (event.peer != to_b && event.peer != b_calls));
  }
}

TEST(TcpHandshake, TooManyFromOneAddress_AreRefused) {
  TcpOptions options = node_options(1);
  options.callers_per_host_max = 2;
  std::vector<std::string> told;
  options.on_sent_away = [&](const std::string& line) { told.push_back(line); };
  TestNode a(options);
  const UniqueFd first = raw_connect(a);
  write_all(a, first, encode_hello(hello_from(2)));
  {
    const UniqueFd second = raw_connect(a);
    write_all(a, second, encode_hello(hello_from(3)));
    ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kUp) == 2; }));
    const UniqueFd third = raw_connect(a);
    write_all(a, third, encode_hello(hello_from(4)));
    const std::string answer = read_to_end(a, third);
    EXPECT_EQ(decode_reply(as_byte_span(answer))->code, HelloCode::kFull);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_THAT(told[0], HasSubstr("their address has as many connections as it may have"));
  }
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kDown) == 1; }));
  const UniqueFd fourth = raw_connect(a);
  write_all(a, fourth, encode_hello(hello_from(4)));
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kUp) == 3; }));
}

/// So many connections at once that the thread that accepts them has others to serve in between.
TEST(TcpHandshake, ACrowd_IsAcceptedRowByRow) {
  constexpr size_t kCrowd = 3 * kAcceptsInARow + 1;
  TestNode a(node_options(1));
  std::vector<UniqueFd> crowd;
  for (size_t i = 0; i < kCrowd; ++i) crowd.push_back(raw_connect(a));
  ASSERT_TRUE(run_until({&a}, [&] { return a.transport->stats().accepts > 0; }));
  EXPECT_LE(a.transport->stats().accepts, static_cast<uint64_t>(kAcceptsInARow));
  for (size_t i = 0; i < kCrowd; ++i) write_all(a, crowd[i], encode_hello(hello_from(static_cast<uint8_t>(2 + i))));
  EXPECT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kUp) == kCrowd; }));
}

TEST(TcpHandshake, TooManyCallers_AreRefused) {
  TcpOptions options = node_options(1);
  options.callers_max = 1;
  TestNode a(options);
  const UniqueFd first = raw_connect(a);
  write_all(a, first, encode_hello(hello_from(2)));
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kUp) == 1; }));
  const UniqueFd second = raw_connect(a);
  write_all(a, second, encode_hello(hello_from(3)));
  const std::string answer = read_to_end(a, second);
  EXPECT_EQ(decode_reply(as_byte_span(answer))->code, HelloCode::kFull);
}

TEST(TcpHandshake, CallersThatNoSessionUses_AreClosed) {
  struct Use final : PeerUse {
    [[nodiscard]] bool is_used(PeerId peer) const override { return used.contains(peer); }
    std::set<PeerId> used;
  } use;
  TcpOptions options = node_options(1);
  options.unused_timeout_ns = 100 * kMillisecond;
  TestNode a(options);
  a->set_peer_use(&use);
  const UniqueFd user = raw_connect(a);
  write_all(a, user, encode_hello(hello_from(2)));
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kUp) == 1; }));
  const PeerId used = a.links.back().peer;
  use.used.insert(used);
  for (uint8_t round = 1; round <= 3; ++round) {
    const UniqueFd idle = raw_connect(a);
    write_all(a, idle, encode_hello(hello_from(3)));
    ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kDown) == round; }));
    EXPECT_NE(a.links.back().peer, used);
  }
  use.used.clear();
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kDown) == 4; }));
  EXPECT_EQ(a.links.back().peer, used);
  a->set_peer_use(nullptr);
}

TEST(TcpHandshake, SameUuid_IsRefused) {
  TestNode a(node_options(1));
  const UniqueFd twin = raw_connect(a);
  write_all(a, twin, encode_hello(hello_from(1, 2, 1)));
  const std::string answer = read_to_end(a, twin);
  EXPECT_EQ(decode_reply(as_byte_span(answer))->code, HelloCode::kSameUuid);
}

TEST(TcpHandshake, Garbage_ClosesAndIsCounted) {
  TestNode a(node_options(1));
  std::vector<std::string> inputs = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(5000, '\0'),
                                     encode_hello(hello_from(2)).substr(0, 4) + "\xff\xff\x01zzzz", encode_reply({})};
  for (uint64_t seed = 0; seed < 50; ++seed) inputs.push_back(random_text(300, seed));
  std::string bad_address = encode_hello(hello_from(2));
  bad_address += "\x09rubbish";
  bad_address[76] = 8;
  bad_address[4] = static_cast<char>(bad_address.size());
  inputs.push_back(bad_address);
  for (const std::string& input : inputs) {
    const UniqueFd fd = raw_connect(a);
    write_all(a, fd, input);
    EXPECT_EQ(read_to_end(a, fd), "");
  }
  EXPECT_EQ(a->counters().rx_dropped, inputs.size());
  EXPECT_TRUE(a.links.empty());
  EXPECT_EQ(a.transport->stats().handshake_count, 0U);
}

TEST(TcpHandshake, GarbageAfterTheHello_BreaksOnlyThatConnection) {
  TestNode a(node_options(1));
  TestNode b(node_options(3));
  ASSERT_TRUE(b.send(b.resolve(a), 1, "x"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() == 1; }));
  const UniqueFd fd = raw_connect(a);
  write_all(a, fd, encode_hello(hello_from(2)) + std::string(100, '\xff'));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.count_links(Kind::kDown) == 1; }));
  EXPECT_THAT(text_of(a.links.back()), HasSubstr("malformed frame"));
  EXPECT_EQ(a.transport->stats().link_count, 1U);
  ASSERT_TRUE(b.send(0, 2, "still here"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() == 2; }));
}

TEST(TcpHandshake, HalfAFrameAndNoMore_EndsTheConnection) {
  ManualClock clock;
  TcpOptions options = node_options(1);
  options.clock = &clock;
  TestNode a(options);
  const UniqueFd fd = raw_connect(a);
  write_all(a, fd, encode_hello(hello_from(2)));
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kUp) == 1; }));
  // A frame of a megabyte of which little comes.
  std::string frame(8 + kPacketHeaderBytes + 100, '\0');
  store_le(reinterpret_cast<std::byte*>(frame.data()), uint32_t{1} << 20);
  write_all(a, fd, frame);
  ASSERT_TRUE(run_until({&a}, [&] { return a.placer.placed == 1; }));
  for (int i = 0; i < 30 && a.count_links(Kind::kDown) == 0; ++i) {
    clock.advance(options.frame_timeout_ns / 10);
    // Drop by drop does not help.
    write_all(a, fd, "x");
    for (int turn = 0; turn < 40; ++turn) a.step();
  }
  ASSERT_EQ(a.count_links(Kind::kDown), 1U);
  EXPECT_THAT(text_of(a.links.back()), HasSubstr("the rest did not come"));
  EXPECT_EQ(a.placer.abandoned, 1);
  EXPECT_EQ(a.transport->stats().chunk_refs, 0U);
}

TEST(TcpHandshake, HalfAFrameThatTrickles_EndsTheConnectionInTime) {
  ManualClock clock;
  TcpOptions options = node_options(1);
  options.clock = &clock;
  TestNode a(options);
  const UniqueFd fd = raw_connect(a);
  write_all(a, fd, encode_hello(hello_from(2)));
  ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kUp) == 1; }));
  std::string frame(8 + kPacketHeaderBytes + 100, '\0');
  store_le(reinterpret_cast<std::byte*>(frame.data()), uint32_t{1} << 20);
  write_all(a, fd, frame);
  ASSERT_TRUE(run_until({&a}, [&] { return a.placer.placed == 1; }));
  // A byte comes before each look at the socket, so that each look finds something to read.
  const int at_once = 1;
  ASSERT_EQ(setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once)), 0);
  DurationNs passed = 0;
  while (passed < 3 * options.frame_timeout_ns && a.count_links(Kind::kDown) == 0) {
    clock.advance(options.frame_timeout_ns / 100);
    passed += options.frame_timeout_ns / 100;
    for (int turn = 0; turn < 40 && a.count_links(Kind::kDown) == 0; ++turn) {
      (void)!send(fd.get(), "x", 1, MSG_NOSIGNAL);
      a.step();
    }
  }
  ASSERT_EQ(a.count_links(Kind::kDown), 1U);
  EXPECT_THAT(text_of(a.links.back()), HasSubstr("the rest did not come"));
  EXPECT_LE(passed, options.frame_timeout_ns * 3 / 2);
}

TEST(TcpHandshake, ListenerThatIsNotSkua_IsRefused) {
  SocketAddress bound;
  const auto listener = listen_on(*SocketAddress::parse("127.0.0.1", 0), bound);
  ASSERT_TRUE(listener.ok());
  TestNode a(node_options(1));
  Descriptor descriptor = a.transport->local_descriptor();
  descriptor.identity.uuid = make_uuid(2);
  descriptor.address = bound.encode();
  ASSERT_TRUE(a.send(a.resolve(descriptor), 1, "x"));
  UniqueFd accepted;
  ASSERT_TRUE(run_until({&a}, [&] {
    if (!accepted.is_open()) {
      accepted = UniqueFd(accept(listener->get(), nullptr, nullptr));
      if (accepted.is_open()) (void)!send(accepted.get(), "SSH-2.0-x\r\n", 11, 0);
    }
    return !a.links.empty();
  }));
  EXPECT_EQ(a.links[0].kind, Kind::kRefused);
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("does not speak Skua"));
}

TEST(TcpHandshake, SilentConnections_TimeOutAndAreBounded) {
  ManualClock clock;
  TcpOptions options = node_options(1);
  options.clock = &clock;
  options.handshakes_max = 4;
  std::vector<std::string> told;
  options.on_sent_away = [&](const std::string& line) { told.push_back(line); };
  TestNode a(options);
  std::vector<UniqueFd> silent;
  for (uint64_t i = 0; i < 10; ++i) {
    silent.push_back(raw_connect(a));
    ASSERT_TRUE(run_until({&a}, [&] { return a.transport->stats().accepts == i + 1; }));
  }
  EXPECT_EQ(a.transport->stats().handshake_count, 4U);
  ASSERT_EQ(told.size(), 1U) << "one line a second";
  EXPECT_THAT(told[0], HasSubstr("sent away count=1 latest_from=127.0.0.1:"));
  EXPECT_THAT(told[0], HasSubstr("have not said hello"));
  // An honest one still gets in.
  TestNode b(node_options(2));
  ASSERT_TRUE(b.send(b.resolve(a), 1, "x"));
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.received.size() == 1; }));
  clock.advance(options.connect_timeout_ns);
  ASSERT_TRUE(run_until({&a}, [&] { return a.transport->stats().handshake_count == 0; }));
  EXPECT_EQ(a.transport->stats().link_count, 1U);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_THAT(told[1], HasSubstr("sent away count=6 "));
}

TEST(TcpHandshake, SilentListener_TimesOut) {
  SocketAddress bound;
  const auto listener = listen_on(*SocketAddress::parse("127.0.0.1", 0), bound);
  ASSERT_TRUE(listener.ok());
  ManualClock clock;
  TcpOptions options = node_options(1);
  options.clock = &clock;
  TestNode a(options);
  Descriptor descriptor = a.transport->local_descriptor();
  descriptor.identity.uuid = make_uuid(2);
  descriptor.address = bound.encode();
  ASSERT_TRUE(a.send(a.resolve(descriptor), 1, "x"));
  for (int i = 0; i < 100; ++i) a.step();
  EXPECT_TRUE(a.links.empty());
  clock.advance(options.connect_timeout_ns);
  ASSERT_TRUE(run_until({&a}, [&] { return !a.links.empty(); }));
  EXPECT_EQ(a.links[0].kind, Kind::kDown);
  EXPECT_THAT(text_of(a.links[0]), HasSubstr("did not answer within 3000 ms"));
}

TEST(TcpHandshake, FailedDials_BackOffAndTellEachTime) {
  Descriptor gone;
  {
    TestNode b(node_options(2));
    gone = b.transport->local_descriptor();
  }
  ManualClock clock;
  TcpOptions options = node_options(1);
  options.clock = &clock;
  options.reconnect_min_ns = 10;
  options.reconnect_max_ns = 40;
  TestNode a(options);
  const PeerId to_b = a.resolve(gone);
  for (const DurationNs pause : {0, 10, 20, 40, 40}) {
    const uint64_t dials = a.transport->stats().dials;
    const size_t downs = a.count_links(Kind::kDown);
    ASSERT_TRUE(a.send(to_b, 1, "x"));
    if (pause > 0) {
      clock.advance(pause - 1);
      for (int i = 0; i < 100; ++i) a.step();
      EXPECT_EQ(a.transport->stats().dials, dials) << "too early";
      clock.advance(1);
    }
    ASSERT_TRUE(run_until({&a}, [&] { return a.count_links(Kind::kDown) == downs + 1; }));
    EXPECT_EQ(a.transport->stats().dials, dials + 1);
  }
}

}  // namespace
}  // namespace skua::rpc::tcp
