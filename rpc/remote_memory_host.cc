// The owning side of remote memory.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "rpc/memory/arena.h"
#include "rpc/memory/buffer_pool.h"
#include "rpc/memory_access.h"
#include "rpc/remote_memory.h"
#include "rpc/wire/remote_memory_wire.h"

namespace skua::rpc {
namespace {

using Kind = RemoteMemoryRequest::Kind;
constexpr size_t kAtomicBytes = sizeof(uint64_t);

uint64_t entropy() {
  std::random_device device;
  return (uint64_t{device()} << 32) ^ device();
}

uint32_t to_ms(DurationNs lease_ns) {
  return static_cast<uint32_t>(std::clamp<DurationNs>(lease_ns / kMillisecond, 0, UINT32_MAX));
}

}  // namespace

/// Shared by the host, the endpoint's handler and answers on their way: whichever goes last ends it.
class RemoteMemoryHost::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Endpoint& endpoint, const Options& options)
      : options_(options),
        endpoint_(&endpoint),
        access_(&endpoint.memory_access()),
        registered_(!access_->offered()),
        arena_({.limit_bytes = options.memory_max_bytes,
                .try_huge_pages = false,
                .on_map =
                    [this](MutableByteSpan region) {
                      return registered_ ? endpoint_->register_memory(region) : absl::OkStatus();
                    },
                .on_unmap =
                    [this](MutableByteSpan region) {
                      if (registered_ && endpoint_ != nullptr) endpoint_->unregister_memory(region);
                    }}),
        buffers_(arena_),
        keys_(options.simulation_seed != 0 ? options.simulation_seed : entropy()) {}

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
  /// What one region is granted of, or several where it is published.
  struct Memory {
    Buffer buffer;
    uint64_t bytes = 0;
    /// Its atomics are the transport's, whoever reaches it how.
    bool is_transports = false;
    // While answers are being sent from it: how many, and what they keep.
    uint32_t sending = 0;
    std::shared_ptr<Impl> owner;
    std::shared_ptr<Memory> self;

    [[nodiscard]] MutableByteSpan span() const { return {buffer.data(), bytes}; }
  };
  /// Memory as one session has it, or as it is published: then nobody's session has it.
  struct Region {
    uint64_t key = 0;
    SessionId session;
    uint8_t rights = 0;
    TimeNs expires_ns = kTimeNever;
    std::shared_ptr<Memory> memory;
    /// Peers reach it by this.
    std::optional<MemoryName> opened;
    /// Of what is published. A region that was opened by name has the key of that one.
    std::string name;
    uint64_t published_key = 0;

    [[nodiscard]] bool is_published() const { return !name.empty(); }
  };
  using Regions = absl::flat_hash_map<uint64_t, std::unique_ptr<Region>>;
  /// In the handler: its end is the endpoint's.
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
  void expire_by(TimeNs when);
  void lose_endpoint();
  void end(Regions::iterator region, uint64_t& counter);
  static absl::Status check_rights(const RemoteMemoryRequest& request, const Region& region);
  static absl::Status check(const Region& region, uint8_t right, uint64_t offset, uint64_t bytes);
  static void sent(void* memory);

  const Options options_;
  Endpoint* endpoint_;    // null once it goes,
  MemoryAccess* access_;  // and this too
  /// With the endpoint, so that it sends from the arena without copying. Not where the transport lets peers READ what is registered:
  /// the regions would be theirs, all of them.
  const bool registered_;
  Arena arena_;
  BufferPool buffers_;
  Rng keys_;
  Regions regions_;
  std::map<std::string, uint64_t, std::less<>> published_;  // keys
  bool closed_ = false;
  TimeNs expire_at_ns_ = kTimeNever;
};

void RemoteMemoryHost::Impl::serve() {
  endpoint_->serve(kRemoteMemoryMethod, [hold = HandlerHold(shared_from_this())](IncomingCall&& call) {
    hold.impl_->on_request(std::move(call));
  });
}

void RemoteMemoryHost::Impl::lose_endpoint() {
  for (const auto& [key, region] : regions_) shut(*region);
  endpoint_ = nullptr;
  access_ = nullptr;
}

