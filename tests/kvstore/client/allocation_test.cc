// A GET in steady state takes no memory from the heap on the client's thread: operations, calls, messages and callbacks
// are recycled. Recycled operations keep no large buffers. And a result for which there is no memory is an error.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/client/batch.h"
#include "kvstore/client/batch_operation.h"
#include "kvstore/client/client.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/multi_get_operation.h"
#include "tests/kvstore/client/threaded_cluster.h"

namespace {

thread_local size_t allocation_count = 0;
/// Bytes that the thread has allocated and not freed.
thread_local int64_t live_bytes = 0;
/// Allocations of so many bytes fail, on threads that have set it.
thread_local size_t refused_bytes = SIZE_MAX;

void* counted(size_t bytes) {
  ++allocation_count;
  if (bytes >= refused_bytes) throw std::bad_alloc();
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  live_bytes += static_cast<int64_t>(::malloc_usable_size(memory));
  return memory;
}

void freed(void* memory) {
  live_bytes -= static_cast<int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes);
}
void* operator new[](size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  freed(memory);
}
void operator delete[](void* memory) noexcept {
  freed(memory);
}
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  freed(memory);
}
void operator delete[](void* memory, size_t /*bytes*/) noexcept {
  freed(memory);
}

namespace skua::kv {
namespace {

using std::chrono::milliseconds;

constexpr int kInFlight = 16;

class SteadyReads {
 public:
  explicit SteadyReads(AsyncClient& client) : client_(client) {
    for (int i = 0; i < kInFlight; ++i) keys_.push_back("user" + std::to_string(6284781860667377211 + i));
    for (const std::string& key : keys_) {
      EXPECT_TRUE(client_
                      .put("t", key, std::string(100, 'v'), {},
                           [this](WriteResult&& result) { written_ += result.ok() ? 1 : 0; })
                      .ok());
    }
    while (client_.in_flight() > 0) client_.poll(milliseconds(10));
    EXPECT_EQ(written_, kInFlight);
  }

  /// Rounds of kInFlight GETs; how many found a value of 100 bytes.
  int run(int rounds) {
    found_ = 0;
    for (int round = 0; round < rounds; ++round) {
      for (const std::string& key : keys_) {
        const absl::Status accepted = client_.get("t", key, {}, [this](GetResult&& result) {
          found_ += result.ok() && result.value.bytes().size() == 100 ? 1 : 0;
        });
        if (!accepted.ok()) return -1;
      }
      while (client_.in_flight() > 0) client_.poll(milliseconds(10));
    }
    return found_;
  }

 private:
  AsyncClient& client_;
  std::vector<std::string> keys_;
  int written_ = 0;
  int found_ = 0;
};

TEST(Get, AllocatesNothingInSteadyState) {
  ThreadedCluster cluster(1, 4);
  const auto client = cluster.make_client();
  ASSERT_TRUE(client->warm_up("t", milliseconds(10'000)).ok());
  SteadyReads reads(*client);
  ASSERT_EQ(reads.run(1000), 1000 * kInFlight);  // buffers have their sizes
  const size_t before = allocation_count;
  ASSERT_GT(before, 0u) << "allocations are not counted";
  const int found = reads.run(1000);
  const size_t allocated = allocation_count - before;
  EXPECT_EQ(found, 1000 * kInFlight);
  EXPECT_EQ(allocated, 0u);
}

/// What an operation that `accept` has filled holds: first while it is used, then in its pool.
template <typename Kind, typename Accept>
std::pair<int64_t, int64_t> held_bytes(const Accept& accept) {
  OperationPool<Kind> pool;
  const int64_t before = live_bytes;
  Kind& operation = pool.take();
  EXPECT_TRUE(accept(operation).ok());
  const int64_t used = live_bytes - before;
  operation.drop();
  return {used, live_bytes - before};
}

TEST(OperationPool, KeepsNoLargeBuffers) {
  const std::string value(size_t{1} << 20, 'v');
  Batch batch;
  for (int i = 0; i < 4; ++i) batch.put("key", value);
  const auto [batch_used, batch_kept] = held_bytes<BatchOperation>([&](BatchOperation& operation) {
    return operation.accept(BatchCall{"t", batch, {}}, {});
  });
  EXPECT_GT(batch_used, 4 << 20) << "allocations are not counted";
  EXPECT_LT(batch_kept, static_cast<int64_t>(kOperationBytesKept));

  const std::string key(kKeyBytesMax, 'k');
  const std::vector<std::string_view> keys(kBatchOpsMax, key);
  const auto [keys_used, keys_kept] = held_bytes<MultiGetOperation>([&](MultiGetOperation& operation) {
    return operation.accept(MultiGetCall{"t", keys, {}}, {});
  });
  EXPECT_GT(keys_used, 1 << 20) << "allocations are not counted";
  EXPECT_LT(keys_kept, static_cast<int64_t>(kOperationBytesKept));
}

TEST(BlockingClient, AResultWithoutMemoryIsAnError) {
  constexpr size_t kLarge = size_t{1} << 20;
  ThreadedCluster cluster(1, 4);
  const auto client = Client::create_over([&]() -> absl::StatusOr<std::unique_ptr<AsyncClient>> {
    refused_bytes = kLarge;  // this is the client's thread
    return cluster.make_client();
  });
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->put("t", "large", std::string(kLarge, 'v')).ok());
  ASSERT_TRUE((*client)->put("t", "small", "v").ok());
  const std::string value(kLarge, 'v');
  const WriteResult refused = (*client)->put("t", "large", value);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_FALSE(refused.may_have_been_applied);
  const ReadResult large = (*client)->get("t", "large");
  EXPECT_TRUE(absl::IsResourceExhausted(large.status)) << large.status;
  EXPECT_TRUE(absl::IsResourceExhausted((*client)->scan("t", {}).status));
  EXPECT_EQ((*client)->get("t", "small").value, "v") << "the client goes on";
}

}  // namespace
}  // namespace skua::kv
