// Message: bytes to be sent: a small inline head, and body spans that are sent from where they are.
//
//   +-- head: copied in, up to 256 bytes --+   +-- body span 0 --+   +-- body span 1 --+
//   | method's arguments, small values     |   | application's   |   | ...             |
//   +--------------------------------------+   +-----------------+   +-----------------+
//        one message = head, then bodies in order; a message of zero bytes is legal
//
// A Message is reference counted by the engine. An sslot holds it until the peer has it. Each packet given to a
// transport holds it until the transport no longer reads it. When the last hold ends, each body's release function is
// called once, and the message returns to its pool. So a call that is cancelled or misses its deadline never frees
// memory that a wire may still read. One body can be sent to several peers at once: each message has a head of its own,
// and the body's owner counts the body's users (as SharedBody does).
#ifndef SKUA_RPC_BASE_MESSAGE_H_
#define SKUA_RPC_BASE_MESSAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "rpc/base/bytes.h"
#include "rpc/base/check.h"

namespace skua::rpc {

/// Called exactly once, when no transport reads the body any longer. Thread: the endpoint's; for a message that was
/// never sent, the thread that destroys it.
using BodyReleaseFn = void (*)(void* context);

class MessagePool;

class Message {
 public:
  static constexpr size_t kHeadMax = 256;
  static constexpr size_t kBodiesMax = 4;

  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  /// Room for the head. Write into it, and then call set_head_size().
  [[nodiscard]] MutableByteSpan head_room() { return head_; }
  void set_head_size(size_t bytes) {
    SKUA_CHECK(bytes <= kHeadMax, "a message head holds 256 bytes; put the rest into a body");
    head_size_ = static_cast<uint16_t>(bytes);
  }
  /// Makes the head longer by `bytes`, which the caller has to write. Null: they do not fit.
  [[nodiscard]] std::byte* grow_head(size_t bytes) {
    if (bytes > kHeadMax - head_size_) return nullptr;
    std::byte* at = head_.data() + head_size_;
    head_size_ = static_cast<uint16_t>(head_size_ + bytes);
    return at;
  }
  /// Appends a copy of `bytes` to the head. False: they do not fit, and nothing was done.
  [[nodiscard]] bool append_head(ByteSpan bytes) {
    if (bytes.size() > kHeadMax - head_size_) return false;
    copy_bytes(head_.data() + head_size_, bytes);
    head_size_ = static_cast<uint16_t>(head_size_ + bytes.size());
    return true;
  }
  /// Adds a span that is sent without a copy. It must stay unchanged until `release(context)` is called. (`release`
  /// null: no call; the memory must outlive the endpoint.) False: the message has kBodiesMax bodies already; `release`
  /// is not called.
  [[nodiscard]] bool add_body(ByteSpan bytes, BodyReleaseFn release, void* context) {
    if (body_count_ == kBodiesMax) return false;
    bodies_[body_count_++] = {bytes, release, context};
    body_bytes_ += bytes.size();
    return true;
  }
  /// Appends a copy of `bytes` to the head if they fit, otherwise as a heap body that the message owns.
  void append_copy(ByteSpan bytes);

  [[nodiscard]] size_t size() const { return head_size_ + body_bytes_; }
  [[nodiscard]] ByteSpan head() const { return ByteSpan(head_).first(head_size_); }
  [[nodiscard]] size_t body_count() const { return body_count_; }
  [[nodiscard]] ByteSpan body(size_t index) const { return bodies_[index].bytes; }

  /// Copies the whole message, size() bytes, to `to`.
  void copy_to(std::byte* to) const {
    std::array<ByteSpan, kBodiesMax + 1> pieces;
    const size_t count = slice(0, size(), pieces);
    for (size_t i = 0; i < count; ++i) {
      copy_bytes(to, pieces[i]);
      to += pieces[i].size();
    }
  }
  /// Cuts [offset, offset + length) of the message into pieces. Returns how many (at most kBodiesMax + 1).
  size_t slice(size_t offset, size_t length, std::array<ByteSpan, kBodiesMax + 1>& out) const {
    if (body_count_ > 0) return slice_bodies(offset, length, out);
    out[0] = ByteSpan(head_.data() + offset, length);
    return length > 0 ? 1 : 0;
  }

 private:
  friend class MessagePtr;
  friend class MessagePool;

  struct Body {
    ByteSpan bytes;
    BodyReleaseFn release = nullptr;
    void* context = nullptr;
  };

  void clear() {
    if (body_count_ > 0) release_bodies();
    head_size_ = 0;
  }
  void release_bodies();
  size_t slice_bodies(size_t offset, size_t length, std::array<ByteSpan, kBodiesMax + 1>& out) const;

