// The using side of remote memory: regions.
#include "rpc/remote_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/remote_memory_impl.h"

namespace skua::rpc {
namespace {

using Kind = RemoteMemoryRequest::Kind;
using Wish = RemoteOperation::Kind;

uint32_t lease_ms(DurationNs lease_ns) {
  return static_cast<uint32_t>(std::clamp<DurationNs>(lease_ns / kMillisecond, 0, UINT32_MAX));
}

/// Bytes of the answer about a new region that is used by calls. The answer to kOpen has the region's size as well.
constexpr size_t kAnswerBytes = sizeof(uint64_t) + sizeof(uint32_t);
constexpr size_t kSizeBytes = sizeof(uint64_t);

}  // namespace

// --- Grants ----------------------------------------------------------------------------------------------------------

RemoteMemory::Impl::Grant* RemoteMemory::Impl::find(const RemoteRegion& region) {
  if (region.grant >= grants_.size()) return nullptr;
  Grant& grant = grants_[region.grant];
  return grant.region.key == region.key && grant.region.session == region.session ? &grant : nullptr;
}

uint32_t RemoteMemory::Impl::remember(const RemoteRegion& region, std::optional<MemoryName> name) {
  if (free_grants_.empty()) {
    // Free the records of regions whose leases have ended without another use.
    for (uint32_t i = 0; i < grants_.size(); ++i) {
      if (grants_[i].region.expires_ns > endpoint_.now_ns()) continue;
      grants_[i] = {};
      free_grants_.push_back(i);
    }
  }
  if (free_grants_.empty()) {
    grants_.emplace_back();
    free_grants_.push_back(static_cast<uint32_t>(grants_.size() - 1));
  }
  const uint32_t index = free_grants_.back();
  free_grants_.pop_back();
  Grant& grant = grants_[index];
  grant = {};
  grant.region = region;
  grant.region.grant = index;
  grant.life = access_.life_of(region.session);
  grant.name = name;
  return index;
}

// --- Asking for regions ----------------------------------------------------------------------------------------------

/// The transport can reach a region only if a connection stands when the region is granted. So an allocation waits a
/// while for the first connection.
absl::Status RemoteMemory::Impl::allocate(const RemoteRegion& region, RemoteMemoryRequest request, Granted granted) {
  const uint64_t life = access_.life_of(region.session);
  const bool wanted = options_.connect_patience_ns > 0 && access_.offered() && life != 0;
  request.direct = wanted && access_.ready(region.session);
  if (!wanted || request.direct) return ask(region, request, std::move(granted));
  auto allocation = std::make_unique<Allocation>();
  allocation->owner = this;
  allocation->session = region.session;
  allocation->life = life;
  allocation->deadline_ns = endpoint_.now_ns() + options_.connect_patience_ns;
  allocation->patient = allocation->only_connect = true;
  allocation->region = region;
  allocation->request = request;
  allocation->granted = std::move(granted);
  allocation->complete = &Impl::on_connected;
  ++in_flight_;
  access_.start(*allocation.release());
  return absl::OkStatus();
}

void RemoteMemory::Impl::on_connected(MemoryAccess::Operation& operation, MemoryAccess::Result result) {
  const std::unique_ptr<Allocation> allocation(static_cast<Allocation*>(&operation));
  Impl& self = *allocation->owner;
  --self.in_flight_;
  allocation->request.direct = result == MemoryAccess::Result::kDone;
  const auto granted = std::make_shared<Granted>(std::move(allocation->granted));
  const absl::Status status =
      self.ask(allocation->region, allocation->request,
               [granted](absl::StatusOr<RemoteRegion> region) { (*granted)(std::move(region)); });
  if (!status.ok()) (*granted)(status);
}

absl::Status RemoteMemory::Impl::ask(const RemoteRegion& region, const RemoteMemoryRequest& request, Granted granted) {
  MessagePtr message = endpoint_.make_message();
  message->set_head_size(request.encode(message->head_room()));
  SKUA_CHECK(message->append_head(request.content), "a name is longer than a message's head");
  const TimeNs asked_ns = endpoint_.now_ns();
  const bool opened = request.kind == Kind::kOpen;
  const bool fresh = opened || request.kind == Kind::kAllocate;
  const bool wants_name = request.direct;
  auto on_answer = [this, answered = RemoteRegion(region), asked_ns, opened, fresh, wants_name,
                    granted = std::move(granted)](CallResult&& result) mutable {
    --in_flight_;
    if (!result.status.ok()) return granted(std::move(result.status));
    ByteReader reader(result.response.bytes());
    if (fresh) answered.key = reader.read<uint64_t>();
    answered.expires_ns = asked_ns + reader.read<uint32_t>() * kMillisecond;
    if (opened) answered.bytes = reader.read<uint64_t>();
    std::optional<MemoryName> name;
    if (wants_name && result.response.bytes().size() > kAnswerBytes + (opened ? kSizeBytes : 0)) {
      name.emplace();
      name->address = reader.read<uint64_t>();
      name->key = reader.read<uint32_t>();
    }
    if (!reader.complete()) return granted(absl::InternalError("the peer's answer about a region is malformed"));
    if (fresh) answered.grant = remember(answered, name);
    if (Grant* grant = find(answered); grant != nullptr) {
      answered.grant = static_cast<uint32_t>(grant - grants_.data());
      grant->region.expires_ns = answered.expires_ns;
    }
    granted(answered);
  };
  const absl::StatusOr<CallId> call = endpoint_.call(region.session, kRemoteMemoryMethod, std::move(message),
                                                     {.timeout_ns = options_.timeout_ns}, std::move(on_answer));
  if (call.ok()) ++in_flight_;
  return call.status();
}

absl::Status RemoteMemory::Impl::free(const RemoteRegion& region, Done done) {
  RemoteMemoryRequest request;
  request.kind = Kind::kFree;
  request.key = region.key;
  MessagePtr message = endpoint_.make_message();
  message->set_head_size(request.encode(message->head_room()));
  const absl::StatusOr<CallId> call =
      endpoint_.call(region.session, kRemoteMemoryMethod, std::move(message), {.timeout_ns = options_.timeout_ns},
                     [this, done = std::move(done)](CallResult&& result) mutable {
                       --in_flight_;
                       RemoteOutcome outcome;
                       outcome.status = std::move(result.status);
                       outcome.may_have_executed = !outcome.status.ok() && result.may_have_executed;
                       done(std::move(outcome));
                     });
  if (!call.ok()) return call.status();
  ++in_flight_;
  if (Grant* grant = find(region); grant != nullptr) {
    *grant = {};
    free_grants_.push_back(region.grant);
  }
  return absl::OkStatus();
}

// --- The public face -------------------------------------------------------------------------------------------------

RemoteMemory::RemoteMemory(Endpoint& endpoint, const Options& options)
    : impl_(std::make_unique<Impl>(endpoint, options)) {}
RemoteMemory::~RemoteMemory() = default;

absl::Status RemoteMemory::allocate(SessionId session, uint64_t bytes, uint8_t rights, DurationNs lease_ns,
                                    Granted granted) {
  RemoteMemoryRequest request;
  request.kind = Kind::kAllocate;
  request.bytes = bytes;
  request.rights = rights;
  request.lease_ms = lease_ms(lease_ns);
  RemoteRegion region;
  region.session = session;
  region.bytes = bytes;
  region.rights = rights;
  return impl_->allocate(region, request, std::move(granted));
}

absl::Status RemoteMemory::open(SessionId session, std::string_view name, uint8_t rights, DurationNs lease_ns,
                                Granted granted) {
  if (name.empty() || name.size() > RemoteMemoryRequest::kNameMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("names of published memory have 1 to ", RemoteMemoryRequest::kNameMax, " bytes"));
  }
  RemoteMemoryRequest request;
  request.kind = Kind::kOpen;
  request.rights = rights;
  request.lease_ms = lease_ms(lease_ns);
  request.content = as_byte_span(name);
  // Opening does not wait for a connection: until it stands, all operations but atomics are made by calls.
  request.direct = impl_->options_.connect_patience_ns > 0 && impl_->access_.offered();
  RemoteRegion region;
  region.session = session;
  region.rights = rights;
  return impl_->ask(region, request, std::move(granted));
}

