// The implementation of RemoteMemoryHost. Only remote_memory_host.cc (requests) and remote_memory_regions.cc (how
// regions begin and end) include this.
#ifndef SKUA_RPC_REMOTE_MEMORY_HOST_IMPL_H_
#define SKUA_RPC_REMOTE_MEMORY_HOST_IMPL_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rpc/base/rng.h"
#include "rpc/memory/arena.h"
#include "rpc/memory/buffer_pool.h"
#include "rpc/memory_access.h"
#include "rpc/notice_ring.h"
#include "rpc/remote_memory.h"
#include "rpc/wire/remote_memory_wire.h"

namespace skua::rpc {

/// Owned together by the host, the endpoint's handler and answers that are being sent: the last one destroys it.
class RemoteMemoryHost::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Endpoint& endpoint, const Options& options);

  void serve();
  void close();
  void on_request(IncomingCall&& call);
  void end_session(SessionId session);
  absl::StatusOr<uint64_t> publish(std::string_view name, uint64_t bytes, uint8_t rights);
  void reclaim();
  bool revoke(uint64_t key);
  [[nodiscard]] MutableByteSpan local(uint64_t key) const;

  std::function<void(const Notice&)> notice_observer_;
  Counters counters_;
  [[nodiscard]] size_t region_count() const { return regions_.size(); }
  [[nodiscard]] size_t bytes_in_use() const { return buffers_.outstanding_bytes(); }

 private:
  /// The memory of one region; of several regions if it is published.
  struct Memory {
    Buffer buffer;
    uint64_t bytes = 0;
    /// True: its atomics are the transport's, by whichever way a peer reaches it. Atomics by call are refused.
    bool is_transports = false;
    // While answers are sent from it: their number, and what they keep alive.
    uint32_t sending = 0;
    std::shared_ptr<Impl> owner;
    std::shared_ptr<Memory> self;

    [[nodiscard]] MutableByteSpan span() const { return {buffer.data(), bytes}; }
  };
  struct Ring {
    Buffer memory;
    MemoryName name;
    uint32_t slot = 0;
    PeerId peer = kNoPeer;

    [[nodiscard]] MutableByteSpan span() const { return {memory.data(), NoticeRing::kBytes}; }
  };
  /// The right of one session to use a memory; or the published memory itself, which belongs to no session.
  struct Region {
    uint64_t key = 0;
    SessionId session;
    uint8_t rights = 0;
    TimeNs expires_ns = kTimeNever;
    std::shared_ptr<Memory> memory;
    /// Where the transport reaches the region; set if it is opened to the transport.
    std::optional<MemoryName> opened;
    /// Through which the peer's notices come.
    std::optional<Ring> ring;
    /// The name of published memory. published_key: its key, also in the regions that were opened by this name.
    std::string name;
    uint64_t published_key = 0;

    [[nodiscard]] bool is_published() const { return !name.empty(); }
  };
  using Regions = absl::flat_hash_map<uint64_t, std::unique_ptr<Region>>;
  /// Kept in the endpoint's handler. When the endpoint destroys the handler, it tells the Impl that the endpoint ends.
  struct HandlerHold {
    explicit HandlerHold(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
    HandlerHold(HandlerHold&&) = default;
    HandlerHold& operator=(HandlerHold&&) = delete;
    ~HandlerHold() {
      if (impl_ != nullptr) impl_->lose_endpoint();
    }
    std::shared_ptr<Impl> impl_;
  };

  absl::Status allocate(const RemoteMemoryRequest& request, const IncomingCall& call, Message& answer);
  absl::Status open(const RemoteMemoryRequest& request, const IncomingCall& call, Message& answer);
  [[nodiscard]] absl::Status check_new(uint64_t bytes, uint8_t rights) const;
  [[nodiscard]] absl::Status admit(const IncomingCall& call, uint64_t bytes, uint8_t rights) const;
  absl::StatusOr<std::shared_ptr<Memory>> make_memory(uint64_t bytes);
  Region& add_region(std::shared_ptr<Memory> memory, uint8_t rights);
  DurationNs grant(Region& region, const RemoteMemoryRequest& request, const IncomingCall& call);
  [[nodiscard]] Region* find_published(std::string_view name) const;
  absl::Status renew(const RemoteMemoryRequest& request, Region& region, TimeNs now, Message& answer);
  absl::Status read(const RemoteMemoryRequest& request, Region& region, Message& answer);
  absl::Status write(const RemoteMemoryRequest& request, Region& region);
  absl::Status update(const RemoteMemoryRequest& request, Region& region, Message& answer);
  absl::Status dispatch(const RemoteMemoryRequest& request, const IncomingCall& call, Message& answer);
  absl::StatusOr<Region*> find(const RemoteMemoryRequest& request, const IncomingCall& call);
  void tell_name(Region& region, ByteWriter& answer);
  bool open_to_transport(Region& region);
  void shut(Region& region);
  absl::Status answer_ring(Region& region, Message& answer);
  absl::Status make_ring(Region& region);
  void on_notice(PeerId from, uint32_t number);
  void tell_observer(const Region& region, const NoticeRing::Entry& entry);
  void expire_by(TimeNs when);
  void lose_endpoint();
  void end(Regions::iterator region, uint64_t& counter);
  static absl::Status check_rights(const RemoteMemoryRequest& request, const Region& region);
  static absl::Status check(const Region& region, uint8_t right, uint64_t offset, uint64_t bytes);
  static void sent(void* memory);
  [[nodiscard]] static uint32_t to_ms(DurationNs lease_ns);

  const Options options_;
  Endpoint* endpoint_;    // null after lose_endpoint()
  MemoryAccess* access_;  // null after lose_endpoint()
  /// The arena is registered with the endpoint, so that answers are sent from it without a copy. Not if the transport
  /// lets peers READ registered memory: they could then read all regions.
  const bool registered_;
  Arena arena_;
  BufferPool buffers_;
  Rng keys_;
  Regions regions_;
  std::map<std::string, uint64_t, std::less<>> published_;  // name -> key
  bool closed_ = false;
  TimeNs expire_at_ns_ = kTimeNever;
  absl::flat_hash_map<uint32_t, uint64_t> slots_;  // slot of a ring -> key of its region
  uint32_t next_slot_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_REMOTE_MEMORY_HOST_IMPL_H_
