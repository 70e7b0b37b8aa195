// How often the bytes of a value are copied on their way from the memory tier to the client's hands, over every
// transport.
//
//    memory tier --(1) reply --(2) transport, server --- wire --- transport, client (3) --(4) message --> client
//
//    (1) RequestStats::value_copied_bytes   (2) TransportCounters::tx_copied_bytes
//    (3) TransportCounters::rx_copied_bytes (4) EndpointCounters::rx_copied_bytes
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kvstore/codec/methods.h"
#include "kvstore/codec/request.h"
#include "kvstore/log/log_recovery.h"
#include "kvstore/service/shard_server.h"
#include "tests/conformance/fabric.h"
#include "tests/kvstore/log/sim_device.h"
#include "tests/kvstore/shard/engine_world.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using rpc::conformance::all_fabrics;
using rpc::conformance::Fabric;
using rpc::conformance::FabricKind;

constexpr ShardId kShard{3, 1};
constexpr Route kRoute{3, 1, 5, 40};
constexpr size_t kValueBytes = 4096;
constexpr uint64_t kGets = 100;

LogOptions log_options() {
  LogOptions options;
  options.segment_bytes = 4 << 20;
  options.group_bytes_max = 2 << 20;
  options.reserve_segments = 1;
  options.spares_at_open = 1;
  return options;
}

/// A server of one shard and a client, both polled by the test's thread.
class Store {
 public:
  explicit Store(Fabric& fabric)
      : fabric_(fabric), server_transport_(fabric.make_transport(1)), client_transport_(fabric.make_transport(0)) {
    rpc::EndpointOptions options;
    options.protocol.connect_timeout_ns = 20 * kSecond;
    endpoint_ = std::make_unique<rpc::Endpoint>(*server_transport_, fabric.clock(), options);
    client_ = std::make_unique<rpc::Endpoint>(*client_transport_, fabric.clock(), options);
    ShardServer::Options server;
    server.engine.memory.budget_bytes = 32 << 20;
    server.engine.memory.try_huge_pages = false;
    auto device = std::make_unique<testing::BorrowedDevice>(device_, gate_);
    const auto recovery = LogRecovery::scan(*device, log_options().identity, [](const LogProgress&) {}).value();
    auto log = Log::open(*device, log_options(), *recovery).value();
    server_ = ShardServer::create(*endpoint_, readers_, server, {std::move(device), std::move(log)}).value();
    server_->engine().bind_to_this_thread();
    db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
    server_->set_map_revision(kRoute.map_revision);
    server_->shards().expect(kShard, kRoute.epoch);
    server_->shards().serve(kShard, *db_);
    session_ = client_->connect(endpoint_->local_descriptor()).value();
  }

  ~Store() {
    bool drained = false;
    server_->drain([&] { drained = true; });
    run_until([&] { return drained; });
    server_->engine().stop();
    readers_.stop();
    client_.reset();
    endpoint_.reset();
  }

  /// The reply's bytes.
  std::string ask(Method method, std::string_view request) {
    std::string reply;
    bool done = false;
    const auto call =
        client_->call(session_, static_cast<rpc::MethodId>(method), rpc::MessagePtr::copy_of(as_byte_span(request)),
                      {.timeout_ns = 60 * kSecond}, [&](rpc::CallResult&& result) {
                        EXPECT_TRUE(result.status.ok()) << result.status;
                        reply = as_string_view(result.response.bytes());
                        done = true;
                      });
    EXPECT_TRUE(call.ok()) << call.status();
    run_until([&] { return done || !call.ok(); });
    return reply;
  }

  std::string get(std::string_view key) {
    HeadBuffer head;
    const std::string reply = ask(Method::kGet, as_string_view(encode_get({kRoute, key}, head).value()));
    const auto decoded = decode_get_reply(as_byte_span(reply));
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return decoded.ok() ? std::string(as_string_view(decoded->value)) : "";
  }

  void put(std::string_view key, std::string_view value) {
    HeadBuffer head;
    const MutationRequest request{kRoute, mutations::put(key, as_byte_span(value))};
    const auto bytes = encode_mutation_head(request, head).value();
    ask(Method::kPut, std::string(as_string_view(bytes)).append(value));
  }

