// The owning side of remote memory: how regions begin and end.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rpc/base/entropy.h"
#include "rpc/remote_memory_host_impl.h"

namespace skua::rpc {

RemoteMemoryHost::Impl::Impl(Endpoint& endpoint, const Options& options)
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
      keys_(options.simulation_seed != 0 ? options.simulation_seed : draw_entropy()) {}

uint32_t RemoteMemoryHost::Impl::to_ms(DurationNs lease_ns) {
  return static_cast<uint32_t>(std::clamp<DurationNs>(lease_ns / kMillisecond, 0, UINT32_MAX));
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

/// Whether this peer may have one more region.
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

/// Grants the region to the session that asked. Returns the lease.
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

/// Makes a region of its own for memory that others have opened, too.
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
  // No peer is told this key. Opening shows that the transport can reach the memory, so that all atomics are the
  // transport's from the first one on.
  region.memory->is_transports = open_to_transport(region);
  published_.emplace(name, region.key);
  return region.key;
}

/// False: the transport cannot reach the region, and it is used by calls.
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

/// From now on peers reach the region only by calls, if at all.
void RemoteMemoryHost::Impl::shut(Region& region) {
  if (region.opened.has_value() && access_ != nullptr) access_->close_region(region.opened->key);
  region.opened.reset();
  if (!region.ring.has_value()) return;
  if (access_ != nullptr) {
    access_->close_region(region.ring->name.key);
    access_->release_notices(region.ring->peer, NoticeRing::kEntries);
  }
  slots_.erase(region.ring->slot);
  region.ring.reset();
}

/// An opened region has to be shut when its lease ends, even if nobody uses it. This sets a timer for it.
void RemoteMemoryHost::Impl::expire_by(TimeNs when) {
  if (when >= expire_at_ns_ || endpoint_ == nullptr) return;
  expire_at_ns_ = when;
  access_->call_at(when, [impl = shared_from_this()] { impl->reclaim(); });
}

void RemoteMemoryHost::Impl::end(Regions::iterator found, uint64_t& counter) {
  ++counter;
  std::unique_ptr<Region> region = std::move(found->second);
  regions_.erase(found);
  shut(*region);  // before its memory is used again
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

}  // namespace skua::rpc
