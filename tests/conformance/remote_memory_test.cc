// Remote memory over every transport: what it does, what it refuses, and that nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "rpc/notice_ring.h"
#include "rpc/remote_memory.h"
#include "rpc/transport/one_sided.h"
#include "tests/conformance/fabric.h"

namespace skua::rpc::conformance {
namespace {

using ::testing::HasSubstr;

constexpr DurationNs kPatience = 60 * kSecond;
// A close that a lossy fabric loses is made up for by the end of the lease: tests wait for it.
constexpr DurationNs kLease = 10 * kSecond;

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
        memory(std::make_unique<RemoteMemory>(
            *endpoint, RemoteMemory::Options{.operations_max = 64, .connect_patience_ns = 20 * kSecond})) {}
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
    host_options_.simulation_seed = 5;
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
    user->session = open_session(*user->endpoint, *owner_).value();
    return user;
  }

  void TearDown() override {
    if (user_ == nullptr || owner_ == nullptr) return;
    // What it asks for by itself is counted, too.
    EXPECT_TRUE(run_until([&] { return user_->memory->operations_in_flight() == 0; }));
    EXPECT_TRUE(run_until([&] { return at_rest(*owner_) && at_rest(*user_->endpoint); }));
    // Nothing stays open once everybody has let go.
    if (host_ == nullptr) return;
    user_->endpoint->close(user_->session);
    if (other_ != nullptr) other_->endpoint->close(other_->session);
    EXPECT_TRUE(run_until([&] { return host_->region_count() == 0 && host_->bytes_in_use() == 0; }));
  }
  static bool at_rest(const Endpoint& endpoint) {
    const Endpoint::Balance b = endpoint.balance();
    return b.calls + b.handlers + b.lent_buffers + b.pool_buffers + b.messages + b.credits_missing == 0;
  }
  /// Operations on memory that were under way when their connection broke may have run.
  [[nodiscard]] bool may_break() const { return GetParam().name == "SimOneSidedLossy"; }
  [[nodiscard]] bool is_direct() const { return owner_transport_->capabilities().one_sided; }

