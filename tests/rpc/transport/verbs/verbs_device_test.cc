// The verbs transport on a device. Runs where verbs_pair.h says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/transport/verbs/ud_queue.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_transport.h"
#include "tests/rpc/transport/verbs/verbs_pair.h"

namespace skua::rpc::verbs {
namespace {

using ::testing::HasSubstr;

using VerbsTransportTest = VerbsPair;

// --- Discovery -------------------------------------------------------------------------------------------------------

TEST(VerbsDevice, Open_ByNameByPortByAddressOrTheFirst) {
  EXPECT_THAT(fabric_on("")->describe(), HasSubstr("rxe0 port 1 (RoCE v2): GID 1 10.77.0.1, MTU 4096, link up"));
  EXPECT_THAT(fabric_on("rxe1")->describe(), HasSubstr("10.78.0.1, MTU 1024"));
  EXPECT_THAT(fabric_on("rxe1:1")->describe(), HasSubstr("rxe1 port 1"));
  EXPECT_THAT(fabric_on("10.78.0.1")->describe(), HasSubstr("rxe1 port 1"));
}

TEST(VerbsDevice, Open_RefusesInWords) {
  VerbsOptions options;
  options.device = "mlx5_0";
  EXPECT_THAT(std::string(VerbsFabric::start(options).status().message()), HasSubstr("rxe1 port 1 (active"));
  options.device = "rxe1";
  options.mtu_bytes = 2048;
  EXPECT_THAT(std::string(VerbsFabric::start(options).status().message()), HasSubstr("at most 1024"));
  options.mtu_bytes = 0;
  options.gid_index = 77;
  EXPECT_THAT(std::string(VerbsFabric::start(options).status().message()), HasSubstr("GID 77"));
}

TEST(VerbsDevice, Open_Ipv6GidCarriesPackets) {
  VerbsOptions options;
  options.device = "rxe0";
  options.gid_index = 0;
  const auto fabric = VerbsFabric::start(options).value();
  EXPECT_THAT(fabric->describe(), HasSubstr("GID 0 fe80::"));
  const auto one = fabric->make_transport(identity_of(1)).value();
  const auto two = fabric->make_transport(identity_of(2)).value();
  TxPacket packet;
  packet.peer = one->resolve(two->local_descriptor()).value();
  const PeerId back = two->resolve(one->local_descriptor()).value();
  packet.header.fill(std::byte{1});
  RxPacket received;
  const SteadyClock clock;
  const TimeNs limit = clock.now_ns() + kPatience;
  // The handle may still be made.
  while (two->rx_burst(std::span(&received, 1)) == 0 && clock.now_ns() < limit) {
    ASSERT_EQ(one->tx_burst(std::span(&packet, 1)), 1u);
  }
  EXPECT_EQ(received.from, back);
  two->release(std::span(&received.buffer, 1));
  // The two kinds of GID do not mix.
  const auto other = fabric_on("rxe0");
  const auto third = other->make_transport(identity_of(3)).value();
  EXPECT_THAT(std::string(third->resolve(two->local_descriptor()).status().message()), HasSubstr("--verbs-gid-index"));
}

TEST(VerbsDevice, Memory_TheLimitIsNamed) {
  // Locking without limit is root's right; here without it.
  std::thread([] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> caps{};
    ASSERT_EQ(syscall(SYS_capget, &header, caps.data()), 0);
    caps[0].effective &= ~(1u << CAP_IPC_LOCK);
    ASSERT_EQ(syscall(SYS_capset, &header, caps.data()), 0);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    const rlimit unlimited = limit;
    limit.rlim_cur = 65'536;
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    const auto fabric = fabric_on("rxe0");
    const absl::Status status = fabric->make_transport(identity_of(1)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("65536"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -l"));
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &unlimited), 0);
  }).join();
}

// --- Packets ---------------------------------------------------------------------------------------------------------

TEST_F(VerbsTransportTest, Send_AllSizesArriveAsTheyWere) {
  const uint32_t largest = sender_->capabilities().payload_max_bytes;
  EXPECT_EQ(largest, 4096u - 32);
  const Registered body(*sender_, largest);
  const std::vector<std::byte> plain(body.bytes().begin(), body.bytes().end());
  for (const ByteSpan source : {body.bytes(), ByteSpan(plain)}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{256}, size_t{257}, size_t{4000}, size_t{largest}}) {
      TxPacket one = packet(source.first(size), 5);
      ASSERT_TRUE(send(one));
      ASSERT_TRUE(until([&] { return !arrived_.empty(); })) << size;
      EXPECT_EQ(arrived_[0].from, to_sender_);
      EXPECT_EQ(arrived_[0].header[0], std::byte{7});
      EXPECT_EQ(as_string_view(arrived_[0].payload), as_string_view(source.first(size)));
      EXPECT_EQ(one.done, size <= 256 || source.data() == plain.data());
      release_all();
    }
  }
  const TransportCounters& counters = sender_->counters();
  EXPECT_EQ(counters.tx_zero_copy_bytes, 257u + 4000 + largest);
  EXPECT_EQ(receiver_->counters().rx_zero_copy_bytes, counters.tx_bytes);
}