  uint32_t holds_ = 0;
  uint16_t head_size_ = 0;
  uint16_t body_count_ = 0;
  size_t body_bytes_ = 0;
  MessagePool* pool_ = nullptr;
  Message* next_free_ = nullptr;  // in the pool
  // Behind the small fields, so that all of a small message lies in the first cache lines.
  std::array<std::byte, kHeadMax> head_;
  std::array<Body, kBodiesMax> bodies_;
};

/// A hold on a Message. Copying adds a hold. Not atomic: at any time, all holds of a message must be on one thread.
class MessagePtr {
 public:
  MessagePtr() = default;
  MessagePtr(const MessagePtr& other) : message_(other.message_) {
    if (message_ != nullptr) ++message_->holds_;
  }
  MessagePtr(MessagePtr&& other) noexcept : message_(std::exchange(other.message_, nullptr)) {}
  MessagePtr& operator=(MessagePtr&& other) noexcept {
    if (this != &other) {
      drop();
      message_ = std::exchange(other.message_, nullptr);
    }
    return *this;
  }
  MessagePtr& operator=(const MessagePtr& other) { return *this = MessagePtr(other); }
  ~MessagePtr() { drop(); }

  /// A message from the heap; for threads that have no pool.
  [[nodiscard]] static MessagePtr make() { return MessagePtr(new Message); }
  /// A message from the heap with a copy of `bytes`.
  [[nodiscard]] static MessagePtr copy_of(ByteSpan bytes) {
    MessagePtr message = make();
    message->append_copy(bytes);
    return message;
  }

  Message* operator->() const { return message_; }
  Message& operator*() const { return *message_; }
  [[nodiscard]] Message* get() const { return message_; }
  explicit operator bool() const { return message_ != nullptr; }
  void reset() { drop(); }

  /// Gives the hold away as a plain pointer (a transport's token). adopt() makes a hold of it again.
  [[nodiscard]] Message* leak() { return std::exchange(message_, nullptr); }
  [[nodiscard]] static MessagePtr adopt(Message* message) {
    MessagePtr out;
    out.message_ = message;
    return out;
  }

 private:
  friend class MessagePool;
  explicit MessagePtr(Message* message) : message_(message) { ++message_->holds_; }
  void drop() {
    if (message_ == nullptr) return;
    Message* message = std::exchange(message_, nullptr);
    if (--message->holds_ == 0) free(message);
  }
  /// Not inline, so that dropping one of several holds takes only a few instructions.
  static void free(Message* message);
  static void free_slowly(Message* message);

  Message* message_ = nullptr;
};

/// Reuses messages, so that a steady state allocates none. Thread: the owner's. Must outlive its messages (checked).
class MessagePool {
 public:
  /// Keeps up to `kept_max` free messages; others go back to the heap.
  explicit MessagePool(size_t kept_max) : kept_max_(kept_max) {}
  ~MessagePool();
  MessagePool(const MessagePool&) = delete;
  MessagePool& operator=(const MessagePool&) = delete;

  [[nodiscard]] MessagePtr make() {
    if (free_ == nullptr) [[unlikely]] {
      return make_new();
    }
    Message* message = free_;
    free_ = message->next_free_;
    --free_count_;
    return MessagePtr(message);
  }
  [[nodiscard]] size_t outstanding_count() const { return made_count_ - free_count_; }

 private:
  friend class MessagePtr;
  MessagePtr make_new();
  /// False: the pool has kept_max_ free messages already.
  bool recycle(Message* message) {
    if (free_count_ == kept_max_) [[unlikely]] {
      return false;
    }
    ++free_count_;
    message->next_free_ = free_;
    free_ = message;
    return true;
  }

  const size_t kept_max_;
  Message* free_ = nullptr;
  size_t free_count_ = 0;
  size_t made_count_ = 0;  // messages that exist: free ones, and those in use
};

/// Memory with an atomic use count, for one body that several messages send at once.
class SharedBody {
 public:
  /// Takes ownership of `bytes`. The maker has one use, which release() drops.
  [[nodiscard]] static SharedBody* make(std::string bytes) { return new SharedBody(std::move(bytes)); }
  /// Adds the body to `message`, with a use of its own. False: the message has no room for another body.
  [[nodiscard]] bool attach(Message& message);
  /// Drops the maker's use.
  void release() { drop(this); }

 private:
  explicit SharedBody(std::string bytes) : bytes_(std::move(bytes)) {}
  static void drop(void* self);

  std::atomic<uint32_t> uses_{1};
  const std::string bytes_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_BASE_MESSAGE_H_
