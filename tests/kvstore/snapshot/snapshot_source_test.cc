#include "kvstore/snapshot/snapshot_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/snapshot/snapshot_pull.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/peers/peer_world.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;
using testing::PeerNode;
using testing::PeerWorld;

constexpr ShardId kShard = {7, 3};
constexpr FetchChunk kBegin = {7, 3, 0, 0, 0, 100};

class SnapshotSourceTest : public ::testing::Test {
 protected:
  SnapshotSourceTest() {
    options_.directory = root_ + "/snapshots";
    options_.open_max = 2;
    files_ = {{"CURRENT", "MANIFEST-1\n"}, {"000001.sst", std::string(250, 's')}, {"empty", ""}};
  }
  ~SnapshotSourceTest() override { fs::remove_all(root_); }

  std::unique_ptr<SnapshotSource> create() {
    return SnapshotSource::create(options_,
                                  [this](ShardId shard, const std::string& path) { return export_to(shard, path); })
        .value();
  }
  absl::StatusOr<SnapshotSource::Exported> export_to(ShardId shard, const std::string& path) {
    ++exports_;
    if (shard.table_id != kShard.table_id) return absl::NotFoundError("no such shard here");
    fs::create_directory(path);
    SnapshotSource::Exported exported{.end = {50, 4}, .files = {}};
    for (const auto& [name, bytes] : files_) {
      std::ofstream(path + "/" + name, std::ios::binary) << bytes;
      exported.files.push_back(name);
    }
    return exported;
  }
  [[nodiscard]] size_t directories() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(options_.directory), fs::directory_iterator()));
  }

  const std::string root_ = ::testing::TempDir() + "skua-snapshot-source-" + std::to_string(::getpid());
  SnapshotSource::Options options_;
  std::map<std::string, std::string> files_;
  int exports_ = 0;
};

