// The using side of remote memory.
#include "rpc/remote_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/memory_access.h"
#include "rpc/wire/remote_memory_wire.h"

namespace skua::rpc {
namespace {

using Kind = RemoteMemoryRequest::Kind;
using Wish = RemoteOperation::Kind;

uint32_t lease_ms(DurationNs lease_ns) {
  return static_cast<uint32_t>(std::clamp<DurationNs>(lease_ns / kMillisecond, 0, UINT32_MAX));
}

/// Of the answer about a new region that goes by calls; of one that is opened, its size comes on top.
constexpr size_t kAnswerBytes = sizeof(uint64_t) + sizeof(uint32_t);
constexpr size_t kSizeBytes = sizeof(uint64_t);

bool is_atomic(Wish kind) {
  return kind == Wish::kFetchAdd || kind == Wish::kCompareSwap;
}

uint8_t right_for(Wish kind) {
  return is_atomic(kind) ? remote_rights::kAtomic : kind == Wish::kRead ? remote_rights::kRead : remote_rights::kWrite;
}

uint64_t bytes_of(const RemoteOperation& operation) {
  return is_atomic(operation.kind)       ? sizeof(uint64_t)
         : operation.kind == Wish::kRead ? operation.to.size()
                                         : operation.from.size();
}

bool is_within(const RemoteRegion& region, const RemoteOperation& operation) {
  return operation.offset <= region.bytes && bytes_of(operation) <= region.bytes - operation.offset;
}

RemoteMemoryRequest request_of(const RemoteRegion& region, const RemoteOperation& operation) {
  RemoteMemoryRequest request;
  request.key = region.key;
  request.offset = operation.offset;
  switch (operation.kind) {
    case Wish::kRead:
      request.kind = Kind::kRead;
      request.bytes = operation.to.size();
      break;
    case Wish::kWrite:
    case Wish::kWriteWithNotice:
      request.kind = Kind::kWrite;
      request.bytes = operation.from.size();
      request.has_notice = operation.kind == Wish::kWriteWithNotice;
      request.notice = operation.notice;
      break;
    case Wish::kFetchAdd: request.kind = Kind::kFetchAdd; break;
    case Wish::kCompareSwap: request.kind = Kind::kCompareSwap; break;
  }
  request.operand = operation.operand;
  request.expected = operation.expected;
  return request;
}

}  // namespace

class RemoteMemory::Impl {
 public:
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
  /// What a peer granted, as it said itself.
  struct Grant {
    RemoteRegion region;  // key 0: none
    uint64_t life = 0;
    /// The region as the transport reaches it.
    std::optional<MemoryName> name;
  };
  /// An operation in flight.
  struct Record : MemoryAccess::Operation {
    Impl* owner = nullptr;
    uint32_t waits_for = 0;  // of a call: its end, and transports that read its bytes
    RemoteMemoryRequest request;
    MutableByteSpan to{};
    ByteSpan from{};
    Buffer bounce;  // where the adapter does not reach the application's memory
    Done done;
    RemoteOutcome outcome;

