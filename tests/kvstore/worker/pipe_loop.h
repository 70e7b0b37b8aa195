// A loop for tests: it waits for bytes in a pipe, and for its host.
#ifndef SKUA_TESTS_KVSTORE_WORKER_PIPE_LOOP_H_
#define SKUA_TESTS_KVSTORE_WORKER_PIPE_LOOP_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "rpc/base/clock.h"
#include "rpc/base/hosted_loop.h"
#include "rpc/base/owned_fd.h"

namespace skua::kv::testing {

/// Thread: any, but for what HostedLoop says.
class PipeLoop final : public HostedLoop {
 public:
  PipeLoop() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read_end_ = OwnedFd(ends[0]);
    write_end_ = OwnedFd(ends[1]);
  }

  /// Something that the loop has to do.
  void tell() { EXPECT_EQ(write(write_end_.get(), "t", 1), 1); }
  void wait_until_told(int times) const {
    for (int now = told_; now < times; now = told_) told_.wait(now);
  }
  void end() {
    ends_ = true;
    tell();
  }
  [[nodiscard]] bool has_had_last_turn() const { return has_had_last_turn_; }

  void begin(HostWait* wait) override { host_ = wait; }
  bool turn() override {
    if (const DurationNs host_ns = host_->begin(); host_ns > 0) {
      std::array<pollfd, 2> wanted = {{{.fd = read_end_.get(), .events = POLLIN, .revents = 0},
                                       {.fd = host_->fd(), .events = POLLIN, .revents = 0}}};
      poll(wanted.data(), wanted.size(), static_cast<int>(std::min(host_ns / kMillisecond + 1, DurationNs{1'000'000})));
      host_->end();
    }
    char byte = 0;
    while (read(read_end_.get(), &byte, 1) == 1) {
      ++told_;
      told_.notify_all();
    }
    has_had_last_turn_ = ends_.load();
    return !ends_;
  }

 private:
  OwnedFd read_end_;
  OwnedFd write_end_;
  HostWait* host_ = nullptr;
  std::atomic<int> told_{0};
  std::atomic<bool> ends_{false};
  std::atomic<bool> has_had_last_turn_{false};
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_WORKER_PIPE_LOOP_H_
