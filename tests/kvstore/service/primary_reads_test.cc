// Reads of a shard whose primary has no promise of the other member, and so asks it before each answer. The test plays
// the other member.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvstore/service/shard_server.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/quiet_replica_host.h"
#include "tests/kvstore/shard/engine_world.h"
#include "tests/kvstore/shard/forwarding_db.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::ServerWorld;

constexpr ShardId kShard{3, 1};
constexpr Route kRoute{3, 1, 1, 40};
constexpr NodeId kSelf = 2;
constexpr NodeId kOther = 3;

/// Takes what the primary says.
struct HostOfPrimary final : testing::QuietReplicaHost {
  void send(ShardId, NodeId, const ReplicaMessage& message) override {
    if (const auto* confirm = std::get_if<Confirm>(&message)) round = confirm->round;
  }

  uint64_t round = 0;  // the last Confirm
};

/// A database that knows how many values of it are pinned.
class PinsDb final : public testing::ForwardingDb {
 public:
  using testing::ForwardingDb::ForwardingDb;

  [[nodiscard]] int pins() const { return pins_; }
  [[nodiscard]] int reads() const { return reads_; }

  [[nodiscard]] absl::Status get(std::string_view key, PinnedValue& out) override {
    auto pinned = std::make_unique<Pinned>();
    if (absl::Status got = ForwardingDb::get(key, pinned->value); !got.ok()) return got;
    pinned->pins = &pins_;
    ++pins_;
    ++reads_;
    const ByteSpan bytes = pinned->value.bytes();
    const uint64_t version = pinned->value.version();
    out = PinnedValue(bytes, version, pinned.release(), [](void* owner) {
      const std::unique_ptr<Pinned> ended(static_cast<Pinned*>(owner));
      --*ended->pins;
    });
    return absl::OkStatus();
  }

 private:
  struct Pinned {
    PinnedValue value;
    std::atomic<int>* pins = nullptr;
  };

  std::atomic<int> pins_ = 0;
  std::atomic<int> reads_ = 0;
};

ShardServer::Options options_with(ReplicaHost& host) {
  ShardServer::Options options;
  options.replica_host = &host;
  return options;
}

class PrimaryReadsTest : public ::testing::Test {
 protected:
  PrimaryReadsTest() {
    add_row("k", value_);
    add_row("large", large_);
    server_.shards().expect(kShard, 1);
    server_.shards().serve_replica(kShard, db_, {kSelf, 1}, {});
    View view;
    view.epoch = view.change = 1;
    view.primary = kSelf;
    view.members = {{kSelf, 1}, {kOther, 1}};
    server_.shards().set_view(kShard, view);
    for (const uint64_t epoch : std::exchange(host_.to_persist, {})) server_.shards().view_persisted(kShard, epoch);
    say(TailReport{1, {}, {}, 0, 0});
    world_.wait_for([this] {
      say(AppendReply{1, LogLevels::all(server_.shards().replica(kShard)->last_index())});
      return server_.shards().find(kShard)->replica->is_serving();
    });
  }
  void say(const ReplicaMessage& message) {
    ASSERT_TRUE(server_.on_replica_message(kShard, {kOther, 1}, message, {}).ok());
  }
  /// A row that only the database has. Before the shard is served.
  void add_row(std::string_view key, std::string_view value) {
    const AppliedEffect effect{key, as_byte_span(value), 1};
    ASSERT_TRUE(db_.apply({&effect, 1}, 0).ok());
  }
  static bool is_answered(const Answer& answer) { return !absl::IsUnknown(answer.rpc); }
  /// Sends a read. Returns when its result waits for the other member.
  std::shared_ptr<Answer> send_waiting(Method method, std::string_view request) {
    host_.round = 0;
    auto answer = world_.send(method, request);
    world_.wait_for([&] { return host_.round != 0 || is_answered(*answer); });
    EXPECT_FALSE(is_answered(*answer));
    return answer;
  }
  void confirm() { say(ConfirmReply{1, host_.round}); }

  const std::string value_ = std::string(5000, 'v');
  const std::string large_ = std::string(8 << 20, 'l');  // a caller's whole share of the memory for replies
  testing::FakeDbEngine databases_;
  PinsDb db_{databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value()};
  HostOfPrimary host_;
  ServerWorld world_{options_with(host_)};
  ShardServer& server_ = world_.server();
};

TEST_F(PrimaryReadsTest, AMultiGetFromTheDiskPinsNothingWhileItWaits) {
  const auto answer = send_waiting(Method::kMultiGet, encoded_multi_get(kRoute, {"k", "none"}));
  EXPECT_EQ(db_.reads(), 1);
  EXPECT_EQ(db_.pins(), 0);
  confirm();
  world_.wait_for_answers();
  auto reply = decode_multi_get_reply(as_byte_span(answer->bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(as_string_view(reply->entries.next()->value), value_);
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kNotFound);
}

TEST_F(PrimaryReadsTest, AResultThatWaitsCountsForItsCallersMemory) {
  const auto waits = send_waiting(Method::kGet, encoded_get(kRoute, "large"));
  const auto refused = world_.send(Method::kMultiGet, encoded_multi_get(kRoute, {"k"}));
  world_.wait_for([&] { return is_answered(*refused); });
  EXPECT_EQ(refused->status(), KvStatus::kResourceExhausted);
  EXPECT_FALSE(is_answered(*waits));
  confirm();
  world_.wait_for_answers();
  EXPECT_TRUE(waits->value() == large_) << "its share is the reply's now";
}

}  // namespace
}  // namespace skua::kv
