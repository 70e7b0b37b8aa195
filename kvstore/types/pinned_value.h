// A value that stays readable, where it lies, for as long as somebody holds this.
//
// Whatever keeps the bytes alive (a region of the memory tier, a pinned RocksDB block) hides behind one pointer and one function, so
// that a server can send the bytes without copying and give them back when the transport is done.
#ifndef SKUA_KVSTORE_TYPES_PINNED_VALUE_H_
#define SKUA_KVSTORE_TYPES_PINNED_VALUE_H_

#include <cstdint>
#include <utility>

#include "rpc/base/bytes.h"

namespace skua::kv {

/// Move-only; releases on destruction. Thread: one at a time, but it may be destroyed on another thread than it was
/// filled on. Lifetime: ends before the store that filled it is closed.
class PinnedValue {
 public:
  /// Gives `owner` back. Thread: any. Must not block for long: it may run on a polling thread.
  using Release = void (*)(void* owner);

  PinnedValue() = default;
  /// `bytes` stay valid until `release(owner)`, which is called once. `release` may be null for bytes that outlive
  /// everything.
  PinnedValue(ByteSpan bytes, uint64_t version, void* owner, Release release, uint64_t expires_at = 0)
      : bytes_(bytes), version_(version), expires_at_(expires_at), owner_(owner), release_(release) {}

  PinnedValue(PinnedValue&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})),
        version_(std::exchange(other.version_, 0)),
        expires_at_(other.expires_at_),
        owner_(std::exchange(other.owner_, nullptr)),
        release_(std::exchange(other.release_, nullptr)) {}
  PinnedValue& operator=(PinnedValue&& other) noexcept {
    if (this != &other) {
      reset();
      bytes_ = std::exchange(other.bytes_, {});
      version_ = std::exchange(other.version_, 0);
      expires_at_ = other.expires_at_;
      owner_ = std::exchange(other.owner_, nullptr);
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  PinnedValue(const PinnedValue&) = delete;
  PinnedValue& operator=(const PinnedValue&) = delete;
  ~PinnedValue() { reset(); }

  [[nodiscard]] ByteSpan bytes() const { return bytes_; }
  /// The shard's index of the write that made the value.
  [[nodiscard]] uint64_t version() const { return version_; }
  /// Of a value from a database: unix time in ms from which on the key is absent; 0: never. The memory tier tells it apart
  /// from the value (MemoryTier::Lookup).
  [[nodiscard]] uint64_t expires_at() const { return expires_at_; }

  /// The same in memory of its own, which outlives the store.
  [[nodiscard]] PinnedValue copied() const {
    auto* const memory = new std::byte[bytes_.size()];
    copy_bytes(memory, bytes_);
    return {{memory, bytes_.size()},
            version_,
            memory,
            [](void* owner) { delete[] static_cast<std::byte*>(owner); },
            expires_at_};
  }

  /// Releases now and becomes empty.
  void reset() {
    if (release_ != nullptr) release_(owner_);
    bytes_ = {};
    version_ = 0;
    owner_ = nullptr;
    release_ = nullptr;
  }

  /// The right and duty to call `release(owner)` (if not null) once; bytes() seen before stay valid until then.
  struct Pin {
    void* owner;
    Release release;
  };
  /// Hands the pin to someone who keeps a C-style callback, such as a transport's completion; becomes empty.
  [[nodiscard]] Pin detach() {
    const Pin pin = {owner_, std::exchange(release_, nullptr)};
    reset();
    return pin;
  }

 private:
  ByteSpan bytes_;
  uint64_t version_ = 0;
  uint64_t expires_at_ = 0;
  void* owner_ = nullptr;
  Release release_ = nullptr;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_PINNED_VALUE_H_
