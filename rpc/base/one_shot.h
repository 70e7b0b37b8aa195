// OneShot: a function that is called at most once. Moving it copies three words, whatever it holds. This matters
// because each call moves a completion from its caller into an sslot and out again.
#ifndef SKUA_RPC_BASE_ONE_SHOT_H_
#define SKUA_RPC_BASE_ONE_SHOT_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace skua::rpc {

/// Holds any callable that takes Arg&&. Two words of trivially copyable captures are kept inside, others on the heap.
template <typename Arg>
class OneShot {
 public:
  OneShot() = default;
  OneShot(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  template <typename F>
  requires(!std::is_same_v<std::decay_t<F>, OneShot> && std::is_invocable_v<std::decay_t<F>&, Arg&&>)
      OneShot(F&& callable) {  // NOLINT(google-explicit-constructor)
    using Held = std::decay_t<F>;
    if constexpr (sizeof(Held) <= kStateBytes && alignof(Held) <= alignof(void*) &&
                  std::is_trivially_copyable_v<Held> && std::is_trivially_destructible_v<Held>) {
      ::new (state_) Held(std::forward<F>(callable));
      run_ = [](void* state, Arg* arg) {
        if (arg != nullptr) (*std::launder(static_cast<Held*>(state)))(std::move(*arg));
      };
    } else {
      Held* held = std::make_unique<Held>(std::forward<F>(callable)).release();
      ::new (state_) Held*(held);
      run_ = [](void* state, Arg* arg) {
        const std::unique_ptr<Held> owned(*std::launder(static_cast<Held**>(state)));
        if (arg != nullptr) (*owned)(std::move(*arg));
      };
    }
  }
  OneShot(OneShot&& other) noexcept : run_(std::exchange(other.run_, nullptr)) {
    std::memcpy(state_, other.state_, kStateBytes);
  }
  OneShot& operator=(OneShot&& other) noexcept {
    if (this != &other) {
      reset();
      run_ = std::exchange(other.run_, nullptr);
      std::memcpy(state_, other.state_, kStateBytes);
    }
    return *this;
  }
  ~OneShot() { reset(); }
  /// As move assignment, for an object that holds nothing (not checked).
  void fill(OneShot& other) {
    run_ = std::exchange(other.run_, nullptr);
    std::memcpy(state_, other.state_, kStateBytes);
  }

  /// True: it holds a callable that was not called yet.
  explicit operator bool() const { return run_ != nullptr; }
  /// Afterwards the object holds nothing. Its memory is used until the callable returns.
  void operator()(Arg&& arg) { std::exchange(run_, nullptr)(state_, &arg); }
  void reset() {
    if (run_ != nullptr) [[unlikely]] {
      std::exchange(run_, nullptr)(state_, nullptr);
    }
  }

 private:
  static constexpr size_t kStateBytes = 2 * sizeof(void*);
  /// With a null `arg` it only destroys the callable.
  using Run = void (*)(void* state, Arg* arg);

  Run run_ = nullptr;
  alignas(void*) std::byte state_[kStateBytes];
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_BASE_ONE_SHOT_H_
