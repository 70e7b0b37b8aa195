// Skua's client library for C++20's coroutines: a header over skua.hpp, without a library of its own. Compiles with
// -fno-exceptions -fno-rtti.
//
//   skua::Task<skua::Result<skua::Written>> rename(skua::CoroClient client, std::string from, std::string to) {
//     auto old = co_await client.get("users", from);
//     if (!old) co_return old.status();
//     co_return co_await client.put("users", to, old->bytes());
//   }
//   ...
//   auto client = skua::PolledClient::create({{"control-address", "10.0.0.1:7400"}});
//   auto moved = skua::run(*client, rename(*client, "ada", "ada-lovelace"));
//
// A task begins when it is awaited, started or run. Its client's poll() resumes it: all tasks of a client run on the
// client's thread, one at a time. In an event loop, start() the tasks and do with the client what skua.h says at
// skua_wait_fd().
//
// Write a coroutine as a function with parameters by value, never as a lambda with captures: what a capture or a
// reference points to may be gone while the coroutine still runs. Arguments of an awaited operation may be temporaries;
// but GCC 12 refuses a list in braces there: give multi_get() a vector with a name.
//
// A task that has begun must have ended before it is destroyed; else the program is ended. PolledClient::close() ends
// what tasks wait for, with SKUA_CANCELLED. An exception that leaves a coroutine ends the program.
#ifndef SKUA_INCLUDE_SKUA_SKUA_CORO_HPP_
#define SKUA_INCLUDE_SKUA_SKUA_CORO_HPP_

#include <skua/skua.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace skua {

template <typename T = void>
class Task;

namespace detail {

/// Resumes whoever awaits the task that is done. By symmetric transfer: the stack does not grow.
struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) const noexcept {
    return done.promise().awaiting ? done.promise().awaiting : std::noop_coroutine();
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> awaiting;
  bool has_begun = false;

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;

  Task<T> get_return_object() noexcept;
  template <typename From>
  void return_value(From&& from) {
    value.emplace(std::forward<From>(from));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const noexcept {}
};

[[noreturn]] inline void end_program(const char* why) noexcept {
  std::fprintf(stderr, "skua_coro.hpp: %s\n", why);
  std::abort();
}

}  // namespace detail

/// A coroutine that returns a T. Owns the coroutine's frame. Move-only. Thread: the client's.
template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Task() {
    if (!frame_) return;
    if (frame_.promise().has_begun && !frame_.done()) detail::end_program("a task was destroyed while it waits");
    frame_.destroy();
  }

  /// Runs the task up to its first wait, if it has not begun. To have several at a time: start all, then await each.
  void start() {
    if (begin()) frame_.resume();
  }
  bool done() const noexcept { return frame_.done(); }
  /// The task's result, moved out. Once, when done(); not if the task was awaited.
  T take() { return frame_.promise().take(); }

  /// co_await: begins the task if nobody has, and waits until it is done. Once.
  bool await_ready() const noexcept { return frame_.done(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    frame_.promise().awaiting = awaiting;
    if (begin()) return frame_;
    return std::noop_coroutine();
  }
  T await_resume() { return take(); }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  bool begin() noexcept { return !std::exchange(frame_.promise().has_begun, true); }

  std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <typename T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}

inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

/// What a callback's result brought. Values are kept: the coroutine may look at them after the callback.
template <typename T>
Result<T> result_of(const skua_result* raw, bool is_write) {
  Status status = Status::of(raw);
  if (!status) return status;
  SharedResult kept = SharedResult::adopt(skua_result_keep(raw));
  if (kept.get() == nullptr)
    return Status(SKUA_RESOURCE_EXHAUSTED, "no memory", is_write ? SKUA_IN_DOUBT : SKUA_NOT_DONE);
  return {T(std::move(kept)), std::move(status)};
}
template <>
inline Result<Written> result_of<Written>(const skua_result* raw, bool) {
  Status status = Status::of(raw);
  if (!status) return status;
  return {written_of(raw), std::move(status)};
}

/// The awaitable of one operation. Awaiting it submits the operation. If the client refuses the operation, the refusal
/// is the result. The awaitable is a callback's context, so it stays in the frame of the coroutine that awaits it.
/// `submit` calls a skua_async_...() with the callback, its context and the skua_error.
template <typename T, bool is_write, typename Submit>
class [[nodiscard]] Operation {
 public:
  explicit Operation(Submit submit) : submit_(std::move(submit)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> awaiting) {
    awaiting_ = awaiting;
    skua_error error = SKUA_ERROR_INIT;
    // The callback runs later, inside of a poll.
    const skua_code code = submit_(&Operation::end, this, &error);
    if (code == SKUA_OK) return true;
    result_ = Status(code, error.text);
    return false;
  }
  Result<T> await_resume() { return std::move(result_); }

 private:
  static void end(void* context, const skua_result* raw) {
    Operation& operation = *static_cast<Operation*>(context);
    operation.result_ = result_of<T>(raw, is_write);
    operation.awaiting_.resume();
  }

  Submit submit_;
  std::coroutine_handle<> awaiting_;
  Result<T> result_ = Status();
};