TEST_F(VerbsTransportTest, Send_ToItself) {
  const PeerId self = receiver_->resolve(receiver_->local_descriptor()).value();
  wait_for(*receiver_, self);
  TxPacket one = packet(as_byte_span("note to self"), kNoToken);
  one.peer = self;
  ASSERT_EQ(receiver_->tx_burst(std::span(&one, 1)), 1u);
  ASSERT_TRUE(until([&] { return !arrived_.empty(); }));
  EXPECT_EQ(arrived_[0].from, self);
}

TEST_F(VerbsTransportTest, Send_PiecesOfBothKindsKeepTheirOrder) {
  const Registered body(*sender_, 2000);
  const std::string plain(300, 'p');
  TxPacket one = packet({}, 5);
  one.segment_count = 5;
  one.segments = {as_byte_span("head"), body.bytes().first(1000), as_byte_span(plain), as_byte_span("small"),
                  body.bytes().subspan(1000)};
  std::string expected;
  for (const ByteSpan piece : one.segments) expected += as_string_view(piece);
  one.payload_bytes = static_cast<uint32_t>(expected.size());
  ASSERT_TRUE(send(one));
  ASSERT_TRUE(until([&] { return !arrived_.empty(); }));
  EXPECT_EQ(as_string_view(arrived_[0].payload), expected);
  EXPECT_EQ(sender_->counters().tx_zero_copy_bytes, 2000u);
  EXPECT_EQ(sender_->counters().tx_copied_bytes, 309u);
}

TEST_F(VerbsTransportTest, Send_TokensComeBackWithoutFurtherTraffic) {
  const Registered body(*sender_, 4000);
  for (TxToken token = 1; token <= 10; ++token) {
    TxPacket one = packet(body.bytes(), token);
    ASSERT_TRUE(send(one));
    ASSERT_FALSE(one.done);
    TxToken back = kNoToken;
    ASSERT_TRUE(until([&] { return sender_->reap(std::span(&back, 1)) == 1; })) << token;
    EXPECT_EQ(back, token);
  }
}

