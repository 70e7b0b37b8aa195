// CommandTask: a command's handler, as a coroutine.
//
//   CommandTask get(CommandRun& run) {
//     StoreResult got = co_await run.store({.kind = StoreRequest::Kind::kGet, .key = run.arg(1)});
//     reply_value(run, std::move(got));
//   }
//
// `co_return reply` ends a handler with its reply, as `return` does in a function.
//
// A handler begins when resume() is called first. It may be destroyed while it waits for the store. Its memory comes
// from the pool of its run.
#ifndef SKUA_KVSTORE_GATEWAY_COMMAND_TASK_H_
#define SKUA_KVSTORE_GATEWAY_COMMAND_TASK_H_

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "kvstore/gateway/frame_pool.h"

namespace skua::kv::gateway {

class CommandRun;
[[nodiscard]] FramePool& frame_pool_of(CommandRun& run);

/// Move-only. Destroying it destroys the coroutine.
class CommandTask {
 public:
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
    CommandTask get_return_object() { return CommandTask(std::coroutine_handle<promise_type>::from_promise(*this)); }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

    // The handler's parameters come behind the size. The pool's address lies in front of the frame: operator delete is
    // given nothing but the frame.
    template <typename... Rest>
    static void* operator new(size_t bytes, CommandRun& run, const Rest&... /*rest*/) {
      FramePool& pool = frame_pool_of(run);
      void* memory = pool.take(bytes + kHeadBytes);
      *static_cast<FramePool**>(memory) = &pool;
      return static_cast<std::byte*>(memory) + kHeadBytes;
    }
    static void operator delete(void* frame, size_t bytes) {
      void* memory = static_cast<std::byte*>(frame) - kHeadBytes;
      (*static_cast<FramePool**>(memory))->give(memory, bytes + kHeadBytes);
    }

   private:
    static constexpr size_t kHeadBytes = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  };

  CommandTask() = default;
  CommandTask(CommandTask&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  CommandTask& operator=(CommandTask&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~CommandTask() { destroy(); }

  void resume() { handle_.resume(); }
  [[nodiscard]] bool is_done() const { return handle_.done(); }
  void destroy() {
    if (handle_ != nullptr) std::exchange(handle_, nullptr).destroy();
  }

 private:
  explicit CommandTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_COMMAND_TASK_H_