absl::Status RemoteMemory::renew(const RemoteRegion& region, DurationNs lease_ns, Granted granted) {
  RemoteMemoryRequest request;
  request.kind = Kind::kRenew;
  request.key = region.key;
  request.lease_ms = lease_ms(lease_ns);
  return impl_->ask(region, request, std::move(granted));
}

absl::Status RemoteMemory::free(const RemoteRegion& region, Done done) {
  return impl_->free(region, std::move(done));
}

absl::Status RemoteMemory::submit(const RemoteRegion& region, const RemoteOperation& operation, Done done) {
  return impl_->start(region, operation, std::move(done));
}

absl::Status RemoteMemory::submit_batch(const RemoteRegion& region, std::span<const RemoteOperation> operations,
                                        BatchDone done) {
  for (const RemoteOperation& operation : operations) {
    if (absl::Status status = impl_->check(region, operation); !status.ok()) return status;
  }
  if (impl_->in_flight_ + operations.size() > impl_->options_.operations_max) {
    return absl::ResourceExhaustedError(absl::StrCat(operations.size(), " operations and ", impl_->in_flight_,
                                                     " in flight are more than operations_max (",
                                                     impl_->options_.operations_max, "): wait for completions"));
  }
  auto shared = std::make_shared<BatchDone>(std::move(done));
  for (size_t i = 0; i < operations.size(); ++i) {
    const absl::Status status =
        impl_->start(region, operations[i], [shared, i](RemoteOutcome&& outcome) { (*shared)(i, std::move(outcome)); });
    if (status.ok()) continue;
    // The session is gone or full. If this is the first operation, return the error; if not, it is the outcome of all
    // operations that are left.
    if (i == 0) return status;
    for (size_t rest = i; rest < operations.size(); ++rest) (*shared)(rest, RemoteOutcome{.status = status});
    break;
  }
  return absl::OkStatus();
}

absl::Status RemoteMemory::read(const RemoteRegion& region, uint64_t offset, MutableByteSpan to, Done done) {
  return submit(region, {.kind = Wish::kRead, .offset = offset, .to = to}, std::move(done));
}
absl::Status RemoteMemory::write(const RemoteRegion& region, uint64_t offset, ByteSpan from, Done done) {
  return submit(region, {.kind = Wish::kWrite, .offset = offset, .from = from}, std::move(done));
}
absl::Status RemoteMemory::fetch_add(const RemoteRegion& region, uint64_t offset, uint64_t addend, Done done) {
  return submit(region, {.kind = Wish::kFetchAdd, .offset = offset, .operand = addend}, std::move(done));
}
absl::Status RemoteMemory::compare_swap(const RemoteRegion& region, uint64_t offset, uint64_t expected,
                                        uint64_t desired, Done done) {
  return submit(region, {.kind = Wish::kCompareSwap, .offset = offset, .operand = desired, .expected = expected},
                std::move(done));
}
const RemoteMemory::Counters& RemoteMemory::counters() const {
  return impl_->counters_;
}
size_t RemoteMemory::operations_in_flight() const {
  return impl_->in_flight_;
}

}  // namespace skua::rpc
