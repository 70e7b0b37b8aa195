// Writes whose values are lent. Their memory cannot be read any more once it is released: whoever reads it later, gets
// SIGSEGV, or EFAULT from the kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/kvstore/c/c_client.h"

namespace skua::c {
namespace {

constexpr size_t kValueMax = size_t{16} << 20;

/// A value that can be lent once, at the end of pages of its own. May be released on any thread.
class LentValue {
 public:
  explicit LentValue(std::string_view bytes) : size_(bytes.size()) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size_ / page + 1) * page;
    pages_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(pages_, MAP_FAILED);
    std::copy(bytes.begin(), bytes.end(), pages_ + mapped_ - size_);
  }
  LentValue(const LentValue&) = delete;
  LentValue& operator=(const LentValue&) = delete;
  ~LentValue() { munmap(pages_, mapped_); }

  [[nodiscard]] skua_bytes bytes() const { return {pages_ + mapped_ - size_, size_}; }
  static void release(void* context) {
    auto* const self = static_cast<LentValue*>(context);
    EXPECT_EQ(mprotect(self->pages_, self->mapped_, PROT_NONE), 0);
    self->thread = std::this_thread::get_id();
    ++self->releases;
  }

  std::atomic<int> releases = 0;
  std::thread::id thread;  // that released it

 private:
  const size_t size_;
  size_t mapped_ = 0;
  char* pages_ = nullptr;
};

/// How operations ended. Lives until their callbacks have run.
struct Ended {
  std::vector<skua_code> codes;

  static void callback(void* context, const skua_result* result) {
    static_cast<Ended*>(context)->codes.push_back(skua_result_code(result));
  }
};

/// Arguments of a call, all of them right. Tests change one.
struct Call {
  skua_client* client;
  const char* table = "t";
  skua_bytes key = skua_text("k");
  skua_write_options options = SKUA_WRITE_OPTIONS_INIT;
  skua_callback callback = Ended::callback;

  skua_code put(LentValue& value, Ended& ended, skua_error* error = nullptr) const {
    return skua_async_put_lend(client, table, key, value.bytes(), LentValue::release, &value, &options, callback,
                               &ended, error);
  }
  skua_code append(LentValue& value, Ended& ended, skua_error* error = nullptr) const {
    return skua_async_append_lend(client, table, key, value.bytes(), LentValue::release, &value, &options, callback,
                                  &ended, error);
  }
};

std::string pattern(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 2654435761u + seed) >> 13);
  return bytes;
}

/// What the store has, as another client sees it.
std::string stored(kv::ThreadedCluster& cluster, const std::string& key) {
  const ClientPtr client = polled_client(cluster);
  struct Read {
    bool has_ended = false;
    std::string value;
  } read;
  const auto on_read = [](void* context, const skua_result* result) {
    EXPECT_EQ(skua_result_code(result), SKUA_OK) << skua_result_text(result);
    *static_cast<Read*>(context) = {true, str(skua_result_value(result))};
  };
  EXPECT_EQ(skua_async_get(client.get(), "t", bytes(key), nullptr, on_read, &read, nullptr), SKUA_OK);
  poll_until(client.get(), [&] { return read.has_ended; });
  return read.value;
}

/// Keeps a node's thread from its work while it lives.
class Silence {
 public:
  explicit Silence(kv::ThreadedCluster& cluster)
      : thread_([this, &cluster] {
          cluster.on_node(0, [this](kv::FakeNode&) {
            silent_.count_down();
            over_.wait();
          });
        }) {
    silent_.wait();
  }
  ~Silence() {
    over_.count_down();
    thread_.join();
  }

 private:
  std::latch silent_{1};
  std::latch over_{1};
  std::thread thread_;
};

TEST(Lend, PutsAndAppendsValuesOfAllSizes_AndReleasesThemOnce) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  uint32_t seed = 0;
  for (const size_t size : {0u, 1u, 200u, 256u, 3'000u, 20'000u, 70'000u, 3u << 20}) {
    const std::string bytes = pattern(size, ++seed);
    LentValue put(bytes);
    LentValue append(bytes);
    Ended ended;
    ASSERT_EQ(Call{client.get()}.put(put, ended), SKUA_OK);
    EXPECT_EQ(put.releases, 0) << "inside the call that was accepted";
    poll_until(client.get(), [&] { return ended.codes.size() == 1 && put.releases > 0; });
    ASSERT_EQ(Call{client.get()}.append(append, ended), SKUA_OK);
    poll_until(client.get(), [&] { return ended.codes.size() == 2 && append.releases > 0; });
    EXPECT_THAT(ended.codes, ::testing::Each(SKUA_OK));
    EXPECT_TRUE(stored(cluster, "k") == bytes + bytes) << size;
    for (const LentValue* value : {&put, &append}) {
      EXPECT_EQ(value->releases, 1);
      EXPECT_EQ(value->thread, std::this_thread::get_id());
    }
  }
}

