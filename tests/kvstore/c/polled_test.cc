#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/kvstore/c/c_client.h"

namespace skua::c {
namespace {

constexpr int kLimitMs = 60'000;

/// Runs a function with each result. Lives until the callback has run.
struct Waiter {
  std::function<void(const skua_result*)> use = [](const skua_result*) {};
  size_t calls = 0;

  static void callback(void* context, const skua_result* result) {
    auto* const self = static_cast<Waiter*>(context);
    ++self->calls;
    self->use(result);
  }
};

skua_code put(skua_client* client, const char* key, const std::string& value, Waiter& waiter,
              skua_error* error = nullptr) {
  return skua_async_put(client, "t", skua_text(key), bytes(value), nullptr, Waiter::callback, &waiter, error);
}

skua_code get(skua_client* client, const char* key, Waiter& waiter) {
  return skua_async_get(client, "t", skua_text(key), nullptr, Waiter::callback, &waiter, nullptr);
}

TEST(Polled, DoesEachOperation) {
  kv::ThreadedCluster cluster(2, 4);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  skua_error error = SKUA_ERROR_INIT;
  ASSERT_EQ(skua_warm_up(c, "t", 60 * kSecondNs, &error), SKUA_OK) << error.text;
  const skua_bytes key = skua_text("n");
  std::string value;
  int64_t sum = 0;
  size_t entries = 0;
  Waiter step;
  step.use = [&](const skua_result* result) {
    EXPECT_EQ(skua_result_code(result), SKUA_OK) << skua_result_text(result);
    value = str(skua_result_value(result));
    sum = skua_result_number(result);
    entries = skua_result_entry_count(result);
  };
  size_t steps = 0;
  const auto run = [&](skua_code accepted) {
    EXPECT_EQ(accepted, SKUA_OK) << error.text;
    EXPECT_EQ(skua_in_flight(c), 1u);
    ++steps;
    poll_until(c, [&] { return step.calls == steps; });
    EXPECT_EQ(skua_in_flight(c), 0u);
  };
  run(skua_async_put(c, "t", key, skua_text("41"), nullptr, Waiter::callback, &step, &error));
  run(skua_async_add(c, "t", key, 1, nullptr, Waiter::callback, &step, &error));
  EXPECT_EQ(sum, 42);
  run(skua_async_append(c, "t", key, skua_text("0"), nullptr, Waiter::callback, &step, &error));
  run(skua_async_expire(c, "t", key, 60 * kSecondNs, nullptr, Waiter::callback, &step, &error));
  run(skua_async_get(c, "t", key, nullptr, Waiter::callback, &step, &error));
  EXPECT_EQ(value, "420");
  run(skua_async_multi_get(c, "t", &key, 1, nullptr, Waiter::callback, &step, &error));
  EXPECT_EQ(entries, 1u);
  run(skua_async_scan(c, "t", nullptr, nullptr, Waiter::callback, &step, &error));
  EXPECT_EQ(entries, 1u);
  const skua_field field = {skua_text("a"), skua_text("b")};
  run(skua_async_patch(c, "t", skua_text("row"), &field, 1, true, nullptr, Waiter::callback, &step, &error));
  const BatchPtr batch(skua_batch_create());
  skua_batch_add(batch.get(), key, 1, nullptr);
  run(skua_async_batch_run(c, "t", batch.get(), nullptr, Waiter::callback, &step, &error));
  EXPECT_EQ(entries, 1u);
  run(skua_async_remove(c, "t", key, nullptr, Waiter::callback, &step, &error));
}

TEST(Polled, KeptResultsOutliveTheClient_AndMayBeReleasedAnywhere) {
  std::vector<skua_result*> kept;
  {
    kv::ThreadedCluster cluster(2, 4);
    const ClientPtr client = polled_client(cluster);
    Waiter written;
    const std::string large(200'000, 'x');
    ASSERT_EQ(put(client.get(), "small", "s", written), SKUA_OK);
    ASSERT_EQ(put(client.get(), "large", large, written), SKUA_OK);
    poll_until(client.get(), [&] { return written.calls == 2; });
    Waiter keeper;
    keeper.use = [&](const skua_result* result) {
      kept.push_back(skua_result_keep(result));
      skua_result_release(const_cast<skua_result*>(result));  // not the caller's: left alone
      EXPECT_EQ(skua_result_code(result), SKUA_OK);
    };
    const skua_bytes keys[] = {skua_text("large"), skua_text("small")};
    ASSERT_EQ(get(client.get(), "large", keeper), SKUA_OK);
    poll_until(client.get(), [&] { return keeper.calls == 1; });
    ASSERT_EQ(skua_async_multi_get(client.get(), "t", keys, 2, nullptr, Waiter::callback, &keeper, nullptr), SKUA_OK);
    poll_until(client.get(), [&] { return keeper.calls == 2; });
    ASSERT_EQ(skua_async_scan(client.get(), "t", nullptr, nullptr, Waiter::callback, &keeper, nullptr), SKUA_OK);
    poll_until(client.get(), [&] { return keeper.calls == 3; });
  }
  std::thread other([&] {
    EXPECT_EQ(skua_result_value(kept[0]).length, 200'000u);
    skua_entry entry = SKUA_ENTRY_INIT;
    for (const size_t many : {1u, 2u}) {
      ASSERT_EQ(skua_result_entry_count(kept[many]), 2u);
      ASSERT_TRUE(skua_result_entry(kept[many], 0, &entry));
      EXPECT_EQ(str(entry.value), std::string(200'000, 'x'));
      ASSERT_TRUE(skua_result_entry(kept[many], 1, &entry));
      EXPECT_EQ(str(entry.value), "s");
    }
    EXPECT_EQ(str(entry.key), "small");
    for (skua_result* result : kept) skua_result_release(result);
  });
  other.join();
}

TEST(Polled, AGetTellsAll_InItsCallbackAndWhenKept) {
  ResultPtr kept;
  ResultPtr missing;
  uint64_t version = 0;
  skua_token token{};
  {
    kv::ThreadedCluster cluster(2, 4);
    const ClientPtr client = polled_client(cluster);
    skua_client* const c = client.get();
    Waiter written;
    written.use = [&](const skua_result* result) {
      version = skua_result_version(result);
      token = skua_result_token(result);
    };
    skua_write_options for_a_minute = SKUA_WRITE_OPTIONS_INIT;
    for_a_minute.ttl_ns = 60 * kSecondNs;
    ASSERT_EQ(
        skua_async_put(c, "t", skua_text("k"), skua_text("v"), &for_a_minute, Waiter::callback, &written, nullptr),
        SKUA_OK);
    poll_until(c, [&] { return written.calls == 1; });
    Waiter read;
    read.use = [&](const skua_result* result) {
      EXPECT_EQ(skua_result_version(result), version);
      EXPECT_EQ(skua_result_token(result).index, token.index);
      EXPECT_EQ(skua_result_ttl_ms(result), 60'000);
      EXPECT_EQ(skua_result_number(result), 0);
      EXPECT_STREQ(skua_result_text(result), "");
      kept.reset(skua_result_keep(result));
    };
    skua_read_options with_ttl = SKUA_READ_OPTIONS_INIT;
    with_ttl.with_ttl = true;
    ASSERT_EQ(skua_async_get(c, "t", skua_text("k"), &with_ttl, Waiter::callback, &read, nullptr), SKUA_OK);
    Waiter none;
    none.use = [&](const skua_result* result) { missing.reset(skua_result_keep(result)); };
    ASSERT_EQ(get(c, "nobody", none), SKUA_OK);
    poll_until(c, [&] { return read.calls == 1 && none.calls == 1; });
  }
  EXPECT_EQ(skua_result_code(kept.get()), SKUA_OK);
  EXPECT_EQ(skua_result_outcome(kept.get()), SKUA_ANSWERED);
  EXPECT_EQ(str(skua_result_value(kept.get())), "v");
  EXPECT_NE(version, 0u);
  EXPECT_EQ(skua_result_version(kept.get()), version);
  const skua_token of_kept = skua_result_token(kept.get());
  EXPECT_EQ(of_kept.table_id, token.table_id);
  EXPECT_EQ(of_kept.shard, token.shard);
  EXPECT_EQ(of_kept.index, token.index);
  EXPECT_EQ(skua_result_ttl_ms(kept.get()), 60'000);
  EXPECT_EQ(skua_result_code(missing.get()), SKUA_NOT_FOUND);
  EXPECT_EQ(skua_result_outcome(missing.get()), SKUA_ANSWERED);
  EXPECT_EQ(skua_result_ttl_ms(missing.get()), -1);
  EXPECT_EQ(skua_result_value(missing.get()).length, 0u);
}

/// Operations are used again, and keep the table of their last use.
TEST(Polled, EachGetAsksTheTableThatItNames) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  Waiter written;
  ASSERT_EQ(put(c, "k", "v", written), SKUA_OK);
  poll_until(c, [&] { return written.calls == 1; });
  skua_read_options soon = SKUA_READ_OPTIONS_INIT;
  soon.timeout_ns = kSecondNs / 100;
  for (int round = 0; round < 2; ++round) {
    for (const char* table : {"t", "tt", "t", "u"}) {
      const bool exists = std::string(table) == "t";
      Waiter read;
      read.use = [&](const skua_result* result) { EXPECT_EQ(skua_result_code(result) == SKUA_OK, exists) << table; };
      ASSERT_EQ(skua_async_get(c, table, skua_text("k"), exists ? nullptr : &soon, Waiter::callback, &read, nullptr),
                SKUA_OK);
      poll_until(c, [&] { return read.calls == 1; });
    }
  }
  Waiter refused;
  EXPECT_EQ(skua_async_get(c, "", skua_text("k"), nullptr, Waiter::callback, &refused, nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(skua_async_get(c, "t", skua_text(""), nullptr, Waiter::callback, &refused, nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(skua_async_get(c, "t", {nullptr, 1}, nullptr, Waiter::callback, &refused, nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(skua_async_get(c, nullptr, skua_text("k"), nullptr, Waiter::callback, &refused, nullptr),
            SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(refused.calls, 0u);
}

TEST(Polled, CallbacksMaySubmit_AndNothingElse) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  Waiter second;
  Waiter first;
  first.use = [&](const skua_result*) {
    EXPECT_EQ(get(c, "k", second), SKUA_OK);
    EXPECT_EQ(skua_poll(c, 0, nullptr), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(skua_warm_up(c, "t", 1, nullptr), SKUA_INVALID_ARGUMENT);
    int64_t longest = 0;
    EXPECT_FALSE(skua_begin_wait(c, &longest));
    EXPECT_EQ(skua_client_destroy(c), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(skua_adopt_thread(c), SKUA_INVALID_ARGUMENT);
  };
  ASSERT_EQ(put(c, "k", "v", first), SKUA_OK);
  poll_until(c, [&] { return second.calls == 1; });
  EXPECT_EQ(first.calls, 1u);
}

TEST(Polled, ADestroyedClientCancels_AndTakesNothingMore) {
  kv::ThreadedCluster cluster(1, 1);
  skua_client* const client = polled_client(cluster).release();
  Waiter refused;
  Waiter waiter;
  waiter.use = [&](const skua_result* result) {
    EXPECT_EQ(skua_result_code(result), SKUA_CANCELLED);
    skua_error error = SKUA_ERROR_INIT;
    EXPECT_EQ(put(client, "k", "v", refused, &error), SKUA_CANCELLED);
    EXPECT_STREQ(error.text, "the client is closing");
    EXPECT_EQ(skua_client_destroy(client), SKUA_CANCELLED);
  };
  ASSERT_EQ(put(client, "k", "v", waiter), SKUA_OK);
  EXPECT_EQ(skua_client_destroy(client), SKUA_OK);
  EXPECT_EQ(waiter.calls, 1u);
  EXPECT_EQ(refused.calls, 0u);
}

TEST(Polled, OtherThreadsAreRefused_UntilTheyAdoptTheClient) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  Waiter waiter;
  std::thread([&] {
    EXPECT_EQ(put(c, "k", "v", waiter), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(skua_poll(c, 0, nullptr), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(skua_client_destroy(c), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(skua_wait_fd(c), -1);
    EXPECT_EQ(skua_adopt_thread(c), SKUA_OK);
    EXPECT_EQ(put(c, "k", "v", waiter), SKUA_OK);
    poll_until(c, [&] { return waiter.calls == 1; });
  }).join();
  EXPECT_EQ(skua_poll(c, 0, nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(skua_adopt_thread(c), SKUA_OK);
}

TEST(Polled, ALaterThreadIsAnotherThread) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  std::thread::id ended;
  std::thread([&] {
    ended = std::this_thread::get_id();
    EXPECT_EQ(skua_adopt_thread(c), SKUA_OK);
  }).join();
  // The system likes to give the id to the next thread, and often its memory as well.
  bool is_reused = false;
  for (int i = 0; i < 100 && !is_reused; ++i) {
    std::thread([&] {
      is_reused = std::this_thread::get_id() == ended;
      EXPECT_EQ(skua_poll(c, 0, nullptr), SKUA_INVALID_ARGUMENT);
      EXPECT_EQ(skua_in_flight(c), 0u);
    }).join();
  }
  EXPECT_TRUE(is_reused);
  EXPECT_EQ(skua_adopt_thread(c), SKUA_OK);
}

TEST(Polled, AChildOfForkIsRefused) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  Waiter waiter;
  EXPECT_EQ(exit_code_of_child([&] {
              int64_t longest_ns = 0;
              skua_error error = SKUA_ERROR_INIT;
              return put(c, "k", "v", waiter, &error) == SKUA_INVALID_ARGUMENT &&
                     std::string(error.text).find("fork()") != std::string::npos &&
                     skua_poll(c, 0, nullptr) == SKUA_INVALID_ARGUMENT && !skua_begin_wait(c, &longest_ns) &&
                     skua_wait_fd(c) == -1 && skua_adopt_thread(c) == SKUA_INVALID_ARGUMENT &&
                     !skua_post(
                         c, [](void*) {}, nullptr) &&
                     skua_client_destroy(c) == SKUA_OK;
            }),
            0);
  // The parent's client is whole.
  ASSERT_EQ(put(c, "k", "v", waiter), SKUA_OK);
  poll_until(c, [&] { return waiter.calls == 1; });
}

TEST(Polled, FitsIntoAnEventLoop) {
  kv::ThreadedCluster cluster(2, 4);
  const ClientPtr client = polled_client(cluster);
  skua_client* const c = client.get();
  pollfd watched{.fd = skua_wait_fd(c), .events = POLLIN, .revents = 0};
  ASSERT_GE(watched.fd, 0);
  Waiter waiter;
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(put(c, key, std::string(50'000, 'v'), waiter), SKUA_OK);
  while (waiter.calls < 3) {
    ASSERT_EQ(skua_poll(c, 0, nullptr), SKUA_OK);
    int64_t longest_ns = -1;
    if (!skua_begin_wait(c, &longest_ns)) continue;
    ASSERT_GE(longest_ns, 0);
    // All that polls, submits or ends is refused while the loop sleeps.
    EXPECT_EQ(skua_poll(c, 0, nullptr), SKUA_INVALID_ARGUMENT);
    EXPECT_EQ(put(c, "k", "v", waiter), SKUA_INVALID_ARGUMENT);
    EXPECT_FALSE(skua_begin_wait(c, &longest_ns));
    EXPECT_EQ(skua_wait_fd(c), watched.fd);
    const int64_t ms = std::min<int64_t>(longest_ns / 1'000'000 + 1, kLimitMs);
    ASSERT_GE(::poll(&watched, 1, static_cast<int>(ms)), 0);
    ASSERT_EQ(skua_end_wait(c), SKUA_OK);
    EXPECT_EQ(skua_end_wait(c), SKUA_INVALID_ARGUMENT);
  }
}

TEST(Polled, MayEndWhileItWaits) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  int64_t longest_ns = 0;
  while (!skua_begin_wait(client.get(), &longest_ns)) ASSERT_EQ(skua_poll(client.get(), 0, nullptr), SKUA_OK);
}

TEST(Polled, RunsTasksOfOtherThreads) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  bool ran = false;
  std::thread([&] {
    EXPECT_TRUE(skua_post(
        client.get(), [](void* context) { *static_cast<bool*>(context) = true; }, &ran));
  }).join();
  poll_until(client.get(), [&] { return ran; });
}

TEST(Polled, RunsTasksThatWait_WhenItIsDestroyed) {
  kv::ThreadedCluster cluster(1, 1);
  skua_client* const client = polled_client(cluster).release();
  struct Task {
    skua_client* client;
    Waiter refused;
    skua_code code = SKUA_OK;
  } task{client, {}};
  ASSERT_TRUE(skua_post(
      client,
      [](void* context) {
        auto* const self = static_cast<Task*>(context);
        self->code = put(self->client, "k", "v", self->refused);
      },
      &task));
  EXPECT_EQ(skua_client_destroy(client), SKUA_OK);
  EXPECT_EQ(task.code, SKUA_CANCELLED);
  EXPECT_EQ(task.refused.calls, 0u);
}

TEST(Polled, RunsAllTasksThatWait_WhenItIsDestroyed) {
  kv::ThreadedCluster cluster(1, 1);
  skua_client* const client = polled_client(cluster).release();
  constexpr int kTasks = 4000;
  int ran = 0;
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(skua_post(
        client, [](void* context) { ++*static_cast<int*>(context); }, &ran));
  }
  EXPECT_EQ(skua_client_destroy(client), SKUA_OK);
  EXPECT_EQ(ran, kTasks);
}

TEST(Polled, RefusesWhatMakesNoSense) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = polled_client(cluster);
  skua_error error = SKUA_ERROR_INIT;
  EXPECT_EQ(skua_async_get(client.get(), "t", skua_text("k"), nullptr, nullptr, nullptr, &error),
            SKUA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.text, "callback must not be NULL");
  Waiter waiter;
  EXPECT_EQ(put(client.get(), "", "v", waiter, &error), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(put(nullptr, "k", "v", waiter, &error), SKUA_INVALID_ARGUMENT);
  size_t callbacks = 7;
  EXPECT_EQ(skua_poll(client.get(), -1, &callbacks), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(callbacks, 0u);
  for (const int64_t timeout_ns : {int64_t{-1}, 3601 * kSecondNs, INT64_MAX}) {
    EXPECT_EQ(skua_warm_up(client.get(), "t", timeout_ns, nullptr), SKUA_INVALID_ARGUMENT);
  }
  const ResultPtr refused(skua_get(client.get(), "t", skua_text("k"), nullptr));
  EXPECT_EQ(skua_result_code(refused.get()), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(waiter.calls, 0u);
}

}  // namespace
}  // namespace skua::c
