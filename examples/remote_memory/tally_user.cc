#include "examples/remote_memory/tally_user.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::examples {

using rpc::RemoteOutcome;
using rpc::RemoteRegion;

TallyUser::TallyUser(rpc::Transport& transport, const Clock& clock, std::function<void(rpc::Endpoint&)> wait)
    : wait_(std::move(wait)),
      endpoint_(std::make_unique<rpc::Endpoint>(transport, clock, rpc::EndpointOptions())),
      memory_(*endpoint_, {}) {}

// The endpoint first: it ends what is in flight.
TallyUser::~TallyUser() {
  endpoint_.reset();
}

void TallyUser::until(const std::function<bool()>& done) {
  while (!done()) wait_(*endpoint_);
}

absl::Status TallyUser::open(const rpc::Descriptor& keeper) {
  absl::StatusOr<rpc::SessionId> session = endpoint_->connect(keeper);
  if (!session.ok()) return session.status();
  session_ = *session;
  std::optional<absl::StatusOr<RemoteRegion>> opened;
  const uint8_t rights = rpc::remote_rights::kRead | rpc::remote_rights::kAtomic;
  absl::Status status = memory_.open(session_, kTableName, rights, kLease,
                                     [&](absl::StatusOr<RemoteRegion> region) { opened = std::move(region); });
  if (!status.ok()) return status;
  until([&] { return opened.has_value(); });
  if (opened->ok()) table_ = **opened;
  return opened->status();
}

absl::Status TallyUser::renew_in_time() {
  if (endpoint_->now_ns() < table_.expires_ns - kLease / 2) return absl::OkStatus();
  std::optional<absl::StatusOr<RemoteRegion>> renewed;
  absl::Status status =
      memory_.renew(table_, kLease, [&](absl::StatusOr<RemoteRegion> region) { renewed = std::move(region); });
  if (!status.ok()) return status;
  until([&] { return renewed.has_value(); });
  if (renewed->ok()) table_ = **renewed;
  return renewed->status();
}

absl::StatusOr<std::vector<TallyRow>> TallyUser::read() {
  if (absl::Status status = renew_in_time(); !status.ok()) return status;
  std::vector<std::byte> bytes(table_.bytes);
  std::optional<RemoteOutcome> outcome;
  absl::Status status = memory_.read(table_, 0, bytes, [&](RemoteOutcome&& result) { outcome = std::move(result); });
  if (!status.ok()) return status;
  until([&] { return outcome.has_value(); });
  if (!outcome->status.ok()) return outcome->status;
  return read_table(bytes);
}

absl::StatusOr<TallyUser::Added> TallyUser::add(const std::string& name, uint64_t times) {
  absl::StatusOr<std::vector<TallyRow>> rows = read();
  if (!rows.ok()) return rows.status();
  const auto row = std::ranges::find(*rows, name, &TallyRow::name);
  if (row == rows->end()) return absl::NotFoundError(absl::StrCat("nothing is counted under \"", name, "\""));
  const auto offset = static_cast<uint64_t>(row - rows->begin()) * kRowBytes;

  Added added;
  uint64_t started = 0;
  uint64_t ended = 0;
  const auto on_done = [&](RemoteOutcome&& outcome) {
    ++ended;
    if (outcome.status.ok()) {
      ++added.done;
      added.previous = std::max(added.previous, outcome.previous);
      return;
    }
    if (outcome.may_have_executed) ++added.unknown;
    if (added.failure.ok()) added.failure = std::move(outcome.status);
  };
  while (started < times && added.failure.ok()) {
    if (absl::Status status = renew_in_time(); !status.ok()) {
      added.failure = std::move(status);
      break;
    }
    if (absl::Status status = memory_.fetch_add(table_, offset, 1, on_done); !status.ok()) {
      added.failure = std::move(status);
      break;
    }
    ++started;
    until([&] { return started - ended < kInFlightMax; });
  }
  until([&] { return started == ended; });
  return added;
}

}  // namespace skua::examples
