#include "kvstore/snapshot/snapshot_pull.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/crc32c.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// A source, as a struct.
struct Source {
  uint64_t snapshot = 100;
  EntryId end = {50, 3};
  std::vector<std::pair<std::string, std::string>> files;  // name, bytes

  [[nodiscard]] absl::StatusOr<Chunk> answer(const FetchChunk& fetch) const {
    if (fetch.snapshot != 0 && fetch.snapshot != snapshot) return absl::NotFoundError("no such snapshot");
    const auto& [name, bytes] = files[fetch.file];
    const std::string_view data = std::string_view(bytes).substr(fetch.offset, fetch.bytes_max);
    return Chunk{.snapshot = snapshot,
                 .end = end,
                 .files = static_cast<uint32_t>(files.size()),
                 .file_bytes = bytes.size(),
                 .offset = fetch.offset,
                 .crc32c = crc32c(as_byte_span(data)),
                 .name = name,
                 .data = as_byte_span(data)};
  }
};

Source random_source(Rng& rng, uint64_t snapshot) {
  Source source{.snapshot = snapshot, .end = {rng.next(), rng.next()}, .files = {}};
  for (uint64_t i = rng.between(1, 12); i > 0; --i) {
    std::string bytes(rng.chance(0.2) ? 0 : rng.below(5000), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.next());
    source.files.emplace_back("file" + std::to_string(i), std::move(bytes));
  }
  return source;
}

SnapshotPullOptions small_pieces() {
  SnapshotPullOptions options;
  options.chunk_bytes = 100;
  options.bytes_per_s = 1'000'000;
  options.burst_bytes = 1000;
  return options;
}

/// A learner's files, and the time.
struct Learner {
  explicit Learner(const SnapshotPullOptions& options) : pull(options, {7, 3}, 0) {}

  void write(const Chunk& chunk) {
    std::string& file = files[std::string(chunk.name)];
    if (file.size() < chunk.offset + chunk.data.size()) file.resize(chunk.offset + chunk.data.size());
    std::copy(chunk.data.begin(), chunk.data.end(), reinterpret_cast<std::byte*>(file.data()) + chunk.offset);
  }
  /// A chunk comes and is written at once.
  void take(uint64_t number, const Chunk& chunk) {
    const uint64_t before = pull.attempt();
    if (pull.on_chunk(number, chunk, now) == SnapshotPull::Taken::kWrite) {
      write(chunk);
      EXPECT_TRUE(pull.written(number));
    }
    if (pull.attempt() != before) files.clear();
  }
  void poll() { pull.poll(now, requests); }
  void answer_all(const Source& source) {
    for (const auto& request : std::exchange(requests, {})) take(request.number, source.answer(request.fetch).value());
  }
  /// With nothing going wrong.
  void run(const Source& source) {
    for (int i = 0; i < 100'000 && !pull.complete(); ++i) {
      poll();
      if (requests.empty()) {
        const TimeNs next = pull.wake_at();
        ASSERT_NE(next, kTimeNever);
        ASSERT_GT(next, now);
        now = next;
      }
      answer_all(source);
    }
  }
  void expect_all(const Source& source) const {
    EXPECT_TRUE(pull.complete());
    EXPECT_EQ(pull.end(), source.end);
    EXPECT_EQ(files.size(), source.files.size());
    for (const auto& [name, bytes] : source.files) {
      const auto found = files.find(name);
      ASSERT_NE(found, files.end()) << name;
      EXPECT_EQ(found->second, bytes) << name;
    }
  }

  TimeNs now = 0;
  SnapshotPull pull;
  std::vector<SnapshotPull::Request> requests;
  std::map<std::string, std::string> files;
};

TEST(SnapshotPullTest, Pull_BeginsWithOnePiece) {
  Learner learner(small_pieces());
  learner.poll();
  ASSERT_EQ(learner.requests.size(), 1U);
  EXPECT_EQ(learner.requests[0].fetch, (FetchChunk{7, 3, 0, 0, 0, 100}));
  EXPECT_EQ(learner.pull.wake_at(), kTimeNever);  // the answer comes first
  learner.poll();
  EXPECT_EQ(learner.requests.size(), 1U);
}

TEST(SnapshotPullTest, Pull_AllFilesAlsoEmptyOnes) {
  const Source source{.files = {{"a", std::string(250, 'a')}, {"empty", ""}, {"b", "b"}, {"c", std::string(100, 'c')}}};
  Learner learner(small_pieces());
  learner.run(source);
  learner.expect_all(source);
  EXPECT_EQ(learner.pull.counters().bytes, 351U);
  EXPECT_EQ(learner.pull.counters().requests, 6U);
  EXPECT_EQ(learner.pull.attempt(), 1U);
  EXPECT_EQ(learner.pull.wake_at(), kTimeNever);
}