TEST_F(VerbsTransportTest, Send_AFullRingTakesNoMoreUntilTokensAreReaped) {
  const Registered body(*sender_, 4000);
  TxToken next = 1;
  std::vector<TxToken> back;
  for (int turn = 0; turn < 50; ++turn) {
    std::array<TxPacket, kBurstMax> burst;
    for (TxPacket& one : burst) one = packet(body.bytes(), next++);
    size_t taken = sender_->tx_burst(burst);
    ASSERT_TRUE(until([&] {
      std::array<TxToken, 5> tokens;
      const size_t count = sender_->reap(tokens);
      back.insert(back.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
      taken += sender_->tx_burst(std::span(burst).subspan(taken));
      release_all();
      return taken == burst.size();
    }));
  }
  ASSERT_TRUE(until([&] {
    TxToken token;
    if (sender_->reap(std::span(&token, 1)) == 1) back.push_back(token);
    return back.size() + 1 == next;
  }));
  for (size_t i = 0; i < back.size(); ++i) EXPECT_EQ(back[i], i + 1);
  EXPECT_GT(sender_->counters().tx_full, 0u);
}

TEST_F(VerbsTransportTest, Receive_LentBuffersComeBackInAnyOrder) {
  Rng rng(9);
  const size_t buffers = inside(*receiver_).queue().buffer_count();
  for (int turn = 0; turn < 400; ++turn) {
    TxPacket one = packet(as_byte_span("some bytes"), kNoToken, static_cast<uint8_t>(turn));
    ASSERT_TRUE(send(one));
    const size_t before = arrived_.size();
    ASSERT_TRUE(until([&] { return arrived_.size() > before; })) << turn;
    EXPECT_EQ(arrived_.back().header[0], static_cast<std::byte>(turn)) << "not the memory of an earlier packet";
    // Two steps forward, one back, up to as many as may be lent.
    while (arrived_.size() >= buffers / 2 || (!arrived_.empty() && rng.chance(0.3))) {
      const auto which = arrived_.begin() + static_cast<std::ptrdiff_t>(rng.below(arrived_.size()));
      receiver_->release(std::span(&which->buffer, 1));
      arrived_.erase(which);
    }
    expect_nothing_lost();
  }
}

TEST_F(VerbsTransportTest, Wait_EndsWhenAPacketComes) {
  for (int turn = 0; turn < 20; ++turn) {
    std::thread other([&] {
      TxPacket one = packet(as_byte_span("wake up"), kNoToken);
      ASSERT_TRUE(send(one));
    });
    const size_t before = arrived_.size();
    while (arrived_.size() == before) {
      receiver_->wait(3600 * kSecond);
      receive();
    }
    other.join();
  }
}

TEST_F(VerbsTransportTest, Wait_EndsWhenATokenIsDoneOrSomebodyWakesIt) {
  const Registered body(*sender_, 4000);
  TxPacket one = packet(body.bytes(), 3);
  ASSERT_TRUE(send(one));
  TxToken token = kNoToken;
  while (sender_->reap(std::span(&token, 1)) == 0) sender_->wait(3600 * kSecond);
  EXPECT_EQ(token, 3u);
  std::thread other([&] { sender_->wake(); });
  sender_->wait(3600 * kSecond);
  other.join();
}

// --- Bad input -------------------------------------------------------------------------------------------------------

/// Sends whatever it likes to the receiver.
class Attacker {
 public:
  explicit Attacker(const Descriptor& victim) : victim_(EndpointAddress::decode(as_byte_span(victim.address)).value()) {
    device_ = Device::open({"rxe0"}, 0).value();
    resolver_ = std::make_unique<AddressResolver>(*device_, uint8_t{0});
    channel_ = CompletionChannel::create(*device_).value();
    queue_ = UdQueue::create(*device_, *channel_, {.send_depth = 256, .receive_depth = kDepth}, Rng(1)).value();
    handle_ = resolver_->resolve(victim_, true, PeerWord::kOwnDial, kPatience).value();
  }
  ~Attacker() {
    queue_.reset();
    handle_.reset();
  }

  void send(uint32_t bytes, uint32_t qkey) {
    while (queue_->send_room() == 0) queue_->poll_sent();
    std::byte* room = nullptr;
    UdQueue::SendSlot& slot = queue_->next_slot(room);
    slot.pieces[0] = {reinterpret_cast<uintptr_t>(room), bytes, queue_->slot_key()};
    slot.request.num_sge = bytes == 0 ? 0 : 1;
    slot.request.wr.ud.ah = handle_->get();
    slot.request.wr.ud.remote_qpn = victim_.qp_number;
    slot.request.wr.ud.remote_qkey = qkey;
    queue_->commit(slot, bytes, kNoToken);
    queue_->post();
    EXPECT_FALSE(queue_->in_error());
  }
  [[nodiscard]] uint32_t victims_key() const { return victim_.qkey; }

 private:
  const EndpointAddress victim_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<AddressResolver> resolver_;
  std::unique_ptr<CompletionChannel> channel_;
  std::unique_ptr<UdQueue> queue_;
  std::shared_ptr<AddressHandle> handle_;
};

TEST_F(VerbsTransportTest, Hostile_ShortPacketsTakeNoBufferOutOfTheRing) {
  Attacker attacker(receiver_->local_descriptor());
  const uint32_t count = 4 * inside(*receiver_).queue().buffer_count();
  const TransportCounters& counters = receiver_->counters();
  for (uint32_t i = 0; i < count; ++i) {
    attacker.send(i % 32, attacker.victims_key());
    ASSERT_TRUE(until([&] { return counters.rx_dropped == i + 1; })) << i;
  }
  EXPECT_EQ(inside(*receiver_).stats().rx_short, count);
  EXPECT_TRUE(arrived_.empty());
  expect_nothing_lost();
  TxPacket good = packet(as_byte_span("good"), kNoToken);
  ASSERT_TRUE(send(good));
  EXPECT_TRUE(until([&] { return arrived_.size() == 1; }));
}

TEST_F(VerbsTransportTest, Hostile_PacketsOfStrangersAreFromNobody) {
  Attacker attacker(receiver_->local_descriptor());
  attacker.send(100, attacker.victims_key());
  ASSERT_TRUE(until([&] { return arrived_.size() == 1; }));
  EXPECT_EQ(arrived_[0].from, kNoPeer);
  EXPECT_EQ(arrived_[0].payload.size(), 68u);
}

TEST_F(VerbsTransportTest, Hostile_ForeignKeysDoNotArrive) {
  Attacker attacker(receiver_->local_descriptor());
  for (int i = 0; i < 100; ++i) attacker.send(100, attacker.victims_key() ^ 1);
  TxPacket good = packet(as_byte_span("good"), kNoToken);
  ASSERT_TRUE(send(good));
  ASSERT_TRUE(until([&] { return !arrived_.empty(); }));
  EXPECT_EQ(arrived_.size(), 1u);
  EXPECT_EQ(arrived_[0].from, to_sender_);
  expect_nothing_lost();
}

TEST_F(VerbsTransportTest, PayloadMax_FollowsThePeersMtu) {
  EXPECT_EQ(sender_->payload_max_bytes(to_receiver_), 4096u - 32);
  EndpointAddress address = EndpointAddress::decode(as_byte_span(receiver_->local_descriptor().address)).value();
  address.mtu_bytes = 1024;
  const PeerId narrow = sender_->resolve({"verbs", identity_of(9), address.encode()}).value();
  EXPECT_EQ(sender_->payload_max_bytes(narrow), 1024u - 32);
}

TEST_F(VerbsTransportTest, Resolve_RefusesOtherTransportsClustersAndGarbage) {
  Descriptor peer = receiver_->local_descriptor();
  peer.transport = "tcp";
  EXPECT_EQ(sender_->resolve(peer).status().code(), absl::StatusCode::kInvalidArgument);
  peer = receiver_->local_descriptor();
  peer.address.pop_back();
  EXPECT_EQ(sender_->resolve(peer).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(sender_->resolve(receiver_->local_descriptor()).value(), to_receiver_) << "the same uuid, the same id";
}

/// A transport whose address handles are made as a test says: Soft-RoCE itself takes any address.
class VerbsResolving : public testing::Test {
 protected:
  void open(AddressResolver::MakeFn make) {
    device_ = Device::open({"rxe0"}, 0).value();
    resolver_ = std::make_unique<AddressResolver>(*device_, uint8_t{0}, std::move(make));
    transport_ = VerbsTransport::create(*device_, *resolver_, {}, identity_of(1), Rng(1)).value();
    peer_ = EndpointAddress::decode(as_byte_span(transport_->local_descriptor().address)).value();
    peer_.gid = Gid::parse("10.77.0.9").value();
  }
  ~VerbsResolving() override { transport_.reset(); }

  [[nodiscard]] Descriptor peer() const { return {"verbs", identity_of(9), peer_.encode()}; }
  /// Sends a packet; true if it went out rather than being thrown away.
  bool goes_out(PeerId to) {
    const uint64_t before = transport_->counters().tx_packets;
    TxPacket one;
    one.peer = to;
    one.header.fill(std::byte{1});
    EXPECT_EQ(transport_->tx_burst(std::span(&one, 1)), 1u);
    EXPECT_TRUE(one.done);
    return transport_->counters().tx_packets > before;
  }
  std::optional<LinkEvent> next_link_event(int turns) {
    std::array<LinkEvent, 1> event;
    for (; turns > 0; --turns) {
      if (transport_->poll_links(event) == 1) return event[0];
    }
    return std::nullopt;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<AddressResolver> resolver_;
  std::unique_ptr<Transport> transport_;
  EndpointAddress peer_;
};

TEST_F(VerbsResolving, AnAddressThatNobodyReachesIsReported) {
  open([](ibv_pd*, ibv_ah_attr*) -> ibv_ah* {
    errno = EHOSTUNREACH;
    return nullptr;
  });
  const PeerId nowhere = transport_->resolve(peer()).value();
  EXPECT_FALSE(goes_out(nowhere));
  std::optional<LinkEvent> event;
  while (!event.has_value()) event = next_link_event(1000);
  EXPECT_EQ(event->peer, nowhere);
  EXPECT_EQ(event->kind, LinkEvent::Kind::kRefused);
  EXPECT_THAT(std::string(event->why.message()), HasSubstr("10.77.0.9"));
}

TEST_F(VerbsResolving, ASlowAnswerHoldsUpNobody) {
  std::mutex mutex;
  std::condition_variable may_answer;
  bool answer = false;
  open([&](ibv_pd* domain, ibv_ah_attr* attributes) {
    std::unique_lock lock(mutex);
    may_answer.wait(lock, [&] { return answer; });
    return ibv_create_ah(domain, attributes);
  });
  const PeerId slow = transport_->resolve(peer()).value();
  EXPECT_FALSE(goes_out(slow));
  EXPECT_FALSE(next_link_event(1000).has_value());
  {
    const std::lock_guard lock(mutex);
    answer = true;
  }
  may_answer.notify_all();
  while (!goes_out(slow)) {
  }
  EXPECT_EQ(transport_->resolve(peer()).value(), slow);
}

// --- Faults ----------------------------------------------------------------------------------------------------------

TEST_F(VerbsTransportTest, Fault_AFailedQueueWorksAgainWithTheSameAddress) {
  const Registered body(*sender_, 4000);
  const Descriptor before = receiver_->local_descriptor();
  for (int turn = 1; turn <= 5; ++turn) {
    TxPacket lost = packet(body.bytes(), 77);
    ASSERT_TRUE(send(lost));
    inside(*sender_).fail_queue_for_test();
    inside(*receiver_).fail_queue_for_test();
    TxToken token = kNoToken;
    ASSERT_TRUE(until([&] {
      std::array<RxPacket, 1> none;
      sender_->rx_burst(none);
      return sender_->reap(std::span(&token, 1)) == 1;
    })) << "a token for each packet, sent or not";
    EXPECT_EQ(token, 77u);
    release_all();
    // Whichever of these goes out after both have recovered arrives.
    ASSERT_TRUE(until([&] {
      TxPacket one = packet(as_byte_span("again"), kNoToken, static_cast<uint8_t>(100 + turn));
      std::array<RxPacket, 1> none;
      sender_->rx_burst(none);
      send(one);
      return !arrived_.empty() && arrived_.back().header[0] == static_cast<std::byte>(100 + turn);
    }));
    expect_nothing_lost();
    release_all();
  }
  EXPECT_EQ(receiver_->local_descriptor(), before);
  EXPECT_GE(inside(*receiver_).stats().restarts, 5u);
}

class VerbsSecondLink : public VerbsPair {
 protected:
  VerbsSecondLink() : VerbsPair("rxe1") {}
  ~VerbsSecondLink() override { set_link("up"); }
  static void set_link(const std::string& state) {
    const std::string command = "ip link set dummy1 " + state;
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test's own machine
  }
};

TEST_F(VerbsSecondLink, Fault_APortWithoutLinkIsReported) {
  EXPECT_EQ(sender_->capabilities().payload_max_bytes, 1024u - 32);
  set_link("down");
  ASSERT_TRUE(until([&] { return links_.size() >= 2; }));
  EXPECT_EQ(links_[0].kind, LinkEvent::Kind::kRefused);
  EXPECT_THAT(std::string(links_[0].why.message()), HasSubstr("rxe1 has had no link"));
  set_link("up");
  ASSERT_TRUE(until([&] {
    TxPacket one = packet(as_byte_span("back"), kNoToken);
    send(one);
    return !arrived_.empty();
  }));
}

}  // namespace
}  // namespace skua::rpc::verbs
