// The using side of remote memory: operations, by the transport and by calls.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/remote_memory_impl.h"

namespace skua::rpc {
namespace {

using Kind = RemoteMemoryRequest::Kind;
using Wish = RemoteOperation::Kind;

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
  Grant* grant = find(region);
  if (grant != nullptr && grant->region.expires_ns <= endpoint_.now_ns()) {
    return absl::NotFoundError("the region's lease has ended: allocate again, and renew in time");
  }
  Record& record = take_record();
  record.request = request_of(region, operation);
  record.to = operation.to;
  record.from = operation.from;
  record.session = region.session;
  record.region = region;
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

/// An operation without the right, or out of bounds, is made by a call: the owner then says what is wrong. Posted to
/// the adapter, it would break the connection.
bool RemoteMemory::Impl::may_go_directly(Grant& grant, const RemoteOperation& operation) {
  if (!grant.name.has_value() || grant.life != access_.life_of(grant.region.session)) return false;
  if (bytes_of(operation) == 0) return false;
  if ((grant.region.rights & right_for(operation.kind)) == 0 || !is_within(grant.region, operation)) return false;
  // All atomics of the region have to go this way. Other operations can be calls, so they do not wait for a connection.
  if (is_atomic(operation.kind)) return true;
  return access_.ready(grant.region.session) && (operation.kind != Wish::kWriteWithNotice || may_notify(grant));
}

absl::Status RemoteMemory::Impl::start_directly(Record& record, Grant& grant) {
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
  if (record.request.has_notice) add_entry(record, grant);
  record.what.address = grant.name->address + record.request.offset;
  record.what.key = grant.name->key;
  record.what.operand = record.request.operand;
  record.what.expected = record.request.expected;
  record.life = grant.life;
  record.patient = record.is_atomic();  // other operations can be made by calls
  // Not later than the lease: after it, the key may belong to another region.
  record.deadline_ns = std::min(endpoint_.now_ns() + options_.timeout_ns, grant.region.expires_ns);
  record.complete = &Impl::on_direct;
  ++counters_.direct;
  access_.start(record);
  return absl::OkStatus();
}

/// Uses the application's memory if the adapter can reach it, and otherwise a bounce buffer.
absl::Status RemoteMemory::Impl::choose_local(Record& record) {
  const bool reads = record.request.kind == Kind::kRead;
  const ByteSpan own = reads ? ByteSpan(record.to) : record.from;
  const bool in_place = !record.is_atomic() && access_.usable(own);
  const size_t bytes = record.is_atomic() ? sizeof(uint64_t) : own.size();
  // A notice's entry lies before the bytes.
  const size_t entry_bytes = record.request.has_notice ? NoticeRing::kEntryBytes : 0;
  if (!in_place || entry_bytes > 0) {
    absl::StatusOr<Buffer> bounce = access_.allocate(entry_bytes + (in_place ? 0 : bytes));
    if (!bounce.ok()) return bounce.status();
    record.bounce = *std::move(bounce);
  }
  if (in_place) {
    record.what.local = {const_cast<std::byte*>(own.data()), bytes};
    return absl::OkStatus();
  }
  record.what.local = {record.bounce.data() + entry_bytes, bytes};
  if (!reads && !record.is_atomic()) copy_bytes(record.what.local.data(), own);
  return absl::OkStatus();
}

void RemoteMemory::Impl::on_direct(MemoryAccess::Operation& operation, MemoryAccess::Result result) {
  auto& record = static_cast<Record&>(operation);
  Impl& self = *record.owner;
  if (record.entry.has_value()) self.settle_entry(record, result);
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
    // The adapter writes the value in this machine's byte order.
    std::memcpy(&record.outcome.previous, record.bounce.data(), sizeof record.outcome.previous);
  } else if (record.request.kind == Kind::kRead && record.bounce) {
    copy_bytes(record.to.data(), ByteSpan(record.bounce.data(), record.to.size()));
  }
}

/// A write or an atomic has failed. It may have run, so it is not repeated. This asks the owner why it may have failed.
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

// --- Notices by the transport ----------------------------------------------------------------------------------------

/// Whether a notice can go by the transport. Until the ring is granted, and while it is full, notices are calls.
bool RemoteMemory::Impl::may_notify(Grant& grant) {
  if (grant.ring == Grant::Ring::kNone) ask_for_ring(grant);
  if (grant.ring != Grant::Ring::kReady) return false;
  if (grant.entries.free_count() > 0) return true;
  look_at_taken(grant);
  return false;
}

void RemoteMemory::Impl::ask_for_ring(Grant& grant) {
  RemoteMemoryRequest request;
  request.kind = Kind::kRing;
  request.key = grant.region.key;
  MessagePtr message = endpoint_.make_message();
  message->set_head_size(request.encode(message->head_room()));
  const auto on_answer = [this, region = grant.region](CallResult&& result) {
    --in_flight_;
    Grant* asker = find(region);
    if (asker == nullptr) return;
    ByteReader reader(result.response.bytes());
    asker->ring_name.address = reader.read<uint64_t>();
    asker->ring_name.key = reader.read<uint32_t>();
    asker->slot = reader.read<uint32_t>();
    const bool granted = result.status.ok() && reader.complete() && asker->slot < NoticeRing::kSlotsMax;
    asker->ring = granted ? Grant::Ring::kReady : Grant::Ring::kRefused;
  };
  const absl::StatusOr<CallId> call = endpoint_.call(grant.region.session, kRemoteMemoryMethod, std::move(message),
                                                     {.timeout_ns = options_.timeout_ns}, on_answer);
  if (!call.ok()) return;
  ++in_flight_;
  grant.ring = Grant::Ring::kAsked;
}

void RemoteMemory::Impl::add_entry(Record& record, Grant& grant) {
  record.entry = grant.entries.take();
  SKUA_CHECK(record.entry.has_value(), "a notice has no entry");
  NoticeRing::Entry{record.request.offset, static_cast<uint32_t>(record.request.bytes), record.request.notice}.write(
      record.bounce.data());
  record.what.kind = OneSidedOperation::Kind::kWriteWithNotice;
  record.what.entry = ByteSpan(record.bounce.data(), NoticeRing::kEntryBytes);
  record.what.entry_address = grant.ring_name.address + NoticeRing::offset_of(*record.entry);
  record.what.entry_key = grant.ring_name.key;
  record.what.number = NoticeRing::number_of(grant.slot, *record.entry);
}

void RemoteMemory::Impl::settle_entry(Record& record, MemoryAccess::Result result) {
  const uint32_t entry = *record.entry;
  record.entry.reset();
  Grant* grant = find(record.region);
  if (grant == nullptr) return;
  switch (result) {
    case MemoryAccess::Result::kDone:
      if (grant->entries.is_short()) look_at_taken(*grant);
      break;
    case MemoryAccess::Result::kNotRun: grant->entries.give_back(entry); break;
    // Nobody on this side knows which notices the owner received.
    case MemoryAccess::Result::kFailed: grant->ring = Grant::Ring::kRefused; break;
  }
}

void RemoteMemory::Impl::look_at_taken(Grant& grant) {
  if (grant.looking || grant.ring != Grant::Ring::kReady) return;
  absl::StatusOr<Buffer> taken = access_.allocate(NoticeRing::kTakenBytes);
  if (!taken.ok()) return;
  auto look = std::make_unique<Look>();
  look->owner = this;
  look->region = grant.region;
  look->taken = *std::move(taken);
  look->session = grant.region.session;
  look->life = grant.life;
  look->deadline_ns = std::min(endpoint_.now_ns() + options_.timeout_ns, grant.region.expires_ns);
  look->what.kind = OneSidedOperation::Kind::kRead;
  look->what.local = {look->taken.data(), NoticeRing::kTakenBytes};
  look->what.address = grant.ring_name.address;
  look->what.key = grant.ring_name.key;
  look->complete = &Impl::on_looked;
  grant.looking = true;
  ++in_flight_;
  access_.start(*look.release());
}

void RemoteMemory::Impl::on_looked(MemoryAccess::Operation& operation, MemoryAccess::Result result) {
  const std::unique_ptr<Look> look(static_cast<Look*>(&operation));
  Impl& self = *look->owner;
  --self.in_flight_;
  Grant* grant = self.find(look->region);
  if (grant == nullptr) return;
  grant->looking = false;
  if (result == MemoryAccess::Result::kDone) {
    grant->entries.on_taken(ByteSpan(look->taken.data(), NoticeRing::kTakenBytes));
  }
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
  ++record.waits_for;  // this function: endpoint_.call() may release the bytes at once if it refuses the call
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

/// The transport did not run the operation, so it is made by a call. submit() has returned, so an error goes to the
/// completion.
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

}  // namespace skua::rpc