TEST(SnapshotPullTest, UnderWay_IsBoundedUntilWritten) {
  const Source source{.files = {{"a", std::string(5000, 'a')}}};
  Learner learner(small_pieces());
  learner.poll();
  learner.answer_all(source);
  learner.poll();
  EXPECT_EQ(learner.requests.size(), 4U);
  const auto requests = std::exchange(learner.requests, {});
  for (const auto& request : requests) {
    EXPECT_EQ(learner.pull.on_chunk(request.number, source.answer(request.fetch).value(), 0),
              SnapshotPull::Taken::kWrite);
  }
  learner.poll();
  EXPECT_TRUE(learner.requests.empty());
  EXPECT_TRUE(learner.pull.written(requests[0].number));
  EXPECT_FALSE(learner.pull.written(requests[0].number));
  learner.poll();
  EXPECT_EQ(learner.requests.size(), 1U);
}

TEST(SnapshotPullTest, Rate_IsKeptAfterTheBurst) {
  const Source source{.files = {{"a", std::string(100'000, 'a')}}};
  Learner learner(small_pieces());  // 1 MB/s
  learner.run(source);
  learner.expect_all(source);
  EXPECT_GE(learner.now, 98 * kMillisecond);
  EXPECT_LE(learner.now, 101 * kMillisecond);
}

TEST(SnapshotPullTest, Lost_IsAskedForAgainAfterGrowingPauses) {
  const Source source{.files = {{"a", std::string(100, 'a')}}};
  Learner learner(small_pieces());
  DurationNs before = 0;
  for (int i = 0; i < 10; ++i) {
    learner.poll();
    ASSERT_EQ(learner.requests.size(), 1U);
    learner.pull.on_failed(std::exchange(learner.requests, {})[0].number, absl::UnavailableError("gone"), learner.now);
    learner.poll();
    EXPECT_TRUE(learner.requests.empty());
    const DurationNs pause = learner.pull.wake_at() - learner.now;
    EXPECT_GE(pause, before);
    EXPECT_LE(pause, 2 * kSecond);
    before = pause;
    learner.now = learner.pull.wake_at();
  }
  learner.run(source);
  learner.expect_all(source);
  EXPECT_EQ(learner.pull.attempt(), 1U);
  EXPECT_EQ(learner.pull.counters().failed, 10U);
}

TEST(SnapshotPullTest, Damaged_IsNotWrittenAndAskedForAgain) {
  const Source source{.files = {{"a", std::string(300, 'a')}}};
  Learner learner(small_pieces());
  learner.poll();
  Chunk chunk = source.answer(learner.requests[0].fetch).value();
  chunk.crc32c ^= 1;
  learner.take(std::exchange(learner.requests, {})[0].number, chunk);
  EXPECT_TRUE(learner.files.empty());
  EXPECT_EQ(learner.pull.counters().damaged, 1U);
  learner.run(source);
  learner.expect_all(source);
}

TEST(SnapshotPullTest, Damaged_AgainAndAgainStartsOver) {
  SnapshotPullOptions options = small_pieces();
  options.damaged_max = 3;
  const Source source{.files = {{"a", std::string(300, 'a')}}};
  Learner learner(options);
  learner.poll();
  learner.answer_all(source);
  while (learner.pull.attempt() == 1) {
    learner.now = std::max(learner.now, learner.pull.wake_at() == kTimeNever ? learner.now : learner.pull.wake_at());
    learner.poll();
    for (const auto& request : std::exchange(learner.requests, {})) {
      Chunk chunk = source.answer(request.fetch).value();
      chunk.crc32c ^= 1;
      learner.take(request.number, chunk);
    }
  }
  EXPECT_EQ(learner.pull.counters().damaged, 3U);
  EXPECT_TRUE(learner.files.empty());
  learner.run(source);
  learner.expect_all(source);
}

TEST(SnapshotPullTest, SourceRestart_StartsOver) {
  const Source before{.snapshot = 100, .files = {{"a", std::string(300, 'a')}}};
  const Source after{.snapshot = 200, .end = {60, 4}, .files = {{"b", std::string(200, 'b')}}};
  Learner learner(small_pieces());
  learner.poll();
  learner.answer_all(before);
  EXPECT_EQ(learner.pull.end(), before.end);
  learner.poll();
  const auto late = learner.requests;
  for (const auto& request : std::exchange(learner.requests, {})) {
    learner.pull.on_failed(request.number, after.answer(request.fetch).status(), learner.now);
  }
  EXPECT_EQ(learner.pull.attempt(), 2U);
  learner.files.clear();
  learner.run(after);
  learner.expect_all(after);
  learner.take(late[0].number, before.answer(late[0].fetch).value());  // ignored
  learner.expect_all(after);
}

TEST(SnapshotPullTest, Source_ThatContradictsItselfStartsOver) {
  const Source source{.files = {{"a", std::string(300, 'a')}, {"b", std::string(300, 'b')}}};
  const auto starts_over = [&](auto change) {
    Learner learner(small_pieces());
    learner.poll();
    learner.answer_all(source);
    learner.poll();
    const auto request = learner.requests[0];  // the second piece of "a"
    Chunk chunk = source.answer(request.fetch).value();
    change(chunk);
    learner.take(request.number, chunk);
    return learner.pull.attempt() == 2;
  };
  EXPECT_FALSE(starts_over([](Chunk&) {}));
  EXPECT_TRUE(starts_over([](Chunk& c) { c.snapshot = 5; }));
  EXPECT_TRUE(starts_over([](Chunk& c) { c.end.index += 1; }));
  EXPECT_TRUE(starts_over([](Chunk& c) { c.files = 3; }));
  EXPECT_TRUE(starts_over([](Chunk& c) { c.name = "x"; }));
  EXPECT_TRUE(starts_over([](Chunk& c) { c.file_bytes = 299; }));
  EXPECT_TRUE(starts_over([](Chunk& c) { c.offset = 0; }));
  EXPECT_TRUE(starts_over([](Chunk& c) { c.data = {}, c.crc32c = 0; }));
}

TEST(SnapshotPullTest, Source_WithOneNameTwiceIsNotBelieved) {
  const Source source{.files = {{"a", "1"}, {"a", "2"}}};
  Learner learner(small_pieces());
  learner.poll();
  learner.answer_all(source);
  learner.poll();
  learner.answer_all(source);
  EXPECT_EQ(learner.pull.attempt(), 2U);
}

TEST(SnapshotPullTest, Short_PiecesAreCompleted) {
  const Source source{.files = {{"a", std::string(300, 'a')}}};
  Learner learner(small_pieces());
  for (int i = 0; i < 1000 && !learner.pull.complete(); ++i) {
    learner.poll();
    if (learner.requests.empty()) learner.now = learner.pull.wake_at();
    for (const auto& request : std::exchange(learner.requests, {})) {
      FetchChunk fetch = request.fetch;
      fetch.bytes_max = std::min<uint32_t>(fetch.bytes_max, 33);
      learner.take(request.number, source.answer(fetch).value());
    }
  }
  learner.expect_all(source);
}

/// Everything at once: answers in any order, late, lost, damaged, and sources that forget.
TEST(SnapshotPullTest, Pull_WhateverHappensOnTheWay) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    uint64_t next_snapshot = 1;
    Source source = random_source(rng, next_snapshot);
    Learner learner(small_pieces());
    std::vector<SnapshotPull::Request> under_way;
    std::vector<std::pair<uint64_t, Chunk>> writing;
    int troubles = 60;
    for (int i = 0; i < 100'000 && !learner.pull.complete(); ++i) {
      const uint64_t before = learner.pull.attempt();
      learner.poll();
      for (const auto& request : std::exchange(learner.requests, {})) under_way.push_back(request);
      const bool trouble = troubles > 0 && rng.chance(0.1);
      if (trouble) --troubles;
      if (trouble && rng.chance(0.05)) {
        for (const auto& [number, chunk] : std::exchange(writing, {})) {
          if (learner.pull.written(number)) learner.write(chunk);
        }
        if (!learner.pull.complete()) source = random_source(rng, ++next_snapshot);
      } else if (!writing.empty() && rng.chance(0.5)) {
        const size_t at = rng.below(writing.size());
        const auto [number, chunk] = writing[at];
        writing.erase(writing.begin() + static_cast<ptrdiff_t>(at));
        if (learner.pull.written(number)) learner.write(chunk);
      } else if (!under_way.empty()) {
        const size_t at = rng.below(under_way.size());
        const SnapshotPull::Request request = under_way[at];
        under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(at));
        const auto answer = source.answer(request.fetch);
        if (!answer.ok() || (trouble && rng.chance(0.5))) {
          const absl::Status why = answer.ok() ? absl::UnavailableError("lost") : answer.status();
          learner.pull.on_failed(request.number, why, learner.now);
        } else {
          Chunk chunk = *answer;
          if (trouble) chunk.crc32c ^= 1;
          if (learner.pull.on_chunk(request.number, chunk, learner.now) == SnapshotPull::Taken::kWrite) {
            writing.emplace_back(request.number, chunk);
          }
        }
      } else if (writing.empty()) {
        ASSERT_NE(learner.pull.wake_at(), kTimeNever) << seed;
        learner.now = std::max(learner.now, learner.pull.wake_at());
      }
      if (learner.pull.attempt() != before) {
        learner.files.clear();
        writing.clear();
      }
    }
    ASSERT_TRUE(learner.pull.complete()) << seed;
    learner.expect_all(source);
    ASSERT_FALSE(HasFailure()) << seed;
  }
}

}  // namespace
}  // namespace skua::kv
