// AppendBuilder: makes the Appends that a primary sends (message_codec.h), with few copies.
//
//    head room of the message       envelope, header, small entries while there is room
//    bodies                         | small entries, copied | large payload | small entries | large payload | ...
//                                     a pooled buffer          the entry's memory
//
// A large payload is sent from where it lies, and released when the transport does not need it any more. Small payloads
// are copied, because that costs less than a body of their own.
#ifndef SKUA_KVSTORE_REPLICATION_APPEND_BUILDER_H_
#define SKUA_KVSTORE_REPLICATION_APPEND_BUILDER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "kvstore/replication/message_codec.h"
#include "rpc/base/message.h"

namespace skua::kv {

/// Larger payloads are sent without a copy.
inline constexpr size_t kAppendCopyBytesMax = size_t{8} << 10;
/// The most bytes that one Append copies. Bounded because the polling thread copies them.
inline constexpr size_t kAppendCopiedBytesMax = size_t{128} << 10;

/// A pool of the buffers that Appends copy bytes into. Must outlive the messages. Thread: one.
class AppendBuffers {
 public:
  AppendBuffers() = default;
  ~AppendBuffers();
  AppendBuffers(const AppendBuffers&) = delete;
  AppendBuffers& operator=(const AppendBuffers&) = delete;

  /// Number of buffers that messages hold.
  [[nodiscard]] size_t outstanding_count() const { return outstanding_count_; }

 private:
  friend class AppendBuilder;
  struct Buffer {
    std::vector<std::byte> bytes{};
    AppendBuffers* owner = nullptr;
  };
  static constexpr size_t kKeptMax = 32;
  Buffer* take();
  static void put_back(void* buffer);

  std::vector<Buffer*> free_;
  size_t outstanding_count_ = 0;
};

/// Builds Appends, one after the other: begin(), add() while there is room, finish(). `buffers` must outlive it.
/// Thread: that of the buffers.
class AppendBuilder {
 public:
  /// `bytes_max`: of an Append of several entries, at most kAppendBytesMax.
  explicit AppendBuilder(AppendBuffers& buffers, size_t bytes_max = kAppendBytesMax)
      : buffers_(buffers), bytes_max_(std::min(bytes_max, kAppendBytesMax)) {}
  ~AppendBuilder();
  AppendBuilder(const AppendBuilder&) = delete;
  AppendBuilder& operator=(const AppendBuilder&) = delete;

  /// Begins an Append in `message`, which must be empty. `header.epochs` is ignored: the added entries have their
  /// epochs.
  void begin(const ReplicaEnvelope& envelope, const Append& header, rpc::MessagePtr message);
  /// Adds an entry. False: this Append is full; finish it and begin another one. The first entry is always accepted.
  /// True: either the payload was copied and release(context) has been called, or the payload must stay unchanged until
  /// release(context) is called. `release` may be null.
  [[nodiscard]] bool add(const AppendEntry& entry, rpc::BodyReleaseFn release = nullptr, void* context = nullptr);
  [[nodiscard]] rpc::MessagePtr finish();

  [[nodiscard]] size_t count() const { return count_; }

 private:
  /// A piece of the message behind the head: a range of the buffer, or a payload in the caller's memory.
  struct Piece {
    bool copied = false;
    size_t begin = 0;
    size_t size = 0;
    ByteSpan bytes{};
    rpc::BodyReleaseFn release = nullptr;
    void* context = nullptr;
  };
  void copy(ByteSpan bytes, bool into_head);

  AppendBuffers& buffers_;
  const size_t bytes_max_;
  rpc::MessagePtr message_;
  AppendBuffers::Buffer* buffer_ = nullptr;
  std::array<Piece, rpc::Message::kBodiesMax> pieces_;
  size_t piece_count_ = 0;
  size_t count_ = 0;
  size_t bytes_ = 0;
  size_t copied_bytes_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_APPEND_BUILDER_H_
