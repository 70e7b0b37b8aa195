// The using side of remote memory.
#include "rpc/remote_memory.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/wire/remote_memory_wire.h"

namespace skua::rpc {
namespace {

using Kind = RemoteMemoryRequest::Kind;
using Wish = RemoteOperation::Kind;

uint32_t lease_ms(DurationNs lease_ns) {
  return static_cast<uint32_t>(std::clamp<DurationNs>(lease_ns / kMillisecond, 0, UINT32_MAX));
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
  Impl(Endpoint& endpoint, const Options& options) : endpoint_(endpoint), options_(options) {}
  ~Impl() { SKUA_CHECK(in_flight_ == 0, "remote memory was destroyed with operations in flight"); }

  absl::Status start(const RemoteRegion& region, const RemoteOperation& operation, Done done);
  [[nodiscard]] absl::Status check(const RemoteRegion& region, const RemoteOperation& operation) const;
  absl::Status ask(const RemoteRegion& region, const RemoteMemoryRequest& request, Granted granted);
  absl::Status free(const RemoteRegion& region, Done done);

  Endpoint& endpoint_;
  const Options options_;
  size_t in_flight_ = 0;

 private:
  /// An operation in flight: over when its call is, and no transport reads its bytes.
  struct Operation {
    Impl* owner = nullptr;
    uint32_t waits_for = 0;
    RemoteOperation::Kind kind = RemoteOperation::Kind::kRead;
    MutableByteSpan to{};
    Done done;
    RemoteOutcome outcome;
  };

  Operation& take_record();
  void let_go(Operation& operation);
  static void on_released(void* operation);
  static void on_result(Operation& operation, CallResult&& result);

  std::vector<std::unique_ptr<Operation>> records_;
  std::vector<Operation*> free_;
};

RemoteMemory::Impl::Operation& RemoteMemory::Impl::take_record() {
  if (free_.empty()) {
    records_.push_back(std::make_unique<Operation>());
    records_.back()->owner = this;
    free_.push_back(records_.back().get());
  }
  Operation& record = *free_.back();
  free_.pop_back();
  ++in_flight_;
  return record;
}

void RemoteMemory::Impl::let_go(Operation& operation) {
  if (--operation.waits_for > 0) return;
  Done done = std::move(operation.done);
  RemoteOutcome outcome = std::move(operation.outcome);
  operation.done = nullptr;
  operation.outcome = {};
  --in_flight_;
  free_.push_back(&operation);
  if (done) done(std::move(outcome));
}

void RemoteMemory::Impl::on_released(void* context) {
  auto* operation = static_cast<Operation*>(context);
  operation->owner->let_go(*operation);
}

void RemoteMemory::Impl::on_result(Operation& operation, CallResult&& result) {
  RemoteOutcome& outcome = operation.outcome;
  outcome.status = std::move(result.status);
  outcome.may_have_executed = !outcome.status.ok() && result.may_have_executed;
  const ByteSpan answer = result.response.bytes();
  const bool is_read = operation.kind == Wish::kRead;
  const bool is_atomic = operation.kind == Wish::kFetchAdd || operation.kind == Wish::kCompareSwap;
  const size_t expected = is_read ? operation.to.size() : is_atomic ? sizeof(uint64_t) : 0;
  if (outcome.status.ok() && answer.size() != expected) {
    outcome.status =
        absl::InternalError(absl::StrCat("the peer answered ", answer.size(), " bytes where ", expected, " were due"));
    outcome.may_have_executed = true;
  } else if (outcome.status.ok() && is_read) {
    copy_bytes(operation.to.data(), answer);
  } else if (outcome.status.ok() && is_atomic) {
    outcome.previous = load_le<uint64_t>(answer.data());
  }
}

absl::Status RemoteMemory::Impl::check(const RemoteRegion& region, const RemoteOperation& operation) const {
  const bool atomic = operation.kind == Wish::kFetchAdd || operation.kind == Wish::kCompareSwap;
  const uint64_t bytes = atomic                          ? sizeof(uint64_t)
                         : operation.kind == Wish::kRead ? operation.to.size()
                                                         : operation.from.size();
  if (atomic && operation.offset % sizeof(uint64_t) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("atomics work on multiples of 8; the offset is ", operation.offset));
  }
  if (bytes > options_.operation_max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("an operation on ", bytes, " bytes; one carries at most ",
                                                   options_.operation_max_bytes, ": cut it into several"));
  }
  if (operation.offset > region.bytes || bytes > region.bytes - operation.offset) {
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
  Operation& record = take_record();
  record.waits_for = 2;  // the call, and this function
  record.kind = operation.kind;
  record.to = operation.to;
  MessagePtr message = endpoint_.make_message();
  message->set_head_size(request_of(region, operation).encode(message->head_room()));
  if (!operation.from.empty() && !message->append_head(operation.from)) {
    ++record.waits_for;
    static_cast<void>(message->add_body(operation.from, &Impl::on_released, &record));
  }
  const absl::StatusOr<CallId> call =
      endpoint_.call(region.session, kRemoteMemoryMethod, std::move(message), {.timeout_ns = options_.timeout_ns},
                     [&record](CallResult&& result) {
                       on_result(record, std::move(result));
                       record.owner->let_go(record);
                     });
  // A call that was refused has let go of the bytes already, and nobody is told but by the return value.
  if (call.ok()) record.done = std::move(done);
  if (!call.ok()) let_go(record);
  let_go(record);
  return call.status();
}

absl::Status RemoteMemory::Impl::ask(const RemoteRegion& region, const RemoteMemoryRequest& request, Granted granted) {
  MessagePtr message = endpoint_.make_message();
  message->set_head_size(request.encode(message->head_room()));
  const TimeNs asked_ns = endpoint_.now_ns();
  const bool fresh = request.kind == Kind::kAllocate;
  auto on_answer = [this, answered = RemoteRegion(region), asked_ns, fresh,
                    granted = std::move(granted)](CallResult&& result) mutable {
    --in_flight_;
    if (!result.status.ok()) return granted(std::move(result.status));
    ByteReader reader(result.response.bytes());
    if (fresh) answered.key = reader.read<uint64_t>();
    answered.expires_ns = asked_ns + reader.read<uint32_t>() * kMillisecond;
    if (!reader.complete()) return granted(absl::InternalError("the peer's answer about a region is malformed"));
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
  if (call.ok()) ++in_flight_;
  return call.status();
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
size_t RemoteMemory::operations_in_flight() const {
  return impl_->in_flight_;
}

}  // namespace skua::rpc
