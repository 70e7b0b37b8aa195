// What the tests of ShardServer share: one shard, served from RocksDB or from a map in memory.
#ifndef SKUA_TESTS_KVSTORE_SERVICE_SHARD_SERVER_FIXTURE_H_
#define SKUA_TESTS_KVSTORE_SERVICE_SHARD_SERVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "kvstore/service/shard_server.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/shard/engine_testing.h"

namespace skua::kv::testing {

inline constexpr ShardId kShard{3, 1};
inline constexpr uint64_t kEpoch = 5;
inline constexpr uint64_t kRevision = 40;
inline constexpr Route kRoute{3, 1, kEpoch, kRevision};

/// One shard in RocksDB, served.
class RocksdbServerTest : public ::testing::Test {
 protected:
  explicit RocksdbServerTest(LogOptions log_options = ServerWorld::log_files(8 << 20)) {
    RocksdbOptions options;
    options.cache_bytes = 64 << 20;
    options.write_buffer_bytes = 64 << 20;
    options.clock = &kTestClock;
    engine_ = make_rocksdb_engine(options);
    world_ = std::make_unique<ServerWorld>(ShardServer::Options{}, log_options);
    world_->server().set_map_revision(kRevision);
    serve();
  }
  ~RocksdbServerTest() override {
    world_.reset();
    db_.reset();
  }

  void serve() {
    db_ = engine_->open_db(directory_.path(), kShard).value();
    world_->server().shards().expect(kShard, kEpoch);
    world_->server().shards().serve(kShard, *db_);
  }
  /// Closed and opened again: nothing is left in memory.
  void serve_again() {
    world_->server().shards().remove(kShard, [&] { db_.reset(); });
    world_->wait_for([&] { return db_ == nullptr; });
    serve();
  }

  Answer get(std::string_view key) { return world_->ask(Method::kGet, encoded_get(kRoute, key)); }
  Answer put(std::string_view key, std::string_view value, Condition condition = {}) {
    return world_->ask(Method::kPut, encoded_put(kRoute, key, value, condition));
  }

  TemporaryDirectory directory_;
  std::unique_ptr<RocksdbEngine> engine_;
  std::unique_ptr<ShardDb> db_;
  std::unique_ptr<ServerWorld> world_;
};

class LargeValuesServerTest : public RocksdbServerTest {
 protected:
  LargeValuesServerTest() : RocksdbServerTest(ServerWorld::log_files(64 << 20)) {}
};

/// One shard whose database is a map.
class ShardServerTest : public ::testing::Test {
 protected:
  explicit ShardServerTest(const ShardServer::Options& options = {}) : world_(options) {}

  void serve() {
    server_.shards().expect(kShard, kEpoch);
    server_.shards().serve(kShard, *db_);
  }

  FakeDbEngine databases_;
  std::unique_ptr<ShardDb> db_ = databases_.open_db("", kShard, RocksdbEngine::IfMissing::kCreate).value();
  ServerWorld world_;
  ShardServer& server_ = world_.server();
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_SERVICE_SHARD_SERVER_FIXTURE_H_