  static EndpointOptions endpoint_options() {
    EndpointOptions options;
    options.simulation_seed = 11;
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
      if (!done()) fabric_->let_time_pass(next);  // up to the next lease's end, if nothing else is due
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

  absl::StatusOr<RemoteRegion> open(std::string_view name, uint8_t rights, User* user = nullptr) {
    if (user == nullptr) user = user_.get();
    std::optional<absl::StatusOr<RemoteRegion>> granted;
    const absl::Status started = user->memory->open(user->session, name, rights, kLease,
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
  /// Again, where it may have run: a write does no harm twice.
  RemoteOutcome write(const RemoteRegion& region, uint64_t offset, std::string_view content) {
    for (;;) {
      RemoteOutcome outcome =
          run(region, {.kind = RemoteOperation::Kind::kWrite, .offset = offset, .from = as_byte_span(content)});
      if (!may_break() || outcome.status.code() != absl::StatusCode::kUnavailable) return outcome;
      EXPECT_TRUE(outcome.may_have_executed);
    }
  }
  std::string read(const RemoteRegion& region, uint64_t offset, size_t bytes, User* user = nullptr) {
    std::string out(bytes, '?');
    const RemoteOutcome outcome =
        run(region, {.kind = RemoteOperation::Kind::kRead, .offset = offset, .to = writable(out)}, user);
    return outcome.status.ok() ? out : outcome.status.ToString();
  }
  RemoteOutcome fetch_add(const RemoteRegion& region, uint64_t offset, uint64_t addend) {
    return exactly(region, {.kind = RemoteOperation::Kind::kFetchAdd, .offset = offset, .operand = addend});
  }
  /// An atomic once, also where it may have run: nobody else is there, so what there is tells.
  RemoteOutcome exactly(const RemoteRegion& region, const RemoteOperation& operation, User* user = nullptr) {
    for (;;) {
      const std::string before = read(region, operation.offset, 8, user);
      RemoteOutcome outcome = run(region, operation, user);
      const bool unknown = outcome.status.code() == absl::StatusCode::kUnavailable && outcome.may_have_executed;
      if (!unknown) return outcome;
      EXPECT_TRUE(may_break()) << outcome.status;
      if (read(region, operation.offset, 8, user) == before) continue;
      return {.status = absl::OkStatus(), .previous = load_le<uint64_t>(as_byte_span(before).data())};
    }
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

// --- By the transport itself -----------------------------------------------------------------------------------------

TEST_P(RemoteMemoryTest, Direct_WhereTheTransportCan) {
  offer();
  connect();
  const auto region = allocate(100'000);
  ASSERT_TRUE(region.ok()) << region.status();
  const std::string content = bytes_of(100'000);
  ASSERT_TRUE(write(*region, 0, content).status.ok());
  EXPECT_TRUE(read(*region, 0, 100'000) == content);
  EXPECT_EQ(fetch_add(*region, 99'992, 0).previous, load_le<uint64_t>(as_byte_span(content).data() + 99'992));
  const RemoteMemory::Counters& counters = user_->memory->counters();
  if (!is_direct()) {
    EXPECT_EQ(counters.direct, 0u);
    EXPECT_EQ(host_->counters().opened, 0u);
    EXPECT_GE(counters.by_call, 4u);
    return;
  }
  EXPECT_EQ(host_->counters().opened, 1u);
  EXPECT_GE(counters.direct, 4u);
  if (may_break()) return;
  EXPECT_EQ(counters.by_call, 0u);
  EXPECT_EQ(host_->counters().operations, 0u) << "the owner's processor took no part";
}

TEST_P(RemoteMemoryTest, Direct_RefusalsByTheAdapterAreTyped) {
  offer();
  connect();
  const auto revoked = allocate(64);
  const auto kept = allocate(64);
  ASSERT_TRUE(revoked.ok() && kept.ok());
  ASSERT_TRUE(write(*revoked, 0, "before").status.ok());
  ASSERT_TRUE(host_->revoke(revoked->key));
  EXPECT_EQ(write(*revoked, 0, "after").status.code(), absl::StatusCode::kNotFound);
  std::string into(8, '?');
  const RemoteOutcome outcome = run(*revoked, {.kind = RemoteOperation::Kind::kRead, .to = writable(into)});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(into, "????????");
  const RemoteOperation add{.kind = RemoteOperation::Kind::kFetchAdd, .operand = 1};
  EXPECT_EQ(run(*revoked, add).status.code(), absl::StatusCode::kNotFound);
  // Refusals break the connection under the other region: that costs a while, and nothing else.
  ASSERT_TRUE(write(*kept, 0, "still fine").status.ok());
  EXPECT_EQ(read(*kept, 0, 10), "still fine");
}

TEST_P(RemoteMemoryTest, Direct_AtomicsHaveOneWayAndWaitForIt) {
  offer();
  connect();
  const auto region = allocate(64);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(fetch_add(*region, 0, 3).previous, 0u);
  // Who does not know of the transport's way is refused the other one, if there is one.
  RemoteMemory by_calls(*user_->endpoint, {.connect_patience_ns = 0});
  std::optional<RemoteOutcome> outcome;
  ASSERT_TRUE(by_calls.fetch_add(*region, 0, 1, [&](RemoteOutcome&& o) { outcome = std::move(o); }).ok());
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status.code(), is_direct() ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk);
  if (!is_direct()) return;
  EXPECT_FALSE(outcome->may_have_executed && outcome->status.ok());
  // Without a connection they wait until there is one again; others take the other way.
  const PeerId peer = user_->transport->resolve(owner_->local_descriptor()).value();
  uint64_t expected = 3;
  for (int i = 0; i < 5; ++i) {
    user_->transport->one_sided()->sever(peer);
    const uint64_t calls_before = user_->memory->counters().by_call;
    EXPECT_EQ(read(*region, 32, 8), std::string(8, '\0'));
    EXPECT_GT(user_->memory->counters().by_call, calls_before);
    EXPECT_EQ(fetch_add(*region, 0, 1).previous, expected++);
  }
}

TEST_P(RemoteMemoryTest, Direct_RegionsCloseInTimeThoughNobodyAsks) {
  offer();
  connect();
  const auto region = allocate(64, remote_rights::kAll, 20 * kMillisecond);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_TRUE(run_until([&] { return host_->region_count() == 0; }));
  EXPECT_EQ(host_->counters().expired, 1u);
  EXPECT_EQ(host_->bytes_in_use(), 0u);
}

TEST_P(RemoteMemoryTest, Direct_SessionEndsUnderOperations) {
  offer();
  connect();
  const auto region = allocate(1 << 20);
  ASSERT_TRUE(region.ok()) << region.status();
  std::vector<std::string> into(8, std::string(1 << 17, '?'));
  size_t done = 0;
  for (size_t i = 0; i < into.size(); ++i) {
    ASSERT_TRUE(user_->memory->read(*region, i << 17, writable(into[i]), [&](RemoteOutcome&&) { ++done; }).ok());
  }
  owner_->poll();
  user_->endpoint->poll();
  user_->endpoint->close(user_->session);
  ASSERT_TRUE(run_until([&] { return done == into.size() && host_->region_count() == 0; }));
  EXPECT_EQ(user_->memory->operations_in_flight(), 0u);
}

/// A user that keeps to nothing, with the transport's own operations.
TEST_P(RemoteMemoryTest, Hostile_TheAdapterKeepsBoundsAndRights) {
  offer();
  connect();
  if (!is_direct()) GTEST_SKIP() << "the transport has no one-sided operations";
  if (may_break()) GTEST_SKIP() << "operations fail there for no reason";
  OneSided& theirs = *owner_transport_->one_sided();
  OneSided& ours = *user_->transport->one_sided();
  const PeerId peer = user_->transport->resolve(owner_->local_descriptor()).value();
  std::vector<std::byte> memory(12'288, std::byte{7});
  std::vector<std::byte> local(8192, std::byte{1});
  ASSERT_TRUE(user_->transport->register_region(local).ok());
  const MutableByteSpan region = MutableByteSpan(memory).subspan(4096, 4096);
  const auto refused = [&](OneSidedOperation operation) {
    EXPECT_TRUE(run_until([&] { return ours.ready(peer); }));
    operation.peer = peer;
    EXPECT_EQ(ours.post(std::span(&operation, 1)), 1u);
    OneSidedCompletion completion;
    EXPECT_TRUE(run_until([&] { return ours.reap(std::span(&completion, 1)) == 1; }));
    return !completion.ok;
  };
  using Kind = OneSidedOperation::Kind;
  for (const uint8_t rights : {memory_rights::kRead, memory_rights::kWrite, memory_rights::kAtomic}) {
    const absl::StatusOr<MemoryName> name = theirs.open_region(region, rights);
    ASSERT_TRUE(name.ok()) << name.status();
    OneSidedOperation operation;
    operation.key = name->key;
    operation.address = name->address;
    for (const Kind kind : {Kind::kRead, Kind::kWrite, Kind::kFetchAdd, Kind::kCompareSwap}) {
      operation.kind = kind;
      operation.local = MutableByteSpan(local).first(8);
      const uint8_t needed = kind == Kind::kRead    ? memory_rights::kRead
                             : kind == Kind::kWrite ? memory_rights::kWrite
                                                    : memory_rights::kAtomic;
      EXPECT_EQ(refused(operation), (rights & needed) == 0) << int{rights} << " for " << static_cast<int>(kind);
    }
    operation.kind = rights == memory_rights::kWrite ? Kind::kWrite : Kind::kRead;
    for (const uint64_t offset : {uint64_t{4096}, uint64_t{4089}, UINT64_MAX}) {
      operation.address = name->address + offset;
      EXPECT_TRUE(refused(operation)) << offset;
    }
    operation.address = name->address;
    operation.local = MutableByteSpan(local).first(4097);
    EXPECT_TRUE(refused(operation));
    operation.local = MutableByteSpan(local).first(8);
    theirs.close_region(name->key);
    EXPECT_TRUE(refused(operation)) << "after it was closed";
  }
  EXPECT_EQ(std::ranges::count(ByteSpan(memory).first(4096), std::byte{7}), 4096);
  EXPECT_EQ(std::ranges::count(ByteSpan(memory).last(4096), std::byte{7}), 4096);
  user_->transport->unregister_region(local);
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