TEST_F(SnapshotSourceTest, Fetch_PiecesOfFiles) {
  const auto source = create();
  const std::string first = source->fetch(kBegin, 0).value();
  const Chunk chunk = decode_chunk(as_byte_span(first)).value();
  EXPECT_EQ(chunk.end, (EntryId{50, 4}));
  EXPECT_EQ(chunk.files, 3U);
  EXPECT_EQ(chunk.name, "000001.sst");
  EXPECT_EQ(chunk.file_bytes, 250U);
  EXPECT_EQ(as_string_view(chunk.data), std::string(100, 's'));
  EXPECT_EQ(chunk.crc32c, crc32c(chunk.data));

  const std::string last = source->fetch({7, 3, chunk.snapshot, 0, 200, 100}, 1).value();
  EXPECT_EQ(decode_chunk(as_byte_span(last))->data.size(), 50U);
  const std::string empty = source->fetch({7, 3, chunk.snapshot, 2, 0, 100}, 1).value();
  EXPECT_EQ(decode_chunk(as_byte_span(empty))->file_bytes, 0U);
  EXPECT_EQ(exports_, 1);

  EXPECT_EQ(source->fetch({7, 3, chunk.snapshot, 3, 0, 1}, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(source->fetch({7, 3, chunk.snapshot, 0, 251, 1}, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::IsNotFound(source->fetch({7, 4, chunk.snapshot, 0, 0, 1}, 1).status()));  // another shard's
  EXPECT_TRUE(absl::IsNotFound(source->fetch({7, 3, chunk.snapshot + 1, 0, 0, 1}, 1).status()));
}

TEST_F(SnapshotSourceTest, Begin_SharesWhatIsYoung) {
  const auto source = create();
  const auto begin = [&](TimeNs now) {
    const std::string bytes = source->fetch(kBegin, now).value();
    return decode_chunk(as_byte_span(bytes))->snapshot;
  };
  const uint64_t first = begin(0);
  EXPECT_EQ(begin(options_.share_max_ns), first);
  EXPECT_NE(begin(options_.share_max_ns + 1), first);
  EXPECT_EQ(exports_, 2);
}

TEST_F(SnapshotSourceTest, Begin_IsBoundedInNumber) {
  const auto source = create();
  FetchChunk begin = kBegin;
  for (begin.shard = 0; begin.shard < 2; ++begin.shard) EXPECT_TRUE(source->fetch(begin, 0).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(source->fetch(begin, 0).status()));
  source->sweep(options_.idle_max_ns + 1);
  EXPECT_EQ(source->open_count(), 0U);
  EXPECT_TRUE(source->fetch(begin, options_.idle_max_ns + 1).ok());
}

/// An export keeps a reader of the node busy.
TEST_F(SnapshotSourceTest, Begin_OneIsMadeAtATime) {
  std::unique_ptr<SnapshotSource> source;
  absl::Status other;
  source = SnapshotSource::create(options_, [&](ShardId shard, const std::string& path) {
             if (shard == kShard) other = source->fetch({7, 4, 0, 0, 0, 100}, 0).status();
             return export_to(shard, path);
           }).value();
  EXPECT_TRUE(source->fetch(kBegin, 0).ok());
  EXPECT_TRUE(absl::IsUnavailable(other)) << other;
  EXPECT_EQ(exports_, 1);
  EXPECT_TRUE(source->fetch({7, 4, 0, 0, 0, 100}, 0).ok());
}

TEST_F(SnapshotSourceTest, Begin_IdleOnesMakeRoom) {
  const auto source = create();
  FetchChunk begin = kBegin;
  for (begin.shard = 0; begin.shard < 2; ++begin.shard) EXPECT_TRUE(source->fetch(begin, begin.shard).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(source->fetch(begin, options_.evict_idle_ns - 1).status()));
  EXPECT_TRUE(source->fetch(begin, options_.evict_idle_ns).ok());
  EXPECT_EQ(source->open_count(), 2U);
  EXPECT_EQ(directories(), 2U);
  // The newest one of a shard takes the place of its older ones.
  EXPECT_TRUE(source->fetch(begin, options_.evict_idle_ns + 1).ok());  // begun
  EXPECT_TRUE(source->fetch(begin, 3 * options_.evict_idle_ns).ok());
  EXPECT_EQ(exports_, 4);
  EXPECT_EQ(source->open_count(), 2U);
}

/// The learner that asked for it has given up waiting, and asks again.
TEST_F(SnapshotSourceTest, Begin_OneThatTookLongIsNotMadeAgain) {
  TimeNs now = 0;
  options_.clock = [this, &now] { return now += 2 * options_.idle_max_ns; };
  const auto source = create();
  EXPECT_TRUE(source->fetch(kBegin, 0).ok());
  source->sweep(now + 1);
  EXPECT_TRUE(source->fetch(kBegin, now + options_.share_max_ns + 1).ok());
  EXPECT_EQ(exports_, 1);
}

TEST_F(SnapshotSourceTest, Hold_LivesAsLongAsTheSnapshot) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = held;
  const auto source = SnapshotSource::create(options_, [&](ShardId shard, const std::string& path) {
                        auto exported = export_to(shard, path);
                        exported->hold = std::move(held);
                        return exported;
                      }).value();
  EXPECT_TRUE(source->fetch(kBegin, 0).ok());
  EXPECT_FALSE(alive.expired());
  source->sweep(options_.idle_max_ns + 1);
  EXPECT_TRUE(alive.expired());
}

/// A copy of a large shard takes hours.
TEST_F(SnapshotSourceTest, Sweep_RemovesWhatIsIdleButNeverWhatIsInUse) {
  const auto source = create();
  TimeNs now = 0;
  const std::string bytes = source->fetch(kBegin, now).value();
  const uint64_t id = decode_chunk(as_byte_span(bytes))->snapshot;
  EXPECT_EQ(directories(), 1U);
  for (int i = 0; i < 1000; ++i) {
    now += options_.idle_max_ns;
    source->sweep(now);
    EXPECT_TRUE(source->fetch({7, 3, id, 0, 0, 1}, now).ok());
  }
  source->sweep(now + options_.idle_max_ns + 1);
  EXPECT_TRUE(absl::IsNotFound(source->fetch({7, 3, id, 0, 0, 1}, now).status()));
  EXPECT_EQ(directories(), 0U);
}

TEST_F(SnapshotSourceTest, Export_ThatDoesNotEndIsToldOf) {
  std::unique_ptr<SnapshotSource> source;
  std::vector<std::string> told;
  source = SnapshotSource::create(options_, [&](ShardId shard, const std::string& path) {
             told = {source->slow_exports(options_.slow_ns), source->slow_exports(options_.slow_ns + 1)};
             return export_to(shard, path);
           }).value();
  ASSERT_TRUE(source->fetch(kBegin, 1).ok());
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], "");
  EXPECT_NE(told[1].find("shard 7-3"), std::string::npos);
  EXPECT_EQ(source->slow_exports(2 * options_.slow_ns), "");
}

TEST_F(SnapshotSourceTest, Export_ThatFailsLeavesNothing) {
  const auto source = create();
  FetchChunk begin = kBegin;
  begin.table = 8;
  EXPECT_TRUE(absl::IsNotFound(source->fetch(begin, 0).status()));
  EXPECT_EQ(source->open_count(), 0U);
  EXPECT_EQ(directories(), 0U);
}

TEST_F(SnapshotSourceTest, Create_RemovesWhatAnEarlierLifeLeft) {
  fs::create_directories(options_.directory + "/7-3-99");
  const auto source = create();
  EXPECT_EQ(directories(), 0U);
}

TEST_F(SnapshotSourceTest, File_ThatShrankIsAnError) {
  const auto source = create();
  const std::string bytes = source->fetch(kBegin, 0).value();
  const uint64_t id = decode_chunk(as_byte_span(bytes))->snapshot;
  fs::resize_file(options_.directory + "/7-3-" + std::to_string(id) + "/000001.sst", 10);
  EXPECT_FALSE(source->fetch({7, 3, id, 0, 0, 100}, 0).ok());
}

