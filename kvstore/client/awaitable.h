// AwaitableClient: AsyncClient for C++20 coroutines. co_await instead of callbacks, on the thread that polls.
//
//   Task<uint64_t> rename(AwaitableClient client, std::string from, std::string to) {
//     GetResult old = co_await client.get("users", from);
//     if (!old.ok()) co_return 0;
//     WriteResult moved = co_await client.put("users", to, old.value.bytes(), {.if_absent = true});
//     if (!moved.ok()) co_return 0;
//     co_await client.remove("users", from, {.if_version = old.version});
//     co_return moved.version;
//   }
//   ...
//   uint64_t version = run(client, rename(client, "ada", "ada-lovelace"));
//
// A task begins when it is awaited, started or run. It is resumed from inside poll(). Write a coroutine as a function
// with parameters by value, never as a lambda with captures: captures and references may die with the caller's full
// expression, while the coroutine still runs. Arguments of co_await client.get(...) may be temporaries: they live until
// the result is there.
//
// A task that waits for an operation must not be destroyed. The client must outlive its tasks. The library throws
// nothing; an exception that leaves a coroutine ends the process.
#ifndef SKUA_KVSTORE_CLIENT_AWAITABLE_H_
#define SKUA_KVSTORE_CLIENT_AWAITABLE_H_

#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "kvstore/client/async_client.h"
#include "kvstore/client/client_calls.h"

namespace skua::kv {

template <typename T = void>
class Task;

namespace awaitable_internal {

/// Resumes the coroutine that awaited a task when the task is done. Hands over by symmetric transfer, so the stack does
/// not grow.
struct FinalAwaiter {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
    return done.promise().awaiting ? done.promise().awaiting : std::noop_coroutine();
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> awaiting;

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] FinalAwaiter final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  void return_value(T result) { value.emplace(std::move(result)); }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace awaitable_internal

/// A coroutine that returns a T. Owns the coroutine's frame. Move-only. Thread: the client's.
template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = awaitable_internal::Promise<T>;

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Task() {
    if (frame_) frame_.destroy();
  }

  /// Begins the task. The awaiting coroutine is suspended until the task is done.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    frame_.promise().awaiting = awaiting;
    return frame_;
  }
  T await_resume() { return frame_.promise().take(); }

  /// Begins the task from code that is no coroutine: runs it up to its first wait. Call it at most once; a task that
  /// was started must not be awaited.
  void start() { frame_.resume(); }
  [[nodiscard]] bool done() const { return frame_.done(); }
  /// The task's result, moved out. Once, when done().
  T take() { return frame_.promise().take(); }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}

  std::coroutine_handle<promise_type> frame_;
};

namespace awaitable_internal {

template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}

inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

/// The awaitable of one operation. Awaiting it submits the call. If the client refuses the call, its error is the
/// result's status, and the coroutine goes on at once.
template <typename Call>
class [[nodiscard]] Operation {
 public:
  using Result = typename Call::Result;

  Operation(AsyncClient& client, Call&& call) : client_(client), call_(std::move(call)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> awaiting) {
    awaiting_ = awaiting;
    result_.status = client_.run(std::move(call_), [this](Result&& result) {
      result_ = std::move(result);
      awaiting_.resume();
    });
    return result_.ok();
  }
  Result await_resume() { return std::move(result_); }

 private:
  AsyncClient& client_;
  Call call_;
  Result result_;
  std::coroutine_handle<> awaiting_;
};

}  // namespace awaitable_internal

/// A view of an AsyncClient, whose verbs (ClientCalls) return objects to be awaited. It may be copied. Arguments,
/// results and errors are those of AsyncClient, with errors of submission in the result's status. An operation is
/// submitted when it is awaited; its arguments must live until then. Thread: the client's.
class AwaitableClient : public ClientCalls<AwaitableClient> {
 public:
  AwaitableClient(AsyncClient& client) : client_(&client) {}  // NOLINT(google-explicit-constructor)

  template <typename Call>
  auto run(Call&& call) {
    return awaitable_internal::Operation<Call>(*client_, std::forward<Call>(call));
  }

 private:
  AsyncClient* client_;
};

/// Runs a task to its end by polling `client`, and returns the task's result. Other tasks that were started go on
/// meanwhile. Thread: the client's; not from inside a callback or a coroutine.
template <typename T>
T run(AsyncClient& client, Task<T> task) {
  task.start();
  while (!task.done()) client.poll(std::chrono::milliseconds(100));
  return task.take();
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_AWAITABLE_H_
