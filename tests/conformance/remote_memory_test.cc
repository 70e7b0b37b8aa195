// Remote memory over every transport: what it does.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "rpc/notice_ring.h"
#include "tests/conformance/remote_memory_fixture.h"

namespace skua::rpc::conformance {
namespace {

TEST_P(RemoteMemoryTest, Region_IsZeroedAndHoldsWhatIsWritten) {
  offer();
  connect();
  const auto region = allocate(1 << 20);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(read(*region, 0, 4096), std::string(4096, '\0'));
  for (const size_t size : {size_t{1}, size_t{200}, size_t{256}, size_t{5000}, size_t{1} << 20}) {
    const std::string content = bytes_of(size, size);
    ASSERT_TRUE(write(*region, (1 << 20) - size, content).status.ok());
    EXPECT_TRUE(read(*region, (1 << 20) - size, size) == content) << size;
  }
  EXPECT_EQ(host_->local(region->key).size(), size_t{1} << 20);
  EXPECT_TRUE(free(*region).ok());
  EXPECT_EQ(host_->region_count(), 0u);
  EXPECT_TRUE(run_until([&] { return host_->bytes_in_use() == 0; }));
  // The next one does not show what was there.
  const auto next = allocate(1 << 20);
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(read(*next, 0, 1 << 20) == std::string(1 << 20, '\0'));
}

TEST_P(RemoteMemoryTest, Atomics_ReturnWhatWasThere) {
  offer();
  connect();
  const auto region = allocate(64);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(fetch_add(*region, 8, 5).previous, 0u);
  EXPECT_EQ(fetch_add(*region, 8, UINT64_MAX).previous, 5u);
  RemoteOperation swap{.kind = RemoteOperation::Kind::kCompareSwap, .offset = 8, .operand = 77, .expected = 3};
  EXPECT_EQ(exactly(*region, swap).previous, 4u);
  swap.expected = 4;
  EXPECT_EQ(exactly(*region, swap).previous, 4u);
  EXPECT_EQ(fetch_add(*region, 8, 0).previous, 77u);
  EXPECT_EQ(fetch_add(*region, 4, 1).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(RemoteMemoryTest, Batch_AtomicsAddUpExactly) {
  offer();
  connect();
  const auto region = allocate(8);
  ASSERT_TRUE(region.ok()) << region.status();
  uint64_t addend = 0;
  uint64_t sum = 0;
  uint64_t unknown = 0;
  size_t done = 0;
  std::array<RemoteOperation, 32> batch;
  for (size_t round = 1; round <= 4; ++round) {
    for (RemoteOperation& operation : batch) {
      operation = {.kind = RemoteOperation::Kind::kFetchAdd, .offset = 0, .operand = ++addend};
      sum += addend;
    }
    const absl::Status started = user_->memory->submit_batch(*region, batch, [&](size_t i, RemoteOutcome&& outcome) {
      ++done;
      if (outcome.status.ok()) return;
      EXPECT_TRUE(may_break() && outcome.may_have_executed) << outcome.status;
      unknown += batch[i].operand;
    });
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(run_until([&] { return done == batch.size() * round; }));
  }
  const uint64_t there = fetch_add(*region, 0, 0).previous;
  EXPECT_LE(there, sum);
  EXPECT_GE(there, sum - unknown) << "what was said to be done is there";
}

TEST_P(RemoteMemoryTest, Notice_ComesWithTheBytesInPlace) {
  offer();
  connect();
  const auto region = allocate(8192);
  ASSERT_TRUE(region.ok()) << region.status();
  std::vector<RemoteMemoryHost::Notice> notices;
  const std::string content = bytes_of(6000);
  host_->on_notice([&](const RemoteMemoryHost::Notice& notice) {
    EXPECT_EQ(as_string_view(host_->local(notice.key).subspan(notice.offset, notice.bytes)), content);
    notices.push_back(notice);
  });
  const RemoteOutcome outcome = run(*region, {.kind = RemoteOperation::Kind::kWriteWithNotice,
                                              .offset = 100,
                                              .from = as_byte_span(content),
                                              .notice = 0xfeed});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].key, region->key);
  EXPECT_EQ(notices[0].notice, 0xfeedu);
}

/// More than a ring holds, several under way: each is told once, with its bytes in place.
TEST_P(RemoteMemoryTest, Notices_EachIsToldOnceWithItsBytes) {
  constexpr uint32_t kNotices = 300;
  constexpr uint32_t kInFlight = 25;
  constexpr size_t kBytes = 64;
  offer();
  connect();
  const auto region = allocate(kNotices * kBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  std::vector<uint32_t> told(kNotices);
  host_->on_notice([&](const RemoteMemoryHost::Notice& notice) {
    ASSERT_LT(notice.notice, kNotices);
    ++told[notice.notice];
    EXPECT_EQ(notice.key, region->key);
    EXPECT_EQ(notice.offset, notice.notice * kBytes);
    EXPECT_EQ(notice.bytes, kBytes);
    EXPECT_EQ(as_string_view(host_->local(notice.key).subspan(notice.offset, notice.bytes)),
              bytes_of(kBytes, notice.notice));
  });
  std::vector<std::string> contents;
  for (uint32_t i = 0; i < kNotices; ++i) contents.push_back(bytes_of(kBytes, i));
  std::vector<uint32_t> surely(kNotices);
  uint32_t done = 0;
  for (uint32_t i = 0; i < kNotices; ++i) {
    const RemoteOperation operation{.kind = RemoteOperation::Kind::kWriteWithNotice,
                                    .offset = i * kBytes,
                                    .from = as_byte_span(contents[i]),
                                    .notice = i};
    const absl::Status started = user_->memory->submit(*region, operation, [&, i](RemoteOutcome&& outcome) {
      ++done;
      surely[i] = outcome.status.ok() ? 1 : 0;
      EXPECT_TRUE(outcome.status.ok() || (may_break() && outcome.may_have_executed)) << outcome.status;
    });
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(run_until([&] { return i + 1 - done < kInFlight; }));
  }
  ASSERT_TRUE(run_until([&] { return done == kNotices; }));
  // Those that completed by the transport may be told a moment later.
  EXPECT_TRUE(run_until([&] {
    for (uint32_t i = 0; i < kNotices; ++i) {
      if (told[i] < surely[i]) return false;
    }
    return true;
  }));
  for (uint32_t i = 0; i < kNotices; ++i) EXPECT_LE(told[i], 1u) << i;
  EXPECT_LE(host_->counters().refused, 1u) << "the ring, where there is none";
  if (is_direct() && !may_break()) {
    EXPECT_GT(host_->counters().notices, NoticeRing::kEntries);
    EXPECT_EQ(host_->counters().notices, user_->memory->counters().direct);
  }
}

TEST_P(RemoteMemoryTest, Published_AllWhoOpenItShareIt) {
  offer();
  const auto key = host_->publish("counters", 64, remote_rights::kRead | remote_rights::kAtomic);
  ASSERT_TRUE(key.ok()) << key.status();
  connect();
  other_ = make_user(2);
  const auto mine = open("counters", remote_rights::kRead | remote_rights::kAtomic);
  const auto others = open("counters", remote_rights::kRead | remote_rights::kAtomic, other_.get());
  ASSERT_TRUE(mine.ok()) << mine.status();
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_EQ(mine->bytes, 64u);
  EXPECT_NE(mine->key, others->key);
  uint64_t sum = 0;
  for (const uint64_t addend : {3u, 4u, 5u}) {
    for (User* user : {user_.get(), other_.get()}) {
      const RemoteOperation add{.kind = RemoteOperation::Kind::kFetchAdd, .offset = 8, .operand = addend};
      const RemoteRegion& region = user == user_.get() ? *mine : *others;
      const RemoteOutcome outcome = exactly(region, add, user);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.previous, sum);
      sum += addend;
    }
  }
  EXPECT_EQ(load_le<uint64_t>(host_->local(*key).data() + 8), sum);
  // One lets go, the other one goes on.
  EXPECT_TRUE(free(*mine).ok());
  EXPECT_EQ(load_le<uint64_t>(as_byte_span(read(*others, 8, 8, other_.get())).data()), sum);
  EXPECT_TRUE(host_->revoke(*key));
  EXPECT_TRUE(host_->local(*key).empty());
  const RemoteOperation add{.kind = RemoteOperation::Kind::kFetchAdd, .operand = 1};
  EXPECT_EQ(run(*others, add, other_.get()).status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(run_until([&] { return host_->bytes_in_use() == 0; }));
}

TEST_P(RemoteMemoryTest, Published_IsGrantedAsItWasPublished) {
  offer();
  const auto key = host_->publish("board", 4096, remote_rights::kRead | remote_rights::kWrite);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(host_->publish("board", 64, remote_rights::kAll).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(host_->publish("", 64, remote_rights::kAll).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(host_->publish(std::string(65, 'n'), 64, remote_rights::kAll).status().code(),
            absl::StatusCode::kInvalidArgument);
  connect();
  EXPECT_EQ(open("bored", remote_rights::kRead).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(open("board", remote_rights::kAll).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(open("board", 0).status().code(), absl::StatusCode::kPermissionDenied);
  const auto readable = open("board", remote_rights::kRead);
  ASSERT_TRUE(readable.ok()) << readable.status();
  EXPECT_EQ(write(*readable, 0, "x").status.code(), absl::StatusCode::kPermissionDenied);
  // What the owner writes is seen, and what is written with a notice is the owner's to see under the key that he knows.
  copy_bytes(host_->local(*key).data() + 7, as_byte_span("owner"));
  EXPECT_EQ(read(*readable, 7, 5), "owner");
  const auto writable = open("board", remote_rights::kWrite);
  ASSERT_TRUE(writable.ok()) << writable.status();
  uint64_t noticed = 0;
  host_->on_notice([&](const RemoteMemoryHost::Notice& notice) { noticed = notice.key; });
  const RemoteOutcome outcome =
      run(*writable, {.kind = RemoteOperation::Kind::kWriteWithNotice, .from = as_byte_span("noted"), .notice = 1});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(noticed, *key);
  EXPECT_EQ(read(*readable, 0, 5), "noted");
  EXPECT_TRUE(host_->revoke(*key));
}

INSTANTIATE_TEST_SUITE_P(Transports, RemoteMemoryTest, ::testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace skua::rpc::conformance
