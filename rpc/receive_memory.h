// ReceiveMemory: the memory that an endpoint receives messages in, and who has it.
//
//   the transport's buffers   lend()        --> lease --> back to the transport, in bursts (flush_releases())
//        too many are lent:   copy_out()    --+
//   pieces of a message:      assemble()    --+-> lease of a pool buffer --> back to the pool, and its payer's share
//   the transport fills it:   place()       --+
//
// Buffers that come in pieces of a frame are lent by FrameLeases, and counted here. What a peer makes the endpoint hold
// counts in the peer's share (memory_shares.h). Messages that are sent come from here, too.
#ifndef SKUA_RPC_RECEIVE_MEMORY_H_
#define SKUA_RPC_RECEIVE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"
#include "rpc/endpoint_context.h"
#include "rpc/memory/arena.h"
#include "rpc/memory/buffer_pool.h"
#include "rpc/memory_shares.h"
#include "rpc/protocol/session_host.h"
#include "rpc/session_table.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. `context` must outlive it; leases, buffers and messages must not.
class ReceiveMemory {
 public:
  explicit ReceiveMemory(EndpointContext& context);
  ReceiveMemory(const ReceiveMemory&) = delete;
  ReceiveMemory& operator=(const ReceiveMemory&) = delete;

  // --- Messages and pool buffers
  [[nodiscard]] MessagePtr make_message() { return messages_.make(); }
  absl::StatusOr<Buffer> allocate(size_t bytes) { return buffers_.allocate(bytes); }
  /// Whose share a message of the session takes that comes from `from`: the peer's that calls us (`is_request`).
  /// Answers to our own calls count in nobody's share.
  [[nodiscard]] Payer payer_of(const SessionEntry& entry, PeerId from, bool is_request) const;
  /// A message above that finds no memory here, whatever others give back.
  [[nodiscard]] size_t message_bytes_max() const { return buffers_.message_bytes_max(); }
  /// nullopt: there is no memory, or the payer's share is used up.
  std::optional<Assembly> assemble(const Payer& payer, size_t bytes);
  /// A lease of a copy of received bytes, which is counted. No owner: as nullopt of assemble().
  [[gnu::noinline]] LeaseParts copy_out(const Payer& payer, ByteSpan bytes);

  // --- Pool buffers that the transport fills
  /// No memory, or the payer's share is used up: `to` is null. The cookie goes to lend_placed() or abandon().
  RxPlacer::Placement place(const Payer& payer, size_t bytes);
  /// Lends the first `bytes` of a placement. `lease` must be empty.
  void lend_placed(ByteSpan bytes, uint64_t placement, Lease& lease);
  void abandon(uint64_t placement) { pool_leases_.return_lease(placement); }

  // --- The transport's buffers
  /// False: so much is lent that received bytes have to be copied, if there is memory for copies.
  [[nodiscard]] bool may_lend() const { return lent_count_ < lent_watermark_; }
  /// `lease` must be empty. When it ends, the buffer goes back to the transport.
  void lend(ByteSpan bytes, RxBufferId buffer, Lease& lease);
  /// For a buffer that is lent in pieces, by FrameLeases.
  void count_lent() { ++lent_count_; }
  void count_returned() { --lent_count_; }
  /// The buffer goes back to the transport with the next burst of them.
  void release(RxBufferId buffer) {
    to_release_[to_release_count_++] = buffer;
    if (to_release_count_ == to_release_.size()) flush_releases();
  }
  void flush_releases();

  // --- Counts
  [[nodiscard]] bool nothing_to_release() const { return to_release_count_ == 0; }
  [[nodiscard]] size_t lent_count() const { return lent_count_; }
  [[nodiscard]] size_t buffer_count() const { return buffers_.outstanding_count(); }
  [[nodiscard]] size_t message_count() const { return messages_.outstanding_count(); }

 private:
  /// Returns lent transport buffers.
  class TransportLeases final : public LeaseOwner {
   public:
    explicit TransportLeases(ReceiveMemory& memory) : memory_(memory) {}
    void return_lease(uint64_t cookie) override;

   private:
    ReceiveMemory& memory_;
  };
  /// Frees pool buffers that messages were assembled in or copied out to.
  class PoolLeases final : public LeaseOwner {
   public:
    explicit PoolLeases(const EndpointContext& context)
        : context_(context), shares_(context.options.memory_limit_bytes) {}
    void return_lease(uint64_t cookie) override;
    /// Keeps `buffer` and returns a cookie for it, to be returned once.
    uint64_t hold(Buffer buffer, const Payer& payer);
    [[nodiscard]] const MemoryShares& shares() const { return shares_; }

   private:
    struct Held {
      Buffer buffer;
      Payer payer;
    };
    const EndpointContext& context_;
    std::vector<Held> held_;
    std::vector<uint32_t> free_;
    MemoryShares shares_;
  };

  struct Taken {
    std::byte* data = nullptr;
    uint64_t cookie = 0;  // of pool_leases_
  };
  [[nodiscard]] std::optional<Taken> take(const Payer& payer, size_t bytes, bool may_take_reserve = true);

  EndpointContext& context_;
  // The order matters: buffers and messages return to members that are declared before them.
  Arena arena_;
  BufferPool buffers_;
  MessagePool messages_;
  TransportLeases transport_leases_{*this};
  PoolLeases pool_leases_;
  size_t lent_count_ = 0;
  const size_t lent_watermark_;
  std::array<RxBufferId, kBurstMax> to_release_;
  size_t to_release_count_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_RECEIVE_MEMORY_H_