    [[nodiscard]] bool is_atomic() const {
      return request.kind == Kind::kFetchAdd || request.kind == Kind::kCompareSwap;
    }
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
  bool may_go_directly(const Grant& grant, const RemoteOperation& operation);
  absl::Status start_directly(Record& record, const Grant& grant);
  absl::Status choose_local(Record& record);
  static void on_direct(MemoryAccess::Operation& operation, MemoryAccess::Result result);
  static void on_connected(MemoryAccess::Operation& operation, MemoryAccess::Result result);
  void take_result(Record& record);
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

// --- Grants ----------------------------------------------------------------------------------------------------------

RemoteMemory::Impl::Grant* RemoteMemory::Impl::find(const RemoteRegion& region) {
  if (region.grant >= grants_.size()) return nullptr;
  Grant& grant = grants_[region.grant];
  return grant.region.key == region.key && grant.region.session == region.session ? &grant : nullptr;
}

uint32_t RemoteMemory::Impl::remember(const RemoteRegion& region, std::optional<MemoryName> name) {
  if (free_grants_.empty()) {
    // Those whose leases ended with nobody using them again.
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
  grants_[index] = {region, access_.life_of(region.session), name};
  return index;
}

// --- Operations ------------------------------------------------------------------------------------------------------

RemoteMemory::Impl::Record& RemoteMemory::Impl::take_record() {
  if (free_.empty()) {
    records_.push_back(std::make_unique<Record>());
    records_.back()->owner = this;
    free_.push_back(records_.back().get());
  }
  Record& record = *free_.back();
  free_.pop_back();
  ++in_flight_;
  return record;
}

void RemoteMemory::Impl::finish(Record& record) {
  Done done = std::move(record.done);
  RemoteOutcome outcome = std::move(record.outcome);
  record.done = nullptr;
  record.outcome = {};
  record.bounce.reset();
  --in_flight_;
  free_.push_back(&record);
  if (done) done(std::move(outcome));
}

absl::Status RemoteMemory::Impl::check(const RemoteRegion& region, const RemoteOperation& operation) const {
  const uint64_t bytes = bytes_of(operation);
  if (is_atomic(operation.kind) && operation.offset % sizeof(uint64_t) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("atomics work on multiples of 8; the offset is ", operation.offset));
  }
  if (bytes > options_.operation_max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("an operation on ", bytes, " bytes; one carries at most ",
                                                   options_.operation_max_bytes, ": cut it into several"));
  }
  if (!is_within(region, operation)) {
    return absl::OutOfRangeError(absl::StrCat(bytes, " bytes at offset ", operation.offset,
                                              " are not within the region of ", region.bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status RemoteMemory::Impl::start(const RemoteRegion& region, const RemoteOperation& operation, Done done) {
  if (absl::Status status = check(region, operation); !status.ok()) return status;
  if (in_flight_ >= options_.operations_max) {
    return absl::ResourceExhaustedError(absl::StrCat("operations in flight reached operations_max (",
                                                     options_.operations_max, "): wait for completions"));
  }
  const Grant* grant = find(region);
  if (grant != nullptr && grant->region.expires_ns <= endpoint_.now_ns()) {
    return absl::NotFoundError("the region's lease has ended: allocate again, and renew in time");
  }
  Record& record = take_record();
  record.request = request_of(region, operation);
  record.to = operation.to;
  record.from = operation.from;
  record.session = region.session;
  const bool directly = grant != nullptr && may_go_directly(*grant, operation);
  absl::Status status = directly ? start_directly(record, *grant) : start_call(record);
  if (status.ok()) {
    record.done = std::move(done);
  } else {
    finish(record);
  }
  return status;
}

// --- Operations by the transport -------------------------------------------------------------------------------------

/// What is not granted goes to the owner, who says no in words: an adapter would break the connection.
bool RemoteMemory::Impl::may_go_directly(const Grant& grant, const RemoteOperation& operation) {
  if (!grant.name.has_value() || grant.life != access_.life_of(grant.region.session)) return false;
  if (operation.kind == Wish::kWriteWithNotice || bytes_of(operation) == 0) return false;
  if ((grant.region.rights & right_for(operation.kind)) == 0 || !is_within(grant.region, operation)) return false;
  // The region's atomics have this one way; others need not wait for a connection.
  return is_atomic(operation.kind) || access_.ready(grant.region.session);
}

absl::Status RemoteMemory::Impl::start_directly(Record& record, const Grant& grant) {
  if (absl::Status status = choose_local(record); !status.ok()) {
    return record.is_atomic() ? status : start_call(record);
  }
  using What = OneSidedOperation::Kind;
  switch (record.request.kind) {
    case Kind::kRead: record.what.kind = What::kRead; break;
    case Kind::kFetchAdd: record.what.kind = What::kFetchAdd; break;
    case Kind::kCompareSwap: record.what.kind = What::kCompareSwap; break;
    default: record.what.kind = What::kWrite; break;
  }
  record.what.address = grant.name->address + record.request.offset;
  record.what.key = grant.name->key;
  record.what.operand = record.request.operand;
  record.what.expected = record.request.expected;
  record.life = grant.life;
  record.patient = record.is_atomic();  // others have calls
  // Not later than the lease: then the key may be another region's.
  record.deadline_ns = std::min(endpoint_.now_ns() + options_.timeout_ns, grant.region.expires_ns);
  record.complete = &Impl::on_direct;
  ++counters_.direct;
  access_.start(record);
  return absl::OkStatus();
}

/// The application's memory if the adapter knows it, else some that it knows.
absl::Status RemoteMemory::Impl::choose_local(Record& record) {
  const bool reads = record.request.kind == Kind::kRead;
  const ByteSpan own = reads ? ByteSpan(record.to) : record.from;
  if (!record.is_atomic() && access_.usable(own)) {
    record.what.local = {const_cast<std::byte*>(own.data()), own.size()};
    return absl::OkStatus();
  }
  const size_t bytes = record.is_atomic() ? sizeof(uint64_t) : own.size();
  absl::StatusOr<Buffer> bounce = access_.allocate(bytes);
  if (!bounce.ok()) return bounce.status();
  record.bounce = *std::move(bounce);
  record.what.local = {record.bounce.data(), bytes};
  if (!reads && !record.is_atomic()) copy_bytes(record.bounce.data(), own);
  return absl::OkStatus();
}

void RemoteMemory::Impl::on_direct(MemoryAccess::Operation& operation, MemoryAccess::Result result) {
  auto& record = static_cast<Record&>(operation);
  Impl& self = *record.owner;
  if (result == MemoryAccess::Result::kDone) {
    self.take_result(record);
    return self.finish(record);
  }
  if (result == MemoryAccess::Result::kFailed) {
    ++self.counters_.direct_failed;
    if (record.request.kind != Kind::kRead) return self.ask_what_happened(record);
  }
  const bool alive = self.access_.life_of(record.session) == record.life;
  if (record.is_atomic() && alive && self.endpoint_.now_ns() >= record.deadline_ns) {
    record.outcome.status = absl::DeadlineExceededError("no connection for operations on the peer's memory came about");
    return self.finish(record);
  }
  self.call_instead(record);
}

void RemoteMemory::Impl::take_result(Record& record) {
  if (record.is_atomic()) {
    // As the adapter has it: a number of this machine.
    std::memcpy(&record.outcome.previous, record.bounce.data(), sizeof record.outcome.previous);
  } else if (record.request.kind == Kind::kRead && record.bounce) {
    copy_bytes(record.to.data(), ByteSpan(record.bounce.data(), record.to.size()));
  }
}

/// A write or an atomic failed, having run or not. It is not done again: the owner says why it may have failed.
void RemoteMemory::Impl::ask_what_happened(Record& record) {
  RemoteMemoryRequest question;
  question.kind = Kind::kCheck;
  question.key = record.request.key;
  question.offset = record.request.offset;
  question.bytes = record.is_atomic() ? sizeof(uint64_t) : record.request.bytes;
  question.rights = record.is_atomic() ? remote_rights::kAtomic : remote_rights::kWrite;
  MessagePtr message = endpoint_.make_message();
  message->set_head_size(question.encode(message->head_room()));
  const auto end = [this, &record](absl::Status status) {
    if (status.ok()) {
      status = absl::UnavailableError(
          "the connection to the peer's memory broke under the operation, which may have run: read what is there");
    }
    record.outcome.status = std::move(status);
    record.outcome.may_have_executed = true;
    finish(record);
  };
  const absl::StatusOr<CallId> call =
      endpoint_.call(record.session, kRemoteMemoryMethod, std::move(message), {.timeout_ns = options_.timeout_ns},
                     [end](CallResult&& result) { end(std::move(result.status)); });
  if (!call.ok()) end(call.status());
}

// --- Operations by calls ---------------------------------------------------------------------------------------------

absl::Status RemoteMemory::Impl::start_call(Record& record) {
  record.waits_for = 1;  // the call
  MessagePtr message = endpoint_.make_message();
  message->set_head_size(record.request.encode(message->head_room()));
  if (!record.from.empty() && !message->append_head(record.from)) {
    ++record.waits_for;
    static_cast<void>(message->add_body(record.from, &Impl::on_released, &record));
  }
  ++record.waits_for;  // this function: a call that is refused lets go of the bytes at once
  const absl::StatusOr<CallId> call =
      endpoint_.call(record.session, kRemoteMemoryMethod, std::move(message), {.timeout_ns = options_.timeout_ns},
                     [&record](CallResult&& result) {
                       on_result(record, std::move(result));
                       let_go(record);
                     });
  --record.waits_for;
  if (call.ok()) ++counters_.by_call;
  return call.status();
}

/// After the transport's operation did not come about: what is refused here has nobody to be told by a return value.
void RemoteMemory::Impl::call_instead(Record& record) {
  record.bounce.reset();
  if (absl::Status status = start_call(record); !status.ok()) {
    record.outcome.status = std::move(status);
    finish(record);
  }
}

void RemoteMemory::Impl::let_go(Record& record) {
  if (--record.waits_for == 0) record.owner->finish(record);
}

void RemoteMemory::Impl::on_released(void* context) {
  let_go(*static_cast<Record*>(context));
}

void RemoteMemory::Impl::on_result(Record& record, CallResult&& result) {
  RemoteOutcome& outcome = record.outcome;
  outcome.status = std::move(result.status);
  outcome.may_have_executed = !outcome.status.ok() && result.may_have_executed;
  const ByteSpan answer = result.response.bytes();
  const bool is_read = record.request.kind == Kind::kRead;
  const size_t expected = is_read ? record.to.size() : record.is_atomic() ? sizeof(uint64_t) : 0;
  if (outcome.status.ok() && answer.size() != expected) {
    outcome.status =
        absl::InternalError(absl::StrCat("the peer answered ", answer.size(), " bytes where ", expected, " were due"));
    outcome.may_have_executed = true;
  } else if (outcome.status.ok() && is_read) {
    copy_bytes(record.to.data(), answer);
  } else if (outcome.status.ok() && record.is_atomic()) {
    outcome.previous = load_le<uint64_t>(answer.data());
  }
}

// --- Asking for regions ----------------------------------------------------------------------------------------------

/// A region is used by the transport if a connection stands when it is granted. The first one is worth waiting for.
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
  // Whether a connection stands already makes no difference: until it does, all but atomics go by calls.
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
    // The session is gone or full. The first says so for all; later ones as outcomes of theirs.
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
