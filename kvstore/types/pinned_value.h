// A value whose bytes stay where they are and stay readable as long as a PinnedValue holds them.
//
// The owner of the bytes (a region of the memory tier, or a pinned RocksDB block) hides behind one pointer and one
// function. So a server can send the bytes without a copy, and give them back when the transport has sent them.
#ifndef SKUA_KVSTORE_TYPES_PINNED_VALUE_H_
#define SKUA_KVSTORE_TYPES_PINNED_VALUE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "kvstore/types/record_mark.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Move-only; the destructor releases the bytes. Thread: one at a time; it may be destroyed on another thread than the
/// one that filled it. Lifetime: must end before the store that filled it is closed.
class PinnedValue {
 public:
  /// Gives `owner` back. Thread: any. Must not block for long: it may run on a polling thread.
  using Release = void (*)(void* owner);

  PinnedValue() = default;
  /// `bytes` stay valid until `release(owner)`, which is called once. `release` may be null for bytes that are never
  /// freed.
  PinnedValue(ByteSpan bytes, uint64_t version, void* owner, Release release, uint64_t expires_at = 0,
              RecordMark mark = {})
      : bytes_(bytes), version_(version), expires_at_(expires_at), mark_(mark), owner_(owner), release_(release) {}

  PinnedValue(PinnedValue&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})),
        version_(std::exchange(other.version_, 0)),
        expires_at_(other.expires_at_),
        mark_(other.mark_),
        owner_(std::exchange(other.owner_, nullptr)),
        release_(std::exchange(other.release_, nullptr)) {}
  PinnedValue& operator=(PinnedValue&& other) noexcept {
    if (this != &other) {
      std::destroy_at(this);
      std::construct_at(this, std::move(other));
    }
    return *this;
  }
  PinnedValue(const PinnedValue&) = delete;
  PinnedValue& operator=(const PinnedValue&) = delete;
  ~PinnedValue() { reset(); }

  [[nodiscard]] ByteSpan bytes() const { return bytes_; }
  /// The shard's index of the write that made the value.
  [[nodiscard]] uint64_t version() const { return version_; }
  /// The unix time in ms from which on the key is absent; 0: never. Set only for values from a database: the memory
  /// tier returns the expiry beside the value (MemoryTier::Lookup).
  [[nodiscard]] uint64_t expires_at() const { return expires_at_; }
  /// The mark of the record that the value is of.
  [[nodiscard]] RecordMark mark() const { return mark_; }

  /// A copy of the value in memory of its own. The copy may outlive the store.
  [[nodiscard]] PinnedValue copied() const {
    auto* const memory = new std::byte[bytes_.size()];
    copy_bytes(memory, bytes_);
    return {{memory, bytes_.size()},
            version_,
            memory,
            [](void* owner) { delete[] static_cast<std::byte*>(owner); },
            expires_at_,
            mark_};
  }

  /// From now on bytes() shows this part of them only. All of them stay pinned.
  void narrow(ByteSpan part) { bytes_ = part; }

  /// Releases now and becomes empty.
  void reset() {
    if (release_ != nullptr) release_(owner_);
    bytes_ = {};
    version_ = 0;
    owner_ = nullptr;
    release_ = nullptr;
  }

  /// The right and duty to call `release(owner)` once, if `release` is not null. The span that bytes() returned before
  /// stays valid until then.
  struct Pin {
    void* owner;
    Release release;
  };
  /// Hands over the pin, for users that keep a C-style callback, such as the completion of a transport. This object
  /// becomes empty.
  [[nodiscard]] Pin detach() {
    const Pin pin = {owner_, std::exchange(release_, nullptr)};
    reset();
    return pin;
  }

 private:
  ByteSpan bytes_;
  uint64_t version_ = 0;
  uint64_t expires_at_ = 0;
  RecordMark mark_{};
  void* owner_ = nullptr;
  Release release_ = nullptr;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_PINNED_VALUE_H_