template <typename T, bool is_write, typename Submit>
auto operation(Submit submit) {
  return Operation<T, is_write, Submit>(std::move(submit));
}

}  // namespace detail

/// A view of a PolledClient, whose operations are awaited. May be copied; must not outlive the client, which must stay
/// where it is. An operation begins when it is awaited: what its arguments point to must live until then. Thread: the
/// client's.
class CoroClient {
 public:
  CoroClient(PolledClient& client) noexcept : client_(client.handle()) {}

  auto get(Name table, std::string_view key, ReadOptions options = {}) const {
    return detail::operation<Value, false>([=, client = client_](skua_callback end, void* context, skua_error* error) {
      std::vector<skua_bytes> names;
      const skua_read_options raw = options.raw(names);
      return skua_async_get(client, table.c_str(), detail::bytes_of(key), &raw, end, context, error);
    });
  }
  auto put(Name table, std::string_view key, std::string_view value, WriteOptions options = {}) const {
    return detail::operation<Written, true>([=, client = client_](skua_callback end, void* context, skua_error* error) {
      const skua_write_options raw = options.raw();
      return skua_async_put(client, table.c_str(), detail::bytes_of(key), detail::bytes_of(value), &raw, end, context,
                            error);
    });
  }
  auto remove(Name table, std::string_view key, WriteOptions options = {}) const {
    return detail::operation<Written, true>([=, client = client_](skua_callback end, void* context, skua_error* error) {
      const skua_write_options raw = options.raw();
      return skua_async_remove(client, table.c_str(), detail::bytes_of(key), &raw, end, context, error);
    });
  }
  auto add(Name table, std::string_view key, std::int64_t delta, WriteOptions options = {}) const {
    return detail::operation<Written, true>([=, client = client_](skua_callback end, void* context, skua_error* error) {
      const skua_write_options raw = options.raw();
      return skua_async_add(client, table.c_str(), detail::bytes_of(key), delta, &raw, end, context, error);
    });
  }
  auto append(Name table, std::string_view key, std::string_view bytes, WriteOptions options = {}) const {
    return detail::operation<Written, true>([=, client = client_](skua_callback end, void* context, skua_error* error) {
      const skua_write_options raw = options.raw();
      return skua_async_append(client, table.c_str(), detail::bytes_of(key), detail::bytes_of(bytes), &raw, end,
                               context, error);
    });
  }
  auto expire(Name table, std::string_view key, std::chrono::nanoseconds ttl, WriteOptions options = {}) const {
    return detail::operation<Written, true>([=, client = client_](skua_callback end, void* context, skua_error* error) {
      const skua_write_options raw = options.raw();
      return skua_async_expire(client, table.c_str(), detail::bytes_of(key), std::int64_t{ttl.count()}, &raw, end,
                               context, error);
    });
  }
  /// As Client::patch().
  auto patch(Name table, std::string_view key, const std::vector<Field>& fields, bool creates = false,
             WriteOptions options = {}) const {
    return detail::operation<Written, true>(
        [=, client = client_, fields = detail::fields_of(fields)](skua_callback end, void* context, skua_error* error) {
          const skua_write_options raw = options.raw();
          return skua_async_patch(client, table.c_str(), detail::bytes_of(key), fields.data(), fields.size(), creates,
                                  &raw, end, context, error);
        });
  }
  auto multi_get(Name table, const std::vector<std::string_view>& keys, ReadOptions options = {}) const {
    return detail::operation<Entries, false>(
        [=, client = client_, keys = detail::bytes_of(keys)](skua_callback end, void* context, skua_error* error) {
          std::vector<skua_bytes> names;
          const skua_read_options raw = options.raw(names);
          return skua_async_multi_get(client, table.c_str(), keys.data(), keys.size(), &raw, end, context, error);
        });
  }
  auto scan(Name table, ScanRange range = {}, ReadOptions options = {}) const {
    return detail::operation<Entries, false>(
        [=, client = client_](skua_callback end, void* context, skua_error* error) {
          const skua_scan_range raw_range = range.raw();
          std::vector<skua_bytes> names;
          const skua_read_options raw = options.raw(names);
          return skua_async_scan(client, table.c_str(), &raw_range, &raw, end, context, error);
        });
  }
  /// Of `options`, timeout and durability count.
  auto batch(Name table, const Batch& batch, WriteOptions options = {}) const {
    return detail::operation<Entries, true>(
        [=, client = client_, batch = batch.get()](skua_callback end, void* context, skua_error* error) {
          const skua_write_options raw = options.raw();
          return skua_async_batch_run(client, table.c_str(), batch, &raw, end, context, error);
        });
  }

 private:
  skua_client* client_;
};

/// Runs a task to its end by polling its client, and returns what the task returns. Other tasks that were started go on
/// meanwhile. Thread: the client's; not in a callback or a coroutine: that ends the program.
template <typename T>
T run(PolledClient& client, Task<T> task) {
  task.start();
  while (!task.done()) {
    if (!client.poll(std::chrono::milliseconds(100))) detail::end_program("run() where the client cannot be polled");
  }
  return task.take();
}

}  // namespace skua

#endif  // SKUA_INCLUDE_SKUA_SKUA_CORO_HPP_
