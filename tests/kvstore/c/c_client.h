// Clients of the C library over the in-process cluster of the client library's tests.
#ifndef SKUA_TESTS_KVSTORE_C_C_CLIENT_H_
#define SKUA_TESTS_KVSTORE_C_C_CLIENT_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "include/skua/skua.h"
#include "kvstore/c/client.h"
#include "tests/kvstore/client/threaded_cluster.h"

namespace skua::c {

inline constexpr int64_t kSecondNs = 1'000'000'000;

struct Destroy {
  void operator()(skua_client* client) const { EXPECT_EQ(skua_client_destroy(client), SKUA_OK); }
  void operator()(skua_result* result) const { skua_result_release(result); }
  void operator()(skua_batch* batch) const { skua_batch_destroy(batch); }
  void operator()(skua_options* options) const { skua_options_destroy(options); }
};
using ClientPtr = std::unique_ptr<skua_client, Destroy>;
using ResultPtr = std::unique_ptr<skua_result, Destroy>;
using BatchPtr = std::unique_ptr<skua_batch, Destroy>;
using OptionsPtr = std::unique_ptr<skua_options, Destroy>;

inline ClientPtr blocking_client(kv::ThreadedCluster& cluster) {
  auto client = kv::Client::create_over(
      [&cluster]() -> absl::StatusOr<std::unique_ptr<kv::AsyncClient>> { return cluster.make_client(); });
  EXPECT_TRUE(client.ok());
  return ClientPtr(make_blocking(*std::move(client)).release());
}

inline ClientPtr polled_client(kv::ThreadedCluster& cluster) {
  kv::ClientOptions options;
  options.spin = std::chrono::nanoseconds(0);
  return ClientPtr(make_polled(cluster.make_client(options), options.timeout.count()).release());
}

/// Polls until `done()`: for 60 seconds at most.
inline void poll_until(skua_client* client, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done() && std::chrono::steady_clock::now() < end) {
    ASSERT_EQ(skua_poll(client, kSecondNs / 10, nullptr), SKUA_OK);
  }
  ASSERT_TRUE(done());
}

/// Forks. Returns 0 if `check` was true in the child, 1 if it was false, and another number if the child did not end
/// well. The child has 60 seconds.
template <typename Check>
int exit_code_of_child(Check check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(check() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : status;
}

inline std::string str(skua_bytes bytes) {
  return bytes.length == 0 ? std::string() : std::string(static_cast<const char*>(bytes.data), bytes.length);
}

inline skua_bytes bytes(const std::string& text) {
  return {text.data(), text.size()};
}

}  // namespace skua::c

#endif  // SKUA_TESTS_KVSTORE_C_C_CLIENT_H_
