// ChunkPool: the memory that stream bytes are received into and lent from.
//
//   current chunk   | packet | packet | packet | pa.. |<-- next recv -->            |
//                   0                                 ^ write                  chunk bytes
//
// All connections of a transport read into one current chunk, one after the other. So many small packets cost one
// system call and stay in the cache. A chunk's reference count is the number of packets lent from it plus the number of
// connections whose unparsed bytes lie in it. At zero the chunk is free. The current chunk starts over at its beginning
// whenever its count is zero, so a quiet ping-pong touches the same few cache lines.
#ifndef SKUA_RPC_TRANSPORT_TCP_RX_CHUNKS_H_
#define SKUA_RPC_TRANSPORT_TCP_RX_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/base/check.h"
#include "rpc/memory/arena.h"

namespace skua::rpc::tcp {

/// Thread: the transport's.
class ChunkPool {
 public:
  /// RESOURCE_EXHAUSTED: no memory.
  static absl::StatusOr<std::unique_ptr<ChunkPool>> create(uint32_t chunk_bytes, uint32_t chunk_count);

  [[nodiscard]] uint32_t chunk_bytes() const { return chunk_bytes_; }
  [[nodiscard]] uint32_t current() const { return current_; }
  /// Where the next bytes go, as an offset into the current chunk.
  [[nodiscard]] uint32_t write_offset() const { return write_; }
  [[nodiscard]] uint32_t room() const { return chunk_bytes_ - write_; }
  [[nodiscard]] std::byte* write_pointer() { return at(current_, write_); }
  [[nodiscard]] std::byte* at(uint32_t chunk, uint32_t offset) { return base_ + size_t{chunk} * chunk_bytes_ + offset; }

  /// Makes room for `bytes` (at most chunk_bytes) in the current chunk or in a fresh one. False: no chunk is free.
  [[nodiscard]] bool ensure_room(uint32_t bytes) {
    if (refs_[current_] == 0) write_ = 0;
    return room() >= bytes || next_chunk();
  }
  /// True if ensure_room(chunk_bytes) would succeed.
  [[nodiscard]] bool has_fresh() const { return refs_[current_] == 0 || !free_.empty(); }
  /// `bytes` were written at write_pointer().
  void commit(uint32_t bytes) { write_ += bytes; }

  void add_ref(uint32_t chunk) { ++refs_[chunk]; }
  void drop_ref(uint32_t chunk) {
    SKUA_CHECK(chunk < refs_.size() && refs_[chunk] > 0, "a received buffer was released twice or was never lent");
    if (--refs_[chunk] == 0 && chunk != current_) free_.push_back(chunk);
  }

  /// References on all chunks; zero if nothing is lent or half received.
  [[nodiscard]] size_t ref_count() const;

 private:
  ChunkPool(uint32_t chunk_bytes, uint32_t chunk_count);
  bool next_chunk();

  const uint32_t chunk_bytes_;
  Arena arena_;
  std::byte* base_ = nullptr;
  uint32_t current_ = 0;
  uint32_t write_ = 0;
  std::vector<uint32_t> refs_;
  /// Last in, first out: the chunk used last is most likely in the cache.
  std::vector<uint32_t> free_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_RX_CHUNKS_H_