void RemoteMemoryHost::Impl::close() {
  closed_ = true;
  notice_observer_ = nullptr;
  while (!regions_.empty()) end(regions_.begin(), counters_.revoked);
}

void RemoteMemoryHost::Impl::on_request(IncomingCall&& call) {
  RemoteMemoryRequest request;
  MessagePtr answer = endpoint_->make_message();
  absl::Status status = absl::InvalidArgumentError("not a request for remote memory");
  if (closed_) {
    status = absl::UnimplementedError("the peer does not offer remote memory any more");
  } else if (RemoteMemoryRequest::decode(call.request.bytes(), request)) {
    status = dispatch(request, call, *answer);
  }
  if (!status.ok()) {
    ++counters_.refused;
    return call.reply.fail(status);
  }
  call.reply.reply(std::move(answer));
}

absl::Status RemoteMemoryHost::Impl::dispatch(const RemoteMemoryRequest& request, const IncomingCall& call,
                                              Message& answer) {
  if (request.kind == Kind::kAllocate) return allocate(request, call, answer);
  if (request.kind == Kind::kOpen) return open(request, call, answer);
  absl::StatusOr<Region*> found = find(request, call);
  if (!found.ok()) return found.status();
  Region& region = **found;
  ++counters_.operations;
  switch (request.kind) {
    case Kind::kAllocate:
    case Kind::kOpen: break;
    case Kind::kFree: end(regions_.find(region.key), counters_.freed); break;
    case Kind::kRenew: return renew(request, region, call.received_ns, answer);
    case Kind::kRead: return read(request, region, answer);
    case Kind::kWrite: return write(request, region);
    case Kind::kFetchAdd:
    case Kind::kCompareSwap: return update(request, region, answer);
    case Kind::kCheck: return check_rights(request, region);
  }
  return absl::OkStatus();
}

absl::StatusOr<RemoteMemoryHost::Impl::Region*> RemoteMemoryHost::Impl::find(const RemoteMemoryRequest& request,
                                                                             const IncomingCall& call) {
  const auto found = regions_.find(request.key);
  // To others than its session a region is not there: keys are not to be found out by trying.
  if (found == regions_.end() || found->second->is_published() || found->second->session != call.session) {
    return absl::NotFoundError("no such region: it was freed, revoked, or granted to another session; allocate again");
  }
  if (found->second->expires_ns <= call.received_ns) {
    end(found, counters_.expired);
    return absl::NotFoundError("the region's lease has ended: allocate again, and renew in time");
  }
  return found->second.get();
}

absl::Status RemoteMemoryHost::Impl::check_new(uint64_t bytes, uint8_t rights) const {
  if (bytes == 0 || rights == 0 || (rights & ~remote_rights::kAll) != 0) {
    return absl::InvalidArgumentError("a region has at least one byte and one right");
  }
  if (bytes > std::min<uint64_t>(options_.region_max_bytes, BufferPool::kLargest)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a region of ", bytes, " bytes; the peer grants at most ",
                     std::min<uint64_t>(options_.region_max_bytes, BufferPool::kLargest)));
  }
  return absl::OkStatus();
}

