// Remote memory over every transport: what it does, what it refuses, and that nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "rpc/remote_memory.h"
#include "tests/conformance/fabric.h"

namespace skua::rpc::conformance {
namespace {

using ::testing::HasSubstr;

constexpr DurationNs kPatience = 60 * kSecond;
constexpr DurationNs kLease = 30 * kSecond;

std::string bytes_of(size_t size, uint64_t seed = 1) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(mix64(seed + i / 64) >> (i % 56));
  return out;
}

struct User {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<RemoteMemory> memory;
  SessionId session;

  User(Fabric& fabric, uint32_t index, const EndpointOptions& options)
      : transport(fabric.make_transport(index)),
        endpoint(std::make_unique<Endpoint>(*transport, fabric.clock(), options)),
        memory(std::make_unique<RemoteMemory>(*endpoint, RemoteMemory::Options{.operations_max = 64})) {}
  ~User() { endpoint.reset(); }  // before the memory, so that what is in flight ends
};

class RemoteMemoryTest : public ::testing::TestWithParam<FabricKind> {
 protected:
  void SetUp() override {
    std::string why_not;
    fabric_ = GetParam().make(why_not);
    if (fabric_ == nullptr) GTEST_SKIP() << GetParam().name << " cannot run here: " << why_not;
    owner_transport_ = fabric_->make_transport(1);
    owner_ = std::make_unique<Endpoint>(*owner_transport_, fabric_->clock(), endpoint_options());
    host_options_.memory_max_bytes = size_t{64} << 20;
    host_options_.lease_max_ns = kLease;
    host_options_.seed = 5;
  }

  void offer() {
    host_ = std::make_unique<RemoteMemoryHost>(*owner_, host_options_);
    owner_->on_session_event([this](const SessionEvent& event) {
      if (host_ != nullptr) host_->on_session_event(event);
    });
  }
  void connect() {
    user_ = make_user(0);
    ASSERT_TRUE(run_until([&] { return user_->endpoint->is_connected(user_->session); }));
  }
  std::unique_ptr<User> make_user(uint32_t index) {
    auto user = std::make_unique<User>(*fabric_, index, endpoint_options());
    user->session = user->endpoint->connect(owner_->local_descriptor()).value();
    return user;
  }

  void TearDown() override {
    if (user_ == nullptr || owner_ == nullptr) return;
    EXPECT_EQ(user_->memory->operations_in_flight(), 0u);
    EXPECT_TRUE(run_until([&] {
      const Endpoint::Balance b = owner_->balance();
      return b.calls + b.handlers + b.lent_buffers + b.pool_buffers + b.messages + b.credits_missing == 0;
    }));
  }

  static EndpointOptions endpoint_options() {
    EndpointOptions options;
    options.seed = 11;
    options.protocol.peer_timeout_ns = 2 * kSecond;
    return options;
  }

  bool run_until(const std::function<bool()>& done) {
    const TimeNs limit = fabric_->clock().now_ns() + kPatience;
    while (!done()) {
      if (fabric_->clock().now_ns() > limit) return false;
      TimeNs next = kTimeNever;
      for (Endpoint* endpoint :
           {owner_.get(), user_ ? user_->endpoint.get() : nullptr, other_ ? other_->endpoint.get() : nullptr}) {
        if (endpoint == nullptr) continue;
        endpoint->poll();
        next = std::min(next, endpoint->next_timer_ns());
      }
      fabric_->let_time_pass(next);
    }
    return true;
  }

  absl::StatusOr<RemoteRegion> allocate(uint64_t bytes, uint8_t rights = remote_rights::kAll, DurationNs lease = kLease,
                                        User* user = nullptr) {
    if (user == nullptr) user = user_.get();
    std::optional<absl::StatusOr<RemoteRegion>> granted;
    const absl::Status started = user->memory->allocate(user->session, bytes, rights, lease,
                                                        [&](absl::StatusOr<RemoteRegion> region) { granted = region; });
    if (!started.ok()) return started;
    EXPECT_TRUE(run_until([&] { return granted.has_value(); }));
    return granted.value_or(absl::UnknownError("never answered"));
  }

  RemoteOutcome run(const RemoteRegion& region, const RemoteOperation& operation, User* user = nullptr) {
    if (user == nullptr) user = user_.get();
    std::optional<RemoteOutcome> outcome;
    const absl::Status started =
        user->memory->submit(region, operation, [&](RemoteOutcome&& result) { outcome = std::move(result); });
    if (!started.ok()) return {.status = started};
    EXPECT_TRUE(run_until([&] { return outcome.has_value(); }));
    return outcome.value_or(RemoteOutcome{.status = absl::UnknownError("never completed")});
  }
  RemoteOutcome write(const RemoteRegion& region, uint64_t offset, std::string_view content) {
    return run(region, {.kind = RemoteOperation::Kind::kWrite, .offset = offset, .from = as_byte_span(content)});
  }
  std::string read(const RemoteRegion& region, uint64_t offset, size_t bytes) {
    std::string out(bytes, '?');
    const RemoteOutcome outcome =
        run(region, {.kind = RemoteOperation::Kind::kRead, .offset = offset, .to = writable(out)});
    return outcome.status.ok() ? out : outcome.status.ToString();
  }
  RemoteOutcome fetch_add(const RemoteRegion& region, uint64_t offset, uint64_t addend) {
    return run(region, {.kind = RemoteOperation::Kind::kFetchAdd, .offset = offset, .operand = addend});
  }
  absl::Status free(const RemoteRegion& region) {
    std::optional<absl::Status> status;
    const absl::Status started =
        user_->memory->free(region, [&](RemoteOutcome&& outcome) { status = std::move(outcome.status); });
    if (!started.ok()) return started;
    EXPECT_TRUE(run_until([&] { return status.has_value(); }));
    return *status;
  }
  static MutableByteSpan writable(std::string& text) { return std::as_writable_bytes(std::span(text)); }

  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Transport> owner_transport_;
  RemoteMemoryHost::Options host_options_;
  std::unique_ptr<Endpoint> owner_;
  std::unique_ptr<RemoteMemoryHost> host_;
  std::unique_ptr<User> user_;
  std::unique_ptr<User> other_;
};

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
  EXPECT_EQ(run(*region, swap).previous, 4u);
  swap.expected = 4;
  EXPECT_EQ(run(*region, swap).previous, 4u);
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
  size_t done = 0;
  std::array<RemoteOperation, 32> batch;
  for (size_t round = 1; round <= 4; ++round) {
    for (RemoteOperation& operation : batch) {
      operation = {.kind = RemoteOperation::Kind::kFetchAdd, .offset = 0, .operand = ++addend};
      sum += addend;
    }
    const absl::Status started = user_->memory->submit_batch(*region, batch, [&](size_t, RemoteOutcome&& outcome) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      ++done;
    });
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(run_until([&] { return done == batch.size() * round; }));
  }
  EXPECT_EQ(fetch_add(*region, 0, 0).previous, sum);
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
  EXPECT_TRUE(run(*others, {.kind = RemoteOperation::Kind::kFetchAdd, .operand = 1}, other_.get()).status.ok());
  EXPECT_EQ(host_->counters().revoked, 1u);
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

INSTANTIATE_TEST_SUITE_P(Transports, RemoteMemoryTest, ::testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace skua::rpc::conformance