/// A learner that writes into memory.
struct Learner {
  Learner(PeerWorld& world, const SnapshotPullOptions& options)
      : world(world), pull(options, kShard, world.network.now_ns()) {}

  void step() {
    std::vector<SnapshotPull::Request> requests;
    pull.poll(world.network.now_ns(), requests);
    for (const auto& request : requests) {
      std::array<std::byte, kFetchChunkBytes> buffer;
      const uint64_t number = request.number;
      const bool sent = world.node(0).links().call(
          PeerNode::address(1), Method::kFetchChunk,
          rpc::MessagePtr::copy_of(encode_fetch_chunk(request.fetch, buffer).value()), kSecond,
          [this, number](rpc::CallResult&& result) { on_answer(number, std::move(result)); });
      if (!sent) pull.on_failed(number, absl::UnavailableError("no link"), world.network.now_ns());
    }
  }
  void on_answer(uint64_t number, rpc::CallResult&& result) {
    const TimeNs now = world.network.now_ns();
    const auto chunk = result.status.ok() ? decode_chunk(result.response.bytes()) : result.status;
    if (!chunk.ok()) return pull.on_failed(number, chunk.status(), now);
    const uint64_t before = pull.attempt();
    if (pull.on_chunk(number, *chunk, now) == SnapshotPull::Taken::kWrite) {
      std::string& file = files[std::string(chunk->name)];
      file.resize(std::max<size_t>(file.size(), chunk->offset + chunk->data.size()));
      copy_bytes(reinterpret_cast<std::byte*>(file.data()) + chunk->offset, chunk->data);
      EXPECT_TRUE(pull.written(number));
    }
    if (pull.attempt() != before) files.clear();
  }

  PeerWorld& world;
  SnapshotPull pull;
  std::map<std::string, std::string> files;
};

TEST_F(SnapshotSourceTest, Shard_TravelsOverALossyNetwork) {
  Rng rng(1);
  for (int i = 0; i < 5; ++i) {
    std::string bytes(rng.below(200'000), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.next());
    files_["large" + std::to_string(i)] = bytes;
  }
  PeerWorld world(2);
  ReaderPool readers({.threads = 0});
  auto source = create();
  SnapshotService service(world.node(1).endpoint(), world.node(1).links(), readers, *source,
                          [](ShardId, PeerAddress) { return absl::OkStatus(); });
  world.network.set_faults({.loss = 0.02, .duplicate = 0.02, .corrupt = 0.01, .reorder = 0.05});
  SnapshotPullOptions options;
  options.chunk_bytes = 20'000;
  Learner learner(world, options);
  for (int i = 0; i < 100'000 && !learner.pull.complete(); ++i) {
    learner.step();
    while (readers.step()) {
    }
    world.run_for(kMillisecond);
  }
  ASSERT_TRUE(learner.pull.complete());
  EXPECT_EQ(learner.files, files_);
  EXPECT_EQ(learner.pull.end(), (EntryId{50, 4}));
  EXPECT_EQ(exports_, 1);
  world.network.set_faults({});
  world.expect_balance();
}

TEST_F(SnapshotSourceTest, Service_RefusesStrangersAndJunk) {
  PeerWorld world(2);
  ReaderPool readers({.threads = 0});
  auto source = create();
  absl::Status allowed = absl::PermissionDeniedError("no replica of it there");
  SnapshotService service(world.node(1).endpoint(), world.node(1).links(), readers, *source,
                          [&](ShardId shard, PeerAddress from) {
                            EXPECT_EQ(shard, kShard);
                            EXPECT_EQ(from, PeerNode::address(0));
                            return allowed;
                          });
  ASSERT_TRUE(world.connect(0, 1));
  // Until the other node has said that the session is its own, nothing is served.
  ASSERT_TRUE(world.node(0).send(world.node(1), Release{1}));
  ASSERT_TRUE(world.run_until([&] { return world.node(1).received.size() == 1; }));
  absl::Status status;
  int answers = 0;
  const auto ask = [&](std::string_view bytes) {
    const int before = answers;
    EXPECT_TRUE(world.node(0).links().call(PeerNode::address(1), Method::kFetchChunk,
                                           rpc::MessagePtr::copy_of(as_byte_span(bytes)), kSecond,
                                           [&](rpc::CallResult&& result) {
                                             status = result.status;
                                             ++answers;
                                           }));
    EXPECT_TRUE(world.run_until([&] { return answers > before; }));
    return status.code();
  };
  EXPECT_EQ(ask("junk"), absl::StatusCode::kInvalidArgument);
  std::array<std::byte, kFetchChunkBytes> buffer;
  const std::string begin(as_string_view(encode_fetch_chunk(kBegin, buffer).value()));
  EXPECT_EQ(ask(begin), absl::StatusCode::kPermissionDenied) << "a node of the cluster, but none that has the shard";
  allowed = absl::OkStatus();
  world.node(1).links().drop_peer(PeerNode::id(0));
  EXPECT_EQ(ask(begin), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(exports_, 0);
}

}  // namespace
}  // namespace skua::kv
