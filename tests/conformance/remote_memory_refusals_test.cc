// Remote memory over every transport: what it refuses, how it ends, and that nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "rpc/base/rng.h"
#include "tests/conformance/remote_memory_fixture.h"

namespace skua::rpc::conformance {
namespace {

using ::testing::HasSubstr;

TEST_P(RemoteMemoryTest, Bounds_AreKeptOnBothSides) {
  offer();
  connect();
  const auto region = allocate(100);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(write(*region, 50, bytes_of(51)).status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(write(*region, UINT64_MAX, "xy").status.code(), absl::StatusCode::kOutOfRange);
  // A user that does not check itself is refused by the owner.
  RemoteRegion wrong = *region;
  wrong.bytes = UINT64_MAX;
  for (const uint64_t offset : {uint64_t{50}, uint64_t{101}, UINT64_MAX - 10, UINT64_MAX - 60}) {
    const RemoteOutcome outcome = write(wrong, offset, bytes_of(51));
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kOutOfRange) << offset << ": " << outcome.status;
  }
  EXPECT_EQ(fetch_add(wrong, 96, 1).status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(read(*region, 0, 100), std::string(100, '\0'));
  EXPECT_GE(host_->counters().refused, 4u);
}

TEST_P(RemoteMemoryTest, Rights_AreThoseGranted) {
  offer();
  connect();
  const auto region = allocate(64, remote_rights::kRead);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(read(*region, 0, 8), std::string(8, '\0'));
  EXPECT_EQ(write(*region, 0, "x").status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(fetch_add(*region, 0, 1).status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(allocate(64, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(allocate(64, 8).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(RemoteMemoryTest, Key_IsWorthNothingToAnotherSessionOrAfterwards) {
  offer();
  connect();
  other_ = make_user(2);
  auto region = allocate(64);
  ASSERT_TRUE(region.ok()) << region.status();
  RemoteRegion stolen = *region;
  stolen.session = other_->session;
  const RemoteOperation add{.kind = RemoteOperation::Kind::kFetchAdd, .operand = 1};
  EXPECT_EQ(run(stolen, add, other_.get()).status.code(), absl::StatusCode::kNotFound);
  RemoteRegion guessed = *region;
  ++guessed.key;
  EXPECT_EQ(run(guessed, add).status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(host_->revoke(region->key));
  EXPECT_FALSE(host_->revoke(region->key));
  EXPECT_EQ(run(*region, add).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(free(*region).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(host_->local(region->key).empty());
  EXPECT_EQ(host_->bytes_in_use(), 0u);
}

TEST_P(RemoteMemoryTest, Lease_EndsUnlessRenewed) {
  offer();
  connect();
  const auto left = allocate(64, remote_rights::kAll, 50 * kMillisecond);
  ASSERT_TRUE(left.ok()) << left.status();
  const TimeNs until = fabric_->clock().now_ns() + 100 * kMillisecond;
  // Asks for more than it gets, and again and again.
  auto kept = allocate(64, remote_rights::kAll, 3600 * kSecond);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_LE(kept->expires_ns, fabric_->clock().now_ns() + kLease) << "the owner cuts leases";
  do {
    std::optional<absl::StatusOr<RemoteRegion>> renewed;
    const absl::Status asked = user_->memory->renew(
        *kept, 3600 * kSecond, [&](absl::StatusOr<RemoteRegion> region) { renewed = std::move(region); });
    ASSERT_TRUE(asked.ok()) << asked;
    ASSERT_TRUE(run_until([&] { return renewed.has_value(); }));
    ASSERT_TRUE(renewed->ok()) << renewed->status();
    EXPECT_EQ((*renewed)->key, kept->key);
    EXPECT_GE((*renewed)->expires_ns, kept->expires_ns);
    kept = *std::move(renewed);
  } while (fabric_->clock().now_ns() < until);
  const RemoteOutcome late = fetch_add(*left, 0, 1);
  EXPECT_EQ(late.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(late.status.message()), HasSubstr("lease"));
  EXPECT_TRUE(fetch_add(*kept, 0, 1).status.ok());
  EXPECT_EQ(host_->counters().expired, 1u);
}

TEST_P(RemoteMemoryTest, Session_TakesItsRegionsWithIt) {
  offer();
  connect();
  other_ = make_user(2);
  ASSERT_TRUE(allocate(1000).ok());
  const auto others = allocate(1000, remote_rights::kAll, kLease, other_.get());
  ASSERT_TRUE(others.ok()) << others.status();
  user_->endpoint->close(user_->session);
  ASSERT_TRUE(run_until([&] { return host_->region_count() == 1; }));
  std::string into(8, '?');
  EXPECT_TRUE(run(*others, {.kind = RemoteOperation::Kind::kRead, .to = writable(into)}, other_.get()).status.ok());
  // Where the word of it was lost, the lease may end first.
  EXPECT_EQ(host_->counters().revoked + host_->counters().expired, 1u);
}

TEST_P(RemoteMemoryTest, Bounds_OfTheOwnerAreTyped) {
  host_options_.regions_max = 2;
  host_options_.region_max_bytes = 1 << 20;
  host_options_.admit = [](const EndpointIdentity& /*peer*/, uint64_t bytes, uint8_t /*rights*/) {
    return bytes == 666 ? absl::PermissionDeniedError("not that many") : absl::OkStatus();
  };
  offer();
  connect();
  EXPECT_EQ(allocate((1 << 20) + 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(allocate(666).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(allocate(0).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(allocate(1).ok());
  ASSERT_TRUE(allocate(1).ok());
  const auto third = allocate(1);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("regions_max"));
}

TEST_P(RemoteMemoryTest, Bounds_OfTheUserAreTyped) {
  offer();
  connect();
  const auto region = allocate(64);
  ASSERT_TRUE(region.ok()) << region.status();
  int done = 0;
  absl::Status status;
  int started = 0;
  while (status.ok()) {
    status = user_->memory->fetch_add(*region, 0, 1, [&](RemoteOutcome&&) { ++done; });
    started += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(started, 64);
  EXPECT_TRUE(run_until([&] { return done == 64; }));
}

TEST_P(RemoteMemoryTest, NoHost_IsUnimplemented) {
  connect();
  EXPECT_EQ(allocate(64).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_P(RemoteMemoryTest, HostEnds_WithReadsOnTheirWay) {
  offer();
  connect();
  const auto region = allocate(1 << 20);
  ASSERT_TRUE(region.ok()) << region.status();
  std::string into(1 << 20, '?');
  std::optional<RemoteOutcome> outcome;
  ASSERT_TRUE(user_->memory->read(*region, 0, writable(into), [&](RemoteOutcome&& o) { outcome = std::move(o); }).ok());
  ASSERT_TRUE(run_until([&] { return host_->counters().operations > 0 || outcome.has_value(); }));
  host_.reset();
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_TRUE(outcome->status.ok()) << outcome->status;
  EXPECT_TRUE(into == std::string(1 << 20, '\0'));
  EXPECT_EQ(allocate(64).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_P(RemoteMemoryTest, UserDies_InTheMiddle) {
  offer();
  connect();
  const auto region = allocate(1 << 20);
  ASSERT_TRUE(region.ok()) << region.status();
  std::string into(1 << 20, '?');
  bool done = false;
  ASSERT_TRUE(user_->memory
                  ->read(*region, 0, writable(into),
                         [&](RemoteOutcome&& outcome) {
                           done = true;
                           // An adapter may be done by then.
                           if (is_direct() && outcome.status.ok()) return;
                           EXPECT_EQ(outcome.status.code(), absl::StatusCode::kCancelled) << outcome.status;
                         })
                  .ok());
  user_->endpoint->poll();
  owner_->poll();
  user_.reset();
  EXPECT_TRUE(done);
  owner_.reset();  // with an answer from the region on its way, and the host still there
  host_.reset();
}

TEST_P(RemoteMemoryTest, Garbage_IsRefusedAndCounted) {
  offer();
  connect();
  Rng rng(7);
  for (int i = 0; i < 200; ++i) {
    MessagePtr message = user_->endpoint->make_message();
    std::string garbage = bytes_of(rng.below(60), rng.next());
    if (!garbage.empty() && rng.chance(0.7)) garbage[0] = static_cast<char>(rng.below(9));
    message->append_copy(as_byte_span(garbage));
    std::optional<absl::Status> status;
    ASSERT_TRUE(user_->endpoint
                    ->call(user_->session, kRemoteMemoryMethod, std::move(message), {},
                           [&](CallResult&& result) { status = std::move(result.status); })
                    .ok());
    ASSERT_TRUE(run_until([&] { return status.has_value(); }));
  }
  EXPECT_GE(host_->counters().refused, 150u);
}

}  // namespace
}  // namespace skua::rpc::conformance