  struct Copied {
    uint64_t into_replies = 0;
    uint64_t by_server_transport = 0;
    uint64_t by_client_transport = 0;
    uint64_t into_messages = 0;
    uint64_t into_memory = 0;
  };
  [[nodiscard]] Copied copied() const {
    const WorkerStats stats = server_->stats();
    return {stats.requests.value_copied_bytes, server_transport_->counters().tx_copied_bytes,
            client_transport_->counters().rx_copied_bytes, client_->counters().rx_copied_bytes,
            stats.storage.memory.value_bytes_copied};
  }
  [[nodiscard]] uint64_t sent_in_place() const { return server_transport_->counters().tx_zero_copy_bytes; }
  [[nodiscard]] size_t packet_bytes() const { return client_transport_->capabilities().payload_max_bytes; }
  [[nodiscard]] uint64_t fetches() const { return server_->stats().storage.fetches; }

 private:
  template <typename Done>
  void run_until(const Done& done) {
    const TimeNs limit = fabric_.clock().now_ns() + 60 * kSecond;
    while (!done() && fabric_.clock().now_ns() < limit) {
      client_->poll();
      endpoint_->poll();
      server_->tick();
      fabric_.let_time_pass(std::min(client_->next_timer_ns(), endpoint_->next_timer_ns()));
    }
    EXPECT_TRUE(done());
  }

  Fabric& fabric_;
  std::unique_ptr<rpc::Transport> server_transport_;
  std::unique_ptr<rpc::Transport> client_transport_;
  sim::SimDevice device_{7, uint64_t{1} << 30};
  testing::BorrowedDevice::Gate gate_;
  testing::FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_;
  ReaderPool readers_{{.threads = 1}};
  std::unique_ptr<ShardServer> server_;  // outlives its endpoint
  std::unique_ptr<rpc::Endpoint> endpoint_;
  std::unique_ptr<rpc::Endpoint> client_;
  rpc::SessionId session_;
};

class Copies : public ::testing::TestWithParam<FabricKind> {};

TEST_P(Copies, GetHitOf4KiB_NoneInTheServer) {
  std::string why_not;
  const auto fabric = GetParam().make(why_not);
  if (fabric == nullptr) GTEST_SKIP() << GetParam().name << " cannot run here: " << why_not;
  Store store(*fabric);
  const std::string value(kValueBytes, 'v');
  store.put("key", value);
  ASSERT_EQ(store.get("key"), value);  // the path is known, its packets have their size
  const Store::Copied before = store.copied();
  const uint64_t in_place = store.sent_in_place();
  for (uint64_t i = 0; i < kGets; ++i) ASSERT_EQ(store.get("key"), value);
  const Store::Copied after = store.copied();
  EXPECT_EQ(store.fetches(), 0u) << "they are no hits";
  EXPECT_EQ(after.into_replies, before.into_replies);
  EXPECT_EQ(after.into_memory, before.into_memory);
  // The reply's head is copied. So is the rest of a value that fills a packet but for a little: cheaper than a piece of
  // its own.
  const size_t rest = (kReplyHeaderBytes + kValueBytes) % store.packet_bytes();
  const size_t copied_rest = store.packet_bytes() < kValueBytes && rest < rpc::Message::kHeadMax ? rest : 0;
  EXPECT_LE(after.by_server_transport - before.by_server_transport, kGets * (kReplyHeaderBytes + copied_rest) + 1000);
  EXPECT_GE(store.sent_in_place() - in_place, kGets * (kValueBytes - copied_rest));

  // The client has the reply where the transport put it, if it came in one packet; else its pieces are joined, once.
  const uint64_t joined = after.into_messages - before.into_messages;
  const uint64_t taken = after.by_client_transport - before.by_client_transport;
  RecordProperty("packet_bytes", std::to_string(store.packet_bytes()));
  RecordProperty("server_head_bytes_per_get",
                 std::to_string((after.by_server_transport - before.by_server_transport) / kGets));
  RecordProperty("client_joined_bytes_per_get", std::to_string(joined / kGets));
  RecordProperty("client_transport_bytes_per_get", std::to_string(taken / kGets));
  if (store.packet_bytes() >= kValueBytes + rpc::Message::kHeadMax) {
    EXPECT_EQ(joined, 0u);
  }
  EXPECT_LE(joined + taken, kGets * (kValueBytes + rpc::Message::kHeadMax));
}

/// Those that go by real time, as the engine's threads do, and lose nothing: what is sent again is counted again. Not
/// the sealed ones: sealing copies what is sent, once.
std::vector<FabricKind> real_ones() {
  std::vector<FabricKind> kinds = all_fabrics();
  std::erase_if(kinds, [](const FabricKind& kind) {
    return kind.name.starts_with("Sim") || kind.name.starts_with("Sealed") || kind.name.ends_with("Lossy");
  });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Transports, Copies, ::testing::ValuesIn(real_ones()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace skua::kv