/// Room for one more region, for this peer.
absl::Status RemoteMemoryHost::Impl::admit(const IncomingCall& call, uint64_t bytes, uint8_t rights) const {
  if (options_.admit) {
    const EndpointIdentity peer = endpoint_->peer_identity(call.session);
    if (absl::Status status = options_.admit(peer, bytes, rights); !status.ok()) return status;
  }
  if (regions_.size() < options_.regions_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the peer has regions_max (", options_.regions_max, ") regions: free some"));
}

absl::StatusOr<std::shared_ptr<RemoteMemoryHost::Impl::Memory>> RemoteMemoryHost::Impl::make_memory(uint64_t bytes) {
  absl::StatusOr<Buffer> buffer = buffers_.allocate(bytes);
  if (!buffer.ok()) return buffer.status();
  std::memset(buffer->data(), 0, bytes);
  auto memory = std::make_shared<Memory>();
  memory->buffer = *std::move(buffer);
  memory->bytes = bytes;
  return memory;
}

RemoteMemoryHost::Impl::Region& RemoteMemoryHost::Impl::add_region(std::shared_ptr<Memory> memory, uint8_t rights) {
  auto region = std::make_unique<Region>();
  do {
    region->key = keys_.next();
  } while (regions_.contains(region->key));
  region->rights = rights;
  region->memory = std::move(memory);
  Region& out = *region;
  regions_.emplace(out.key, std::move(region));
  return out;
}

/// Gives the region to the session that asked. Returns the lease.
DurationNs RemoteMemoryHost::Impl::grant(Region& region, const RemoteMemoryRequest& request, const IncomingCall& call) {
  const DurationNs lease_ns = std::min<DurationNs>(request.lease_ms * kMillisecond, options_.lease_max_ns);
  region.session = call.session;
  region.expires_ns = call.received_ns + lease_ns;
  expire_by(region.expires_ns);
  ++counters_.granted;
  return lease_ns;
}

absl::Status RemoteMemoryHost::Impl::allocate(const RemoteMemoryRequest& request, const IncomingCall& call,
                                              Message& answer) {
  if (absl::Status status = check_new(request.bytes, request.rights); !status.ok()) return status;
  reclaim();
  if (absl::Status status = admit(call, request.bytes, request.rights); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<Memory>> memory = make_memory(request.bytes);
  if (!memory.ok()) return memory.status();
  Region& region = add_region(*std::move(memory), request.rights);
  const DurationNs lease_ns = grant(region, request, call);
  ByteWriter writer(answer.head_room());
  writer.write(region.key);
  writer.write(to_ms(lease_ns));
  if (request.direct && open_to_transport(region)) {
    region.memory->is_transports = true;
    tell_name(region, writer);
  }
  answer.set_head_size(writer.size());
  return absl::OkStatus();
}

/// A region of its own in memory that others have, too.
absl::Status RemoteMemoryHost::Impl::open(const RemoteMemoryRequest& request, const IncomingCall& call,
                                          Message& answer) {
  reclaim();
  const Region* published = find_published(as_string_view(request.content));
  if (published == nullptr) return absl::NotFoundError("the peer publishes no memory of that name");
  if (request.rights == 0 || (request.rights & ~published->rights) != 0) {
    return absl::PermissionDeniedError("the memory of that name is published with other rights");
  }
  const std::shared_ptr<Memory> memory = published->memory;
  const uint64_t published_key = published->key;
  if (absl::Status status = admit(call, memory->bytes, request.rights); !status.ok()) return status;
  Region& region = add_region(memory, request.rights);
  region.published_key = published_key;
  const DurationNs lease_ns = grant(region, request, call);
  ByteWriter writer(answer.head_room());
  writer.write(region.key);
  writer.write(to_ms(lease_ns));
  writer.write(memory->bytes);
  if (request.direct && memory->is_transports && open_to_transport(region)) tell_name(region, writer);
  answer.set_head_size(writer.size());
  return absl::OkStatus();
}

RemoteMemoryHost::Impl::Region* RemoteMemoryHost::Impl::find_published(std::string_view name) const {
  const auto key = published_.find(name);
  return key == published_.end() ? nullptr : regions_.find(key->second)->second.get();
}

absl::StatusOr<uint64_t> RemoteMemoryHost::Impl::publish(std::string_view name, uint64_t bytes, uint8_t rights) {
  if (name.empty() || name.size() > RemoteMemoryRequest::kNameMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("names of published memory have 1 to ", RemoteMemoryRequest::kNameMax, " bytes"));
  }
  if (absl::Status status = check_new(bytes, rights); !status.ok()) return status;
  if (published_.contains(name))
    return absl::AlreadyExistsError(absl::StrCat("there is published memory of the name ", std::string(name)));
  if (regions_.size() >= options_.regions_max) {
    return absl::ResourceExhaustedError(absl::StrCat("there are regions_max (", options_.regions_max, ") regions"));
  }
  absl::StatusOr<std::shared_ptr<Memory>> memory = make_memory(bytes);
  if (!memory.ok()) return memory.status();
  Region& region = add_region(*std::move(memory), rights);
  region.name = name;
  region.published_key = region.key;
  // Nobody is told this key. It shows that the transport can, so that atomics are the transport's from the first one on.
  region.memory->is_transports = open_to_transport(region);
  published_.emplace(name, region.key);
  return region.key;
}

/// A region that cannot be opened is used by calls.
bool RemoteMemoryHost::Impl::open_to_transport(Region& region) {
  if (!access_->offered()) return false;
  const absl::StatusOr<MemoryName> name = access_->open_region(region.memory->span(), region.rights);
  if (!name.ok()) return false;
  region.opened = *name;
  ++counters_.opened;
  return true;
}

void RemoteMemoryHost::Impl::tell_name(Region& region, ByteWriter& answer) {
  answer.write(region.opened->address);
  answer.write(region.opened->key);
}

/// From now on peers reach it by calls alone, if at all.
void RemoteMemoryHost::Impl::shut(Region& region) {
  if (region.opened.has_value() && access_ != nullptr) access_->close_region(region.opened->key);
  region.opened.reset();
}

/// What is opened has to be shut in time, whether somebody asks for it or not.
void RemoteMemoryHost::Impl::expire_by(TimeNs when) {
  if (when >= expire_at_ns_ || endpoint_ == nullptr) return;
  expire_at_ns_ = when;
  access_->call_at(when, [impl = shared_from_this()] { impl->reclaim(); });
}

absl::Status RemoteMemoryHost::Impl::renew(const RemoteMemoryRequest& request, Region& region, TimeNs now,
                                           Message& answer) {
  const DurationNs lease_ns = std::min<DurationNs>(request.lease_ms * kMillisecond, options_.lease_max_ns);
  region.expires_ns = now + lease_ns;
  expire_by(region.expires_ns);
  ByteWriter writer(answer.head_room());
  writer.write(to_ms(lease_ns));
  answer.set_head_size(writer.size());
  return absl::OkStatus();
}

absl::Status RemoteMemoryHost::Impl::check(const Region& region, uint8_t right, uint64_t offset, uint64_t bytes) {
  if ((region.rights & right) == 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("the region was granted without the right to ", right == remote_rights::kRead    ? "read"
                                                                     : right == remote_rights::kWrite ? "write"
                                                                                                      : "use atomics"));
  }
  const uint64_t size = region.memory->bytes;
  if (offset > size || bytes > size - offset) {
    return absl::OutOfRangeError(
        absl::StrCat(bytes, " bytes at offset ", offset, " are not within the region of ", size, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status RemoteMemoryHost::Impl::check_rights(const RemoteMemoryRequest& request, const Region& region) {
  for (const uint8_t right : {remote_rights::kRead, remote_rights::kWrite, remote_rights::kAtomic}) {
    if ((request.rights & right) == 0) continue;
    if (absl::Status status = check(region, right, request.offset, request.bytes); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RemoteMemoryHost::Impl::read(const RemoteMemoryRequest& request, Region& region, Message& answer) {
  if (absl::Status status = check(region, remote_rights::kRead, request.offset, request.bytes); !status.ok()) {
    return status;
  }
  Memory& memory = *region.memory;
  const ByteSpan bytes = memory.span().subspan(request.offset, request.bytes);
  if (answer.append_head(bytes)) return absl::OkStatus();
  static_cast<void>(answer.add_body(bytes, &Impl::sent, &memory));
  if (memory.sending++ > 0) return absl::OkStatus();
  memory.owner = shared_from_this();
  memory.self = region.memory;
  return absl::OkStatus();
}

/// The transport reads the memory no longer.
void RemoteMemoryHost::Impl::sent(void* context) {
  auto* memory = static_cast<Memory*>(context);
  if (--memory->sending > 0) return;
  // Until the end of this function, the memory's arena the longer.
  const std::shared_ptr<Impl> impl = std::move(memory->owner);
  const std::shared_ptr<Memory> self = std::move(memory->self);
}

absl::Status RemoteMemoryHost::Impl::write(const RemoteMemoryRequest& request, Region& region) {
  if (absl::Status status = check(region, remote_rights::kWrite, request.offset, request.bytes); !status.ok()) {
    return status;
  }
  copy_bytes(region.memory->buffer.data() + request.offset, request.content);
  if (request.has_notice && notice_observer_) {
    const uint64_t key = region.published_key != 0 ? region.published_key : region.key;
    notice_observer_({key, request.notice, request.offset, request.bytes});
  }
  return absl::OkStatus();
}

absl::Status RemoteMemoryHost::Impl::update(const RemoteMemoryRequest& request, Region& region, Message& answer) {
  if (absl::Status status = check(region, remote_rights::kAtomic, request.offset, kAtomicBytes); !status.ok()) {
    return status;
  }
  if (request.offset % kAtomicBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("atomics work on multiples of 8; the offset is ", request.offset));
  }
  if (region.memory->is_transports) {
    return absl::FailedPreconditionError(
        "the region's atomics are the adapter's, which knows nothing of this processor's");
  }
  // The owner's own threads may use the memory through std::atomic_ref.
  std::atomic_ref<uint64_t> cell(*reinterpret_cast<uint64_t*>(region.memory->buffer.data() + request.offset));
  uint64_t previous = request.expected;
  if (request.kind == Kind::kFetchAdd) {
    previous = cell.fetch_add(request.operand);
  } else {
    cell.compare_exchange_strong(previous, request.operand);
  }
  ByteWriter writer(answer.head_room());
  writer.write(previous);
  answer.set_head_size(writer.size());
  return absl::OkStatus();
}

void RemoteMemoryHost::Impl::end(Regions::iterator found, uint64_t& counter) {
  ++counter;
  std::unique_ptr<Region> region = std::move(found->second);
  regions_.erase(found);
  shut(*region);  // before its memory is anybody else's
  if (region->is_published()) published_.erase(region->name);
}

void RemoteMemoryHost::Impl::end_session(SessionId session) {
  for (auto region = regions_.begin(); region != regions_.end();) {
    const auto next = std::next(region);
    if (!region->second->is_published() && region->second->session == session) end(region, counters_.revoked);
    region = next;
  }
}

void RemoteMemoryHost::Impl::reclaim() {
  const TimeNs now = endpoint_ == nullptr ? kTimeNever : endpoint_->now_ns();
  TimeNs next = kTimeNever;
  for (auto region = regions_.begin(); region != regions_.end();) {
    const auto after = std::next(region);
    if (region->second->expires_ns <= now) {
      end(region, counters_.expired);
    } else {
      next = std::min(next, region->second->expires_ns);
    }
    region = after;
  }
  expire_at_ns_ = kTimeNever;
  if (next != kTimeNever) expire_by(next);
}

bool RemoteMemoryHost::Impl::revoke(uint64_t key) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return false;
  const bool is_published = found->second->is_published();
  end(found, counters_.revoked);
  if (!is_published) return true;
  for (auto region = regions_.begin(); region != regions_.end();) {
    const auto next = std::next(region);
    if (region->second->published_key == key) end(region, counters_.revoked);
    region = next;
  }
  return true;
}

MutableByteSpan RemoteMemoryHost::Impl::local(uint64_t key) const {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return {};
  return found->second->memory->span();
}

// --- The public face -------------------------------------------------------------------------------------------------

RemoteMemoryHost::RemoteMemoryHost(Endpoint& endpoint, const Options& options)
    : impl_(std::make_shared<Impl>(endpoint, options)) {
  impl_->serve();
}
RemoteMemoryHost::~RemoteMemoryHost() {
  impl_->close();
}
void RemoteMemoryHost::on_notice(std::function<void(const Notice&)> observer) {
  impl_->notice_observer_ = std::move(observer);
}
void RemoteMemoryHost::on_session_event(const SessionEvent& event) {
  if (event.kind == SessionEvent::Kind::kClosed || event.kind == SessionEvent::Kind::kBroken) {
    impl_->end_session(event.session);
  }
}
void RemoteMemoryHost::reclaim() {
  impl_->reclaim();
}
MutableByteSpan RemoteMemoryHost::local(uint64_t key) const {
  return impl_->local(key);
}
absl::StatusOr<uint64_t> RemoteMemoryHost::publish(std::string_view name, uint64_t bytes, uint8_t rights) {
  return impl_->publish(name, bytes, rights);
}
bool RemoteMemoryHost::revoke(uint64_t key) {
  return impl_->revoke(key);
}
const RemoteMemoryHost::Counters& RemoteMemoryHost::counters() const {
  return impl_->counters_;
}
size_t RemoteMemoryHost::region_count() const {
  return impl_->region_count();
}
size_t RemoteMemoryHost::bytes_in_use() const {
  return impl_->bytes_in_use();
}

}  // namespace skua::rpc
