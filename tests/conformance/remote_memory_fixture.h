// What the tests of remote memory share: an owner and users over a fabric, and operations that end before they return.
#ifndef SKUA_TESTS_CONFORMANCE_REMOTE_MEMORY_FIXTURE_H_
#define SKUA_TESTS_CONFORMANCE_REMOTE_MEMORY_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rpc/endpoint.h"
#include "rpc/remote_memory.h"
#include "tests/conformance/fabric.h"

namespace skua::rpc::conformance {

// A close that a lossy fabric loses is made up for by the end of the lease: tests wait for it.
inline constexpr DurationNs kLease = 10 * kSecond;

/// An endpoint that uses the owner's memory.
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

/// An owner, and a user or two.
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

}  // namespace skua::rpc::conformance

#endif  // SKUA_TESTS_CONFORMANCE_REMOTE_MEMORY_FIXTURE_H_