TEST(Lend, IsReleasedAtOnceIfTheCallIsRefused) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  const ClientPtr blocking = blocking_client(cluster);
  const std::string long_key(2'000, 'k');
  skua_client* const c = client.get();
  std::vector<Call> refused(10, Call{c});
  refused[0].client = nullptr;
  refused[1].client = blocking.get();
  refused[2].table = nullptr;
  refused[3].table = "";
  refused[4].key = {nullptr, 3};
  refused[5].key = bytes(long_key);
  refused[6].callback = nullptr;
  refused[7].options.size = 3;
  refused[8].options.timeout_ns = -1;
  refused[9].options.if_absent = refused[9].options.if_present = 1;
  for (size_t i = 0; i < refused.size(); ++i) {
    LentValue put("value");
    LentValue append("value");
    Ended ended;
    skua_error error = SKUA_ERROR_INIT;
    EXPECT_EQ(refused[i].put(put, ended, &error), SKUA_INVALID_ARGUMENT) << i;
    EXPECT_STRNE(error.text, "") << i;
    EXPECT_EQ(refused[i].append(append, ended), SKUA_INVALID_ARGUMENT) << i;
    EXPECT_EQ(put.releases, 1) << i;
    EXPECT_EQ(append.releases, 1) << i;
    EXPECT_TRUE(ended.codes.empty());
  }
  LentValue too_large(std::string(kValueMax + 1, 'x'));
  LentValue elsewhere("value");
  Ended ended;
  EXPECT_EQ(Call{c}.put(too_large, ended), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(too_large.releases, 1);
  std::thread other([&] { EXPECT_EQ(Call{c}.put(elsewhere, ended), SKUA_INVALID_ARGUMENT); });
  const std::thread::id other_id = other.get_id();
  other.join();
  EXPECT_EQ(elsewhere.releases, 1);
  EXPECT_EQ(elsewhere.thread, other_id);
}

TEST(Lend, IsReleasedAtOnceIfTheClientWaits_OrHasNoRoom) {
  kv::ThreadedCluster cluster(1, 1);
  kv::ClientOptions options;
  options.operations_max = 1;
  const ClientPtr client(make_polled(cluster.make_client(options), options.timeout.count()).release());
  skua_client* const c = client.get();
  LentValue first("value");
  LentValue second("value");
  LentValue waiting("value");
  Ended ended;
  ASSERT_EQ(Call{c}.put(first, ended), SKUA_OK);
  EXPECT_EQ(Call{c}.put(second, ended), SKUA_RESOURCE_EXHAUSTED);
  EXPECT_EQ(second.releases, 1);
  poll_until(c, [&] { return first.releases == 1; });
  int64_t longest_ns = 0;
  while (!skua_begin_wait(c, &longest_ns)) ASSERT_EQ(skua_poll(c, 0, nullptr), SKUA_OK);
  EXPECT_EQ(Call{c}.put(waiting, ended), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(waiting.releases, 1);
  EXPECT_EQ(skua_end_wait(c), SKUA_OK);
}

TEST(Lend, NothingIsLentWithoutARelease) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_error error = SKUA_ERROR_INIT;
  Ended ended;
  EXPECT_EQ(skua_async_put_lend(client.get(), "t", skua_text("k"), skua_text("v"), nullptr, nullptr, nullptr,
                                Ended::callback, &ended, &error),
            SKUA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.text, "release must not be NULL");
  EXPECT_EQ(skua_in_flight(client.get()), 0u);
}

TEST(Lend, LastsAsLongAsTheWriteIsTriedAgain) {
  kv::ThreadedCluster cluster(1, 1);
  const std::string bytes = pattern(300'000, 7);
  LentValue value(bytes);
  std::atomic<int> attempts = 0;
  std::atomic<int> releases_seen = 0;
  cluster.on_node(0, [&](kv::FakeNode& node) {
    node.script = [&](rpc::IncomingCall& call) {
      releases_seen += value.releases;
      if (++attempts > 4) return false;
      kv::FakeNode::reply_error(call, kv::KvStatus::kUnavailable, "not now");
      return true;
    };
  });
  const ClientPtr client = polled_client(cluster);
  Ended ended;
  ASSERT_EQ(Call{client.get()}.put(value, ended), SKUA_OK);
  poll_until(client.get(), [&] { return ended.codes.size() == 1 && value.releases > 0; });
  EXPECT_EQ(ended.codes[0], SKUA_OK);
  EXPECT_EQ(attempts, 5);
  EXPECT_EQ(releases_seen, 0);
  EXPECT_EQ(value.releases, 1);
  EXPECT_TRUE(stored(cluster, "k") == bytes);
}

/// Eight values that do not fit between the client and a node that reads nothing.
std::vector<std::unique_ptr<LentValue>> large_values() {
  std::vector<std::unique_ptr<LentValue>> values;
  for (uint32_t i = 0; i < 8; ++i) values.push_back(std::make_unique<LentValue>(pattern(8u << 20, i)));
  return values;
}

int released(const std::vector<std::unique_ptr<LentValue>>& values) {
  int count = 0;
  for (const auto& value : values) count += value->releases;
  return count;
}

TEST(Lend, LastsLongerThanItsOperationIfTheNodeIsSilent) {
  const auto values = large_values();
  Ended ended;
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  ASSERT_EQ(skua_warm_up(c, "t", 60 * kSecondNs, nullptr), SKUA_OK);
  {
    const Silence silence(cluster);
    Call call{c};
    call.options.timeout_ns = kSecondNs / 5;
    for (const auto& value : values) ASSERT_EQ(call.put(*value, ended), SKUA_OK);
    poll_until(c, [&] { return ended.codes.size() == values.size(); });
    EXPECT_THAT(ended.codes, ::testing::Each(SKUA_DEADLINE_EXCEEDED));
    EXPECT_LT(released(values), 8) << "all operations have ended, and bytes of the first are still to be sent";
  }
  poll_until(c, [&] { return released(values) == 8; });
  for (const auto& value : values) EXPECT_EQ(value->releases, 1);
  // The connection is whole.
  LentValue later("later");
  ASSERT_EQ(Call{c}.put(later, ended), SKUA_OK);
  poll_until(c, [&] { return ended.codes.size() == 9; });
  EXPECT_EQ(ended.codes[8], SKUA_OK);
}

TEST(Lend, IsReleasedWhenTheClientEnds_AlsoIfTheNodeIsSilent) {
  const auto values = large_values();
  Ended ended;
  kv::ThreadedCluster cluster(1, 1);
  ClientPtr client = polled_client(cluster);
  ASSERT_EQ(skua_warm_up(client.get(), "t", 60 * kSecondNs, nullptr), SKUA_OK);
  const Silence silence(cluster);
  for (const auto& value : values) ASSERT_EQ(Call{client.get()}.put(*value, ended), SKUA_OK);
  ASSERT_EQ(skua_poll(client.get(), 0, nullptr), SKUA_OK);
  EXPECT_EQ(released(values), 0);
  EXPECT_EQ(skua_client_destroy(client.release()), SKUA_OK);
  EXPECT_EQ(ended.codes, std::vector<skua_code>(8, SKUA_CANCELLED));
  for (const auto& value : values) EXPECT_EQ(value->releases, 1);
}

/// A release function that tries what it must not do, and posts a task.
struct Meddler {
  skua_client* client = nullptr;
  Ended ended;
  int releases = 0;
  int tasks = 0;

  static void release(void* context) {
    auto* const self = static_cast<Meddler*>(context);
    ++self->releases;
    skua_client* const c = self->client;
    skua_error error = SKUA_ERROR_INIT;
    EXPECT_EQ(skua_async_get(c, "t", skua_text("k"), nullptr, Ended::callback, &self->ended, &error),
              SKUA_INVALID_ARGUMENT);
    EXPECT_STREQ(error.text, "a release function must not use the client whose write it belongs to");
    EXPECT_EQ(skua_poll(c, 0, nullptr), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(skua_adopt_thread(c), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(skua_client_destroy(c), SKUA_INVALID_ARGUMENT);
    int64_t longest_ns = 0;
    EXPECT_FALSE(skua_begin_wait(c, &longest_ns));
    EXPECT_EQ(skua_end_wait(c), SKUA_INVALID_ARGUMENT);
    skua_post(
        c, [](void* meddler) { ++static_cast<Meddler*>(meddler)->tasks; }, self);
  }
  skua_code put() {
    return skua_async_put_lend(client, "t", skua_text("k"), skua_text("v"), release, this, nullptr, Ended::callback,
                               &ended, nullptr);
  }
};

TEST(Lend, AReleaseFunctionMayPost_AndNothingElse) {
  kv::ThreadedCluster cluster(1, 1);
  ClientPtr client = polled_client(cluster);
  Meddler answered{client.get(), {}};
  ASSERT_EQ(answered.put(), SKUA_OK);
  poll_until(client.get(), [&] { return answered.tasks == 1; });
  EXPECT_EQ(answered.releases, 1);
  EXPECT_EQ(answered.ended.codes, std::vector<skua_code>{SKUA_OK});
  Meddler cancelled{client.get(), {}};
  ASSERT_EQ(cancelled.put(), SKUA_OK);
  EXPECT_EQ(skua_client_destroy(client.release()), SKUA_OK);
  EXPECT_EQ(cancelled.releases, 1);
  EXPECT_EQ(cancelled.ended.codes, std::vector<skua_code>{SKUA_CANCELLED});
}

TEST(Lend, LoansAreUsedAgain) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  int ended = 0;
  const auto end = [](void* count) { ++*static_cast<int*>(count); };
  Loan& first = client->loans.begin(*client, end, &ended);
  Loan& second = client->loans.begin(*client, end, &ended);
  EXPECT_NE(&first, &second);
  Loans::end(&first);
  EXPECT_EQ(&client->loans.begin(*client, end, &ended), &first);
  Loans::end(&second);
  Loans::end(&first);
  EXPECT_EQ(ended, 3);
}

/// Writes of random sizes, right and wrong ones, in time and too late, beside a model of what the store must have.
class RandomWrites {
 public:
  explicit RandomWrites(uint32_t seed) : rng_(seed) {}

  void run(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      submit(i);
      const size_t most = below(8);
      poll_until(client_.get(), [&] { return in_flight_ <= most; });
    }
    poll_until(client_.get(), [&] { return in_flight_ == 0; });
    if (below(2) == 0) client_.reset();  // also while memory is still lent
    size_t checked = 0;
    for (const auto& [key, value] : model_) {
      if (checked++ % 8 != 0) continue;
      EXPECT_TRUE(stored(cluster_, key) == value) << key;
    }
    client_.reset();
    for (const auto& write : writes_) {
      EXPECT_EQ(write->value.releases, 1);
      EXPECT_EQ(write->callbacks, write->is_accepted ? 1 : 0);
    }
    EXPECT_GT(done_, count / 2);
  }

 private:
  struct Write {
    explicit Write(RandomWrites& all, const std::string& value_bytes) : of(all), bytes(value_bytes), value(bytes) {}
    RandomWrites& of;
    std::string key;
    std::string bytes;
    LentValue value;
    bool appends = false;
    bool is_accepted = false;
    int callbacks = 0;
  };

  size_t below(size_t limit) { return rng_() % limit; }

  void submit(size_t number) {
    static constexpr size_t kSizes[] = {10, 300, 5'000, 80'000, 1'000'000};
    writes_.push_back(std::make_unique<Write>(*this, pattern(below(kSizes[below(5)]), static_cast<uint32_t>(number))));
    Write& write = *writes_.back();
    const uint64_t kind = below(10);
    // Each key is put once and appended to once at most, after the put: what is stored does not depend on their order.
    write.appends = kind < 3 && !put_keys_.empty();
    write.key = write.appends ? put_keys_.back() : "key" + std::to_string(number);
    if (write.appends) put_keys_.pop_back();
    Call call{client_.get()};
    call.key = c::bytes(write.key);
    if (kind == 8) call.key.length = 0;
    if (kind == 9) call.options.timeout_ns = 1;
    call.callback = on_end;
    const auto function = write.appends ? skua_async_append_lend : skua_async_put_lend;
    const skua_code code = function(call.client, call.table, call.key, write.value.bytes(), LentValue::release,
                                    &write.value, &call.options, on_end, &write, nullptr);
    EXPECT_EQ(code, kind == 8 ? SKUA_INVALID_ARGUMENT : SKUA_OK);
    EXPECT_EQ(write.value.releases, kind == 8 ? 1 : 0);
    write.is_accepted = code == SKUA_OK;
    in_flight_ += write.is_accepted ? 1 : 0;
  }

  static void on_end(void* context, const skua_result* result) {
    Write& write = *static_cast<Write*>(context);
    RandomWrites& of = write.of;
    ++write.callbacks;
    --of.in_flight_;
    if (skua_result_code(result) != SKUA_OK) {
      EXPECT_EQ(skua_result_code(result), SKUA_DEADLINE_EXCEEDED) << skua_result_text(result);
      if (write.appends) of.model_.erase(write.key);
      return;
    }
    ++of.done_;
    of.model_[write.key] += write.bytes;
    if (!write.appends) of.put_keys_.push_back(write.key);
  }

  kv::ThreadedCluster cluster_{1, 1};
  ClientPtr client_ = polled_client(cluster_);
  std::mt19937 rng_;
  std::vector<std::unique_ptr<Write>> writes_;
  std::vector<std::string> put_keys_;
  std::map<std::string, std::string> model_;
  size_t in_flight_ = 0;
  size_t done_ = 0;
};

TEST(Lend, RandomWritesStoreWhatWasLent_AndReleaseEachOnce) {
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) RandomWrites(seed).run(300);
}

}  // namespace
}  // namespace skua::c
