// Lease: received bytes lent to the application.
//
// A lease may be kept longer than the handler or completion that received it. Destroying it gives the bytes back: this
// re-arms the receive ring or frees the assembly buffer. The bytes are contiguous: one packet's payload in the
// transport's memory, or a larger message assembled in a pool buffer.
#ifndef SKUA_RPC_BASE_LEASE_H_
#define SKUA_RPC_BASE_LEASE_H_

#include <cstdint>
#include <utility>

#include "rpc/base/bytes.h"
#include "rpc/base/check.h"
#include "rpc/base/thread_mark.h"

namespace skua::rpc {

/// Takes lent memory back. Thread: the endpoint's.
class LeaseOwner {
 public:
  /// A lease ends.
  void give_back(uint64_t cookie) {
    if (counts_ != nullptr) [[likely]] {
      SKUA_CHECK(thread_ == this_thread_mark(), "a lease was given back on another thread than its endpoint's");
      if (--counts_[cookie] > 0) return;
    }
    return_lease(cookie);
  }
  /// All leases with this cookie have ended.
  virtual void return_lease(uint64_t cookie) = 0;

 protected:
  ~LeaseOwner() = default;

  /// For an owner whose leases share cookies: the number of leases of each cookie, and the thread that may end them.
  /// Then the end of a lease only counts down; only the last one calls return_lease().
  uint32_t* counts_ = nullptr;
  const void* thread_ = nullptr;
};

/// The parts of a lease, on their way to its holder: plain words, which stay in registers. The receiver must make one
/// lease of them.
struct LeaseParts {
  ByteSpan bytes;
  LeaseOwner* owner = nullptr;
  uint64_t cookie = 0;
};

/// Move-only. Thread: destroy it on the thread of the endpoint that lent it, and before that endpoint (both checked).
class Lease {
 public:
  Lease() = default;
  /// If `owner` is null, the bytes are not given back to anybody.
  Lease(ByteSpan bytes, LeaseOwner* owner, uint64_t cookie) : bytes_(bytes), owner_(owner), cookie_(cookie) {}
  explicit Lease(const LeaseParts& parts) : Lease(parts.bytes, parts.owner, parts.cookie) {}
  Lease(Lease&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), owner_(std::exchange(other.owner_, nullptr)), cookie_(other.cookie_) {}
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      reset();
      bytes_ = std::exchange(other.bytes_, {});
      owner_ = std::exchange(other.owner_, nullptr);
      cookie_ = other.cookie_;
    }
    return *this;
  }
  ~Lease() { reset(); }

  [[nodiscard]] ByteSpan bytes() const { return bytes_; }
  [[nodiscard]] size_t size() const { return bytes_.size(); }

  /// As the constructor, for a lease that is empty (checked).
  void fill(ByteSpan bytes, LeaseOwner* owner, uint64_t cookie) {
    SKUA_CHECK(owner_ == nullptr, "this lease has bytes that somebody waits for");
    bytes_ = bytes;
    owner_ = owner;
    cookie_ = cookie;
  }
  /// Empties the lease without giving the bytes back.
  [[nodiscard]] LeaseParts leak() { return {std::exchange(bytes_, {}), std::exchange(owner_, nullptr), cookie_}; }
  void reset() {
    if (LeaseOwner* owner = std::exchange(owner_, nullptr); owner != nullptr) owner->give_back(cookie_);
    bytes_ = {};
  }

 private:
  ByteSpan bytes_;
  LeaseOwner* owner_ = nullptr;
  uint64_t cookie_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_BASE_LEASE_H_
