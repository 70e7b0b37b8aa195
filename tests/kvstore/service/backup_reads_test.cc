// A backup of a table that is read anywhere, under a test that plays the two other members: reads are answered of what
// is committed and not about to change, as long as both of them promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "kvstore/codec/effect.h"
#include "kvstore/service/shard_server.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/quiet_replica_host.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_put;
using testing::encoded_scan;
using testing::FakeDbEngine;
using ::testing::HasSubstr;
using testing::ServerWorld;

constexpr ShardId kShard{3, 1};
constexpr Route kRoute{3, 1, 1, 40};
constexpr NodeId kPrimary = 1;
constexpr NodeId kSelf = 2;
constexpr NodeId kOther = 3;

/// The network and the disk of the replica.
struct Host final : testing::QuietReplicaHost {
  void send(ShardId, NodeId to, const ReplicaMessage& message) override { sent.emplace_back(to, message); }

  std::deque<std::pair<NodeId, ReplicaMessage>> sent;
};

/// A clock that stands still, and goes an hour and more ahead at one of the next looks, if told so.
class JumpingClock final : public MachineClock {
 public:
  [[nodiscard]] uint64_t unix_ms() const override { return testing::g_unix_ms; }
  [[nodiscard]] TimeNs boot_ns() const override {
    if (looks_left_ == 1) now_ns_ += 2 * 3600 * kSecond;
    looks_left_ = std::max(looks_left_ - 1, 0);
    return now_ns_ += kMicrosecond;
  }
  void jump_after(int looks) { looks_left_ = looks; }

 private:
  mutable TimeNs now_ns_ = kSecond;
  mutable int looks_left_ = 0;  // 0: it does not
};

ShardServer::Options options_with(ReplicaHost& host, const MachineClock& clock) {
  ShardServer::Options options;
  options.clock = &clock;
  options.replica.replica.lease.length_ns = 3600 * kSecond;
  options.replica_host = &host;
  return options;
}

std::string put_effect(std::string_view key, std::string_view value) {
  EffectHead buffer;
  ByteWriter head(buffer);
  encode_effect_head({key, as_byte_span(value), 0}, head);
  return std::string(as_string_view(head.written())).append(key).append(value);
}

class BackupReadsTest : public ::testing::Test {
 protected:
  void start(bool read_anywhere) {
    view_.epoch = view_.change = 1;
    view_.primary = kPrimary;
    view_.members = {{kPrimary, 1}, {kSelf, 1}, {kOther, 1}};
    view_.read_anywhere = read_anywhere;
    server_.shards().expect(kShard, 1);
    server_.shards().serve_replica(kShard, *db_, {kSelf, 1}, {});
    adopt(view_);
    append({"barrier"});
  }
  void adopt(const View& view) {
    server_.shards().set_view(kShard, view);
    for (const uint64_t epoch : std::exchange(host_.to_persist, {})) server_.shards().view_persisted(kShard, epoch);
  }
  void say(NodeId from, const ReplicaMessage& message, std::span<const ReplicaEntry> entries = {}) {
    ASSERT_TRUE(server_.on_replica_message(kShard, {from, 1}, message, entries).ok());
  }
  /// An entry for each payload; "barrier" is one. Nothing of it is committed yet.
  void append(const std::vector<std::string>& payloads) {
    Append append{.epoch = 1, .prev = {last_, last_ == 0 ? 0U : 1U}, .epochs = {}, .commit_index = committed_};
    std::vector<std::string> bytes;
    for (const std::string& payload : payloads) {
      EpochHistory runs({last_ + bytes.size(), last_ == 0 ? 0U : 1U});
      runs.append(1);
      bytes.push_back(payload == "barrier" ? encode_barrier(as_byte_span(encode_epoch_history(runs))) : payload);
    }
    std::vector<ReplicaEntry> entries;
    for (const std::string& payload : bytes) {
      entries.push_back({++last_, 1, 1'000'000, Durability::kSync, as_byte_span(payload)});
      append.epochs.push_back(1);
    }
    say(kPrimary, append, entries);
  }
  void commit(uint64_t index) {
    committed_ = index;
    // The log has written them first.
    world_.wait_for([&] {
      say(kPrimary, Heartbeat{1, 1, committed_});
      return server_.shards().replica(kShard)->commit_index() == index;
    });
  }
  /// Answers the heartbeats that the replica has sent to it.
  void promise(NodeId from) {
    TimeNs echo_ns = 0;
    world_.wait_for([&] {
      for (const auto& [to, message] : host_.sent) {
        const auto* heartbeat = std::get_if<Heartbeat>(&message);
        if (to == from && heartbeat != nullptr) echo_ns = heartbeat->sent_ns;
      }
      return echo_ns != 0;
    });
    say(from, HeartbeatReply{view_.epoch, echo_ns, true, {}});
  }
  void settle(std::string_view key, std::string_view value) {
    append({put_effect(key, value)});
    commit(last_);
  }
  Answer get(std::string_view key) { return world_.ask(Method::kGet, encoded_get(kRoute, key)); }
  Answer multi_get(const std::vector<std::string_view>& keys) {
    return world_.ask(Method::kMultiGet, encoded_multi_get(kRoute, keys));
  }
  Answer scan() { return world_.ask(Method::kScan, encoded_scan({.route = kRoute, .rows_max = 9, .bytes_max = 999})); }

  FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
  Host host_;
  JumpingClock clock_;
  ServerWorld world_{options_with(host_, clock_)};
  ShardServer& server_ = world_.server();
  View view_;
  uint64_t last_ = 0;
  uint64_t committed_ = 0;
};

TEST_F(BackupReadsTest, Read_AnswersWhileAllOthersPromise) {
  start(true);
  settle("k", "v");
  promise(kPrimary);
  EXPECT_EQ(get("k").status(), KvStatus::kWrongShard) << "one of them has not promised";
  EXPECT_THAT(std::string(get("k").head().text), HasSubstr("ask the shard's primary"));
  promise(kOther);
  EXPECT_EQ(get("k").value(), "v");
  EXPECT_EQ(get("nobody").status(), KvStatus::kNotFound);
  EXPECT_EQ(multi_get({"k", "nobody"}).status(), KvStatus::kOk);
  EXPECT_EQ(scan().status(), KvStatus::kOk);
  EXPECT_EQ(server_.stats().requests.backup_reads, 4U);
}

/// The request is admitted while the promises hold, and they have lapsed when its key has been looked up.
TEST_F(BackupReadsTest, Read_IsNotAnsweredIfThePromisesLapseMeanwhile) {
  start(true);
  settle("k", "v");
  bool refused_after_the_lookup = false;
  for (int looks = 1; looks < 20 && !refused_after_the_lookup; ++looks) {
    host_.sent.clear();
    world_.pass(kSecond);  // heartbeats
    promise(kPrimary);
    promise(kOther);
    ASSERT_EQ(get("k").value(), "v");
    clock_.jump_after(looks);
    const Answer answer = get("k");
    clock_.jump_after(0);
    refused_after_the_lookup = answer.status() == KvStatus::kWrongShard &&
                               answer.head().text.find("may have another primary") != std::string_view::npos;
  }
  EXPECT_TRUE(refused_after_the_lookup);
}

TEST_F(BackupReadsTest, Read_OfAKeyWithAWriteUnderWayIsThePrimarys) {
  start(true);
  settle("k", "old");
  settle("other", "value");
  promise(kPrimary);
  promise(kOther);
  append({put_effect("k", "new")});
  EXPECT_EQ(get("k").status(), KvStatus::kUnavailable);
  EXPECT_EQ(multi_get({"other", "k"}).status(), KvStatus::kUnavailable);
  EXPECT_EQ(scan().status(), KvStatus::kUnavailable);
  EXPECT_EQ(get("other").value(), "value");
  EXPECT_EQ(multi_get({"other"}).status(), KvStatus::kOk);
  commit(last_);
  EXPECT_EQ(get("k").value(), "new");
  EXPECT_EQ(scan().status(), KvStatus::kOk);
}

TEST_F(BackupReadsTest, Read_AsksForNoMoreThanTheBackupHas) {
  start(true);
  settle("k", "v");
  promise(kPrimary);
  promise(kOther);
  HeadBuffer head;
  const auto at_least = [&](uint64_t index) {
    const GetRequest request{kRoute, "k", index, {}};
    return world_.ask(Method::kGet, as_string_view(encode_get(request, head).value()));
  };
  EXPECT_EQ(at_least(last_).value(), "v");
  EXPECT_EQ(at_least(last_ + 1).status(), KvStatus::kUnavailable) << "the primary may have it";
}

TEST_F(BackupReadsTest, Read_NotWithoutTheTablesConsent) {
  start(false);
  settle("k", "v");
  EXPECT_EQ(get("k").status(), KvStatus::kWrongShard);
  EXPECT_EQ(server_.stats().requests.backup_reads, 0U);
}

TEST_F(BackupReadsTest, Read_APromiseIsOfOneEpoch) {
  start(true);
  settle("k", "v");
  promise(kPrimary);
  promise(kOther);
  ASSERT_EQ(get("k").status(), KvStatus::kOk);
  // Between this epoch and the next this replica may have been no member, and others may have written.
  host_.sent.clear();
  view_.epoch = view_.change = 2;
  adopt(view_);
  Route route = kRoute;
  route.epoch = 2;
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(route, "k")).status(), KvStatus::kWrongShard);
  promise(kPrimary);
  promise(kOther);
  EXPECT_EQ(world_.ask(Method::kGet, encoded_get(route, "k")).value(), "v");
}

TEST_F(BackupReadsTest, Write_IsRefused) {
  start(true);
  settle("k", "v");
  promise(kPrimary);
  promise(kOther);
  EXPECT_EQ(world_.ask(Method::kPut, encoded_put(kRoute, "k", "mine")).status(), KvStatus::kWrongShard);
}

}  // namespace
}  // namespace skua::kv
