// The owning side of remote memory: requests, and notices that the transport brings.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rpc/remote_memory_host_impl.h"

namespace skua::rpc {
namespace {

using Kind = RemoteMemoryRequest::Kind;
constexpr size_t kAtomicBytes = sizeof(uint64_t);

}  // namespace

void RemoteMemoryHost::Impl::serve() {
  endpoint_->serve(kRemoteMemoryMethod, [hold = HandlerHold(shared_from_this())](IncomingCall&& call) {
    hold.impl_->on_request(std::move(call));
  });
  access_->on_notice([impl = shared_from_this()](PeerId from, uint32_t number) { impl->on_notice(from, number); });
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
    case Kind::kRing: return answer_ring(region, answer);
  }
  return absl::OkStatus();
}

absl::StatusOr<RemoteMemoryHost::Impl::Region*> RemoteMemoryHost::Impl::find(const RemoteMemoryRequest& request,
                                                                             const IncomingCall& call) {
  const auto found = regions_.find(request.key);
  // For other sessions the region does not exist, so that nobody can find keys by trying.
  if (found == regions_.end() || found->second->is_published() || found->second->session != call.session) {
    return absl::NotFoundError("no such region: it was freed, revoked, or granted to another session; allocate again");
  }
  if (found->second->expires_ns <= call.received_ns) {
    end(found, counters_.expired);
    return absl::NotFoundError("the region's lease has ended: allocate again, and renew in time");
  }
  return found->second.get();
}

// --- Notices by the transport ----------------------------------------------------------------------------------------

absl::Status RemoteMemoryHost::Impl::answer_ring(Region& region, Message& answer) {
  if (!region.ring.has_value()) {
    if (absl::Status status = make_ring(region); !status.ok()) return status;
  }
  ByteWriter writer(answer.head_room());
  writer.write(region.ring->name.address);
  writer.write(region.ring->name.key);
  writer.write(region.ring->slot);
  answer.set_head_size(writer.size());
  return absl::OkStatus();
}

absl::Status RemoteMemoryHost::Impl::make_ring(Region& region) {
  if (!region.opened.has_value() || (region.rights & remote_rights::kWrite) == 0) {
    return absl::FailedPreconditionError("notices of writes to this region are calls");
  }
  if (slots_.size() >= NoticeRing::kSlotsMax / 2) return absl::ResourceExhaustedError("too many regions have a ring");
  Ring ring;
  absl::StatusOr<Buffer> memory = buffers_.allocate(NoticeRing::kBytes);
  if (!memory.ok()) return memory.status();
  ring.memory = *std::move(memory);
  std::memset(ring.memory.data(), 0, NoticeRing::kBytes);
  absl::StatusOr<MemoryName> name = access_->open_region(ring.span(), remote_rights::kRead | remote_rights::kWrite);
  if (!name.ok()) return name.status();
  ring.name = *name;
  ring.peer = access_->reserve_notices(region.session, NoticeRing::kEntries);
  if (ring.peer == kNoPeer) {
    access_->close_region(ring.name.key);
    return absl::ResourceExhaustedError("there is no room for notices by the transport: they are calls");
  }
  // Slots are used in turn, so that late notices of an ended ring do not reach another one.
  do {
    ring.slot = next_slot_++ % NoticeRing::kSlotsMax;
  } while (slots_.contains(ring.slot));
  slots_.emplace(ring.slot, region.key);
  region.ring = std::move(ring);
  return absl::OkStatus();
}

void RemoteMemoryHost::Impl::on_notice(PeerId from, uint32_t number) {
  const auto slot = slots_.find(NoticeRing::slot_of(number));
  const auto found = slot == slots_.end() ? regions_.end() : regions_.find(slot->second);
  if (found == regions_.end() || found->second->ring->peer != from) {
    ++counters_.refused;
    return;
  }
  if (found->second->expires_ns <= endpoint_->now_ns()) return end(found, counters_.expired);
  const Region& region = *found->second;
  const std::optional<NoticeRing::Entry> entry = NoticeRing::take(region.ring->span(), number);
  if (!entry.has_value() || !check(region, remote_rights::kWrite, entry->offset, entry->bytes).ok()) {
    ++counters_.refused;
    return;
  }
  ++counters_.notices;
  tell_observer(region, *entry);
}

void RemoteMemoryHost::Impl::tell_observer(const Region& region, const NoticeRing::Entry& entry) {
  if (!notice_observer_) return;
  const uint64_t key = region.published_key != 0 ? region.published_key : region.key;
  notice_observer_({key, entry.notice, entry.offset, entry.bytes});
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

/// The transport no longer reads the memory.
void RemoteMemoryHost::Impl::sent(void* context) {
  auto* memory = static_cast<Memory*>(context);
  if (--memory->sending > 0) return;
  // Both must live until the end of this function; the arena (in Impl) must outlive the memory.
  const std::shared_ptr<Impl> impl = std::move(memory->owner);
  const std::shared_ptr<Memory> self = std::move(memory->self);
}

absl::Status RemoteMemoryHost::Impl::write(const RemoteMemoryRequest& request, Region& region) {
  if (absl::Status status = check(region, remote_rights::kWrite, request.offset, request.bytes); !status.ok()) {
    return status;
  }
  copy_bytes(region.memory->buffer.data() + request.offset, request.content);
  if (request.has_notice) {
    tell_observer(region, {request.offset, static_cast<uint32_t>(request.bytes), request.notice});
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
