// The implementation of RemoteMemory. Only remote_memory.cc (granted regions) and remote_memory_operations.cc
// (operations on them) include this.
#ifndef SKUA_RPC_REMOTE_MEMORY_IMPL_H_
#define SKUA_RPC_REMOTE_MEMORY_IMPL_H_

#include <memory>
#include <optional>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/memory_access.h"
#include "rpc/notice_ring.h"
#include "rpc/remote_memory.h"
#include "rpc/wire/remote_memory_wire.h"

namespace skua::rpc {

/// Thread: the endpoint's.
class RemoteMemory::Impl {
 public:
  using Kind = RemoteMemoryRequest::Kind;
  using Wish = RemoteOperation::Kind;

  Impl(Endpoint& endpoint, const Options& options)
      : endpoint_(endpoint), access_(endpoint.memory_access()), options_(options) {}
  ~Impl() { SKUA_CHECK(in_flight_ == 0, "remote memory was destroyed with operations in flight"); }

  absl::Status start(const RemoteRegion& region, const RemoteOperation& operation, Done done);
  [[nodiscard]] absl::Status check(const RemoteRegion& region, const RemoteOperation& operation) const;
  absl::Status allocate(const RemoteRegion& region, RemoteMemoryRequest request, Granted granted);
  absl::Status ask(const RemoteRegion& region, const RemoteMemoryRequest& request, Granted granted);
  absl::Status free(const RemoteRegion& region, Done done);

  Endpoint& endpoint_;
  MemoryAccess& access_;
  const Options options_;
  Counters counters_;
  size_t in_flight_ = 0;

 private:
  /// What a peer granted, as the peer's answer said.
  struct Grant {
    RemoteRegion region;  // its key is 0 if this record is free
    uint64_t life = 0;
    /// How the transport reaches the region; not set if it cannot.
    std::optional<MemoryName> name;
    /// The ring that notices go through. The peer is asked for it when the first notice is sent.
    enum class Ring : uint8_t { kNone, kAsked, kReady, kRefused } ring = Ring::kNone;
    MemoryName ring_name;
    uint32_t slot = 0;
    NoticeEntries entries;
    bool looking = false;  // a READ of the owner's counts is in flight
  };
  /// An operation in flight.
  struct Record : MemoryAccess::Operation {
    Impl* owner = nullptr;
    uint32_t waits_for = 0;  // by call: the completion, and the release of the bytes that the transport reads
    RemoteRegion region;
    RemoteMemoryRequest request;
    std::optional<uint32_t> entry;  // the entry that it uses in the region's ring
    MutableByteSpan to{};
    ByteSpan from{};
    Buffer bounce;  // used if the adapter cannot reach the application's memory
    Done done;
    RemoteOutcome outcome;

    [[nodiscard]] bool is_atomic() const {
      return request.kind == Kind::kFetchAdd || request.kind == Kind::kCompareSwap;
    }
  };
  /// A READ of a ring's `taken` counts.
  struct Look : MemoryAccess::Operation {
    Impl* owner = nullptr;
    RemoteRegion region;
    Buffer taken;
  };
  /// An allocation that waits for a connection.
  struct Allocation : MemoryAccess::Operation {
    Impl* owner = nullptr;
    RemoteRegion region;
    RemoteMemoryRequest request;
    Granted granted;
  };

  Grant* find(const RemoteRegion& region);
  uint32_t remember(const RemoteRegion& region, std::optional<MemoryName> name);
  Record& take_record();
  void finish(Record& record);

  // By the transport.
  bool may_go_directly(Grant& grant, const RemoteOperation& operation);
  absl::Status start_directly(Record& record, Grant& grant);
  absl::Status choose_local(Record& record);
  static void on_direct(MemoryAccess::Operation& operation, MemoryAccess::Result result);
  static void on_connected(MemoryAccess::Operation& operation, MemoryAccess::Result result);
  void take_result(Record& record);

  // Notices by the transport.
  bool may_notify(Grant& grant);
  void ask_for_ring(Grant& grant);
  void add_entry(Record& record, Grant& grant);
  void settle_entry(Record& record, MemoryAccess::Result result);
  void look_at_taken(Grant& grant);
  static void on_looked(MemoryAccess::Operation& operation, MemoryAccess::Result result);
  void ask_what_happened(Record& record);

  // By calls.
  absl::Status start_call(Record& record);
  void call_instead(Record& record);
  static void let_go(Record& record);
  static void on_released(void* record);
  static void on_result(Record& record, CallResult&& result);

  std::vector<std::unique_ptr<Record>> records_;
  std::vector<Record*> free_;
  std::vector<Grant> grants_;
  std::vector<uint32_t> free_grants_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_REMOTE_MEMORY_IMPL_H_
