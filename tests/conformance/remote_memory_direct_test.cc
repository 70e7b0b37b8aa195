// Remote memory by the transport itself, where the transport has one-sided operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/transport/one_sided.h"
#include "tests/conformance/remote_memory_fixture.h"

namespace skua::rpc::conformance {
namespace {

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

}  // namespace
}  // namespace skua::rpc::conformance
