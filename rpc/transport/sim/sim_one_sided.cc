// Operations on the memory of simulated peers.
#include <algorithm>
#include <cstring>
#include <utility>

#include "rpc/transport/sim/sim_network.h"

namespace skua::rpc {
namespace {

/// Keys of opened regions are above kSimKey; keys of loans are below kLoanKeys.
constexpr uint32_t kSimKey = 0x51a;
constexpr uint32_t kLoanKeys = 2;
/// A MemoryName's address consists of the index of the region or loan, and the offset into its bytes.
constexpr unsigned kOffsetBits = 32;
constexpr uint64_t kLoanBit = uint64_t{1} << 63;
constexpr uint64_t kOffsetMask = (uint64_t{1} << kOffsetBits) - 1;

uint8_t right_for(OneSidedOperation::Kind kind) {
  switch (kind) {
    case OneSidedOperation::Kind::kRead: return memory_rights::kRead;
    case OneSidedOperation::Kind::kWrite:
    case OneSidedOperation::Kind::kWriteWithNotice: return memory_rights::kWrite;
    default: return memory_rights::kAtomic;
  }
}

}  // namespace

// --- SimNetwork ------------------------------------------------------------------------------------------------------

SimNetwork::Link& SimNetwork::link_of(uint32_t serial, uint32_t other) {
  return links_[{std::min(serial, other), std::max(serial, other)}];
}

/// The transport that has the peer's address now; null: there is none, or its memory cannot be reached.
SimTransport* SimNetwork::reachable(const SimTransport& from, PeerId peer) {
  const auto found = by_address_.find(from.peers_[peer].address);
  return found == by_address_.end() || !found->second->options_.one_sided ? nullptr : found->second;
}

void SimNetwork::connect(Event& event) {
  Link& link = link_of(event.sender, event.target);
  link.asked_for = false;
  const auto from = by_serial_.find(event.sender);
  const auto to = by_serial_.find(event.target);
  if (from == by_serial_.end() || to == by_serial_.end()) return;
  const bool blocked = is_blocked(from->second->address_, to->second->address_) ||
                       is_blocked(to->second->address_, from->second->address_);
  link.up = !blocked;
  link.number = next_link_number_++;
}

void SimNetwork::post(SimTransport& sender, const OneSidedOperation& operation) {
  SimTransport* target = reachable(sender, operation.peer);
  Link* link = target == nullptr ? nullptr : &link_of(sender.serial_, target->serial_);
  const bool other = link != nullptr && operation.connection != 0 && operation.connection != link->number;
  if (link == nullptr || !link->up || other) {
    sender.done_.push_back({operation.cookie, false});
    return;
  }
  Event event;
  event.place = Event::Place::kMemory;
  event.sender = sender.serial_;
  event.target = target->serial_;
  event.operation = operation;
  event.link_number = link->number;
  schedule(std::move(event), 2 * sender.options_.latency_ns +
                                 static_cast<DurationNs>(rng_.below(static_cast<uint64_t>(faults_.one_sided_max_ns))));
}

void SimNetwork::perform(Event& event) {
  const auto sender = by_serial_.find(event.sender);
  if (sender == by_serial_.end()) return;  // the sender crashed, and its memory is gone
  ++fates_.one_sided;
  const auto target = by_serial_.find(event.target);
  Link& link = link_of(event.sender, event.target);
  bool ok = link.up && link.number == event.link_number;
  if (ok) {
    const bool blocked = target == by_serial_.end() || is_blocked(sender->second->address_, target->second->address_) ||
                         is_blocked(target->second->address_, sender->second->address_);
    const bool fails = rng_.chance(faults_.one_sided_failure);
    // A failed operation may have run all the same, if only the answer was lost.
    const auto run = [&] { return perform_on(*target->second, event, sender->second->address_); };
    if (fails && !blocked && rng_.chance(0.5)) static_cast<void>(run());
    ok = !blocked && !fails && run();
    if (!ok) link.up = false;
  }
  if (ok) trace(4, event.operation.local);
  if (!ok) ++fates_.one_sided_failed;
  sender->second->done_.push_back({event.operation.cookie, ok});
}

/// The bytes of `target` that an operation addresses; empty: the operation has no right to them.
MutableByteSpan SimNetwork::reached(const SimTransport& target, const Event& event, const MemoryName& name,
                                    size_t size) {
  const OneSidedOperation& operation = event.operation;
  const bool lent = (name.address & kLoanBit) != 0;
  const uint64_t number = (name.address & ~kLoanBit) >> kOffsetBits;
  const uint64_t offset = name.address & kOffsetMask;
  const size_t count = lent ? target.lendings_.size() : target.named_.size();
  if (number >= count) return {};
  ByteSpan bytes;
  if (lent) {
    const SimTransport::Lending& lending = target.lendings_[number];
    using State = SimTransport::Lending::State;
    const bool open = lending.state == State::kLent || lending.state == State::kEnding;
    if (!open || name.key != lending.key) return {};
    if (lending.other != event.sender || lending.link_number != event.link_number) return {};
    if (operation.kind != OneSidedOperation::Kind::kRead) return {};
    bytes = lending.bytes;
  } else {
    const SimTransport::Named& named = target.named_[number];
    if (name.key != named.key || (named.rights & right_for(operation.kind)) == 0) return {};
    bytes = named.bytes;
  }
  if (offset > bytes.size() || size > bytes.size() - offset) return {};
  return {const_cast<std::byte*>(bytes.data()) + offset, size};
}

/// `from`: the sender's address.
bool SimNetwork::perform_on(SimTransport& target, const Event& event, uint32_t from) {
  const OneSidedOperation& operation = event.operation;
  const MutableByteSpan bytes = reached(target, event, {operation.address, operation.key}, operation.local.size());
  if (bytes.empty()) return false;
  std::byte* there = bytes.data();
  std::byte* here = operation.local.data();
  if (operation.kind == OneSidedOperation::Kind::kRead) {
    std::memcpy(here, there, operation.local.size());
  } else if (operation.kind == OneSidedOperation::Kind::kWrite) {
    std::memcpy(there, here, operation.local.size());
  } else if (operation.kind == OneSidedOperation::Kind::kWriteWithNotice) {
    std::memcpy(there, here, operation.local.size());
    const MutableByteSpan entry =
        reached(target, event, {operation.entry_address, operation.entry_key}, operation.entry.size());
    const auto peer = target.peer_by_address_.find(from);
    if (entry.empty() || peer == target.peer_by_address_.end()) return false;
    copy_bytes(entry.data(), operation.entry);
    target.done_.push_back({operation.number, true, OneSidedCompletion::Kind::kNotice, peer->second});
  } else {
    const auto previous = load_le<uint64_t>(there);
    const bool add = operation.kind == OneSidedOperation::Kind::kFetchAdd;
    if (add || previous == operation.expected) store_le(there, add ? previous + operation.operand : operation.operand);
    store_le(here, previous);
  }
  return true;
}

// --- SimTransport ----------------------------------------------------------------------------------------------------

uint64_t SimTransport::connection(PeerId peer) {
  SimTransport* other = network_.reachable(*this, peer);
  if (other == nullptr) return 0;
  SimNetwork::Link& link = network_.link_of(serial_, other->serial_);
  if (!link.up && !link.asked_for) {
    link.asked_for = true;
    SimNetwork::Event event;
    event.place = SimNetwork::Event::Place::kConnect;
    event.sender = serial_;
    event.target = other->serial_;
    network_.schedule(std::move(event), 4 * options_.latency_ns);
  }
  return link.up ? link.number : 0;
}

absl::StatusOr<MemoryName> SimTransport::open_region(MutableByteSpan region, uint8_t rights) {
  named_.push_back({region, kSimKey + ++next_key_, rights});
  return MemoryName{(named_.size() - 1) << kOffsetBits, named_.back().key};
}

void SimTransport::close_region(uint32_t key) {
  for (Named& named : named_) {
    if (named.key == key) named = {};
  }
}

std::optional<Loan> SimTransport::lend(PeerId peer, ByteSpan bytes, uint64_t cookie) {
  SimTransport* other = network_.reachable(*this, peer);
  const uint64_t link_number = connection(peer);
  if (link_number == 0) return std::nullopt;
  uint32_t number = 0;
  while (number < lendings_.size() && lendings_[number].state != Lending::State::kFree) ++number;
  if (number == lendings_.size()) lendings_.emplace_back();
  Lending& lending = lendings_[number];
  lending.state = Lending::State::kLending;
  lending.bytes = bytes;
  // Keys start over with each connection: a device may reuse the names that it gave for an earlier connection.
  lending.key = lending.link_number == link_number ? (lending.key + 1) % kLoanKeys : 0;
  lending.other = other->serial_;
  lending.link_number = link_number;
  lending.cookie = cookie;
  schedule_loan(number);
  return Loan{number, {kLoanBit | uint64_t{number} << kOffsetBits, lending.key}};
}

void SimTransport::take_back(uint64_t loan) {
  Lending& lending = lendings_[loan];
  if (lending.state == Lending::State::kLending) {
    lending.end_wanted = true;
    return;
  }
  lending.state = Lending::State::kEnding;
  schedule_loan(static_cast<uint32_t>(loan));
}

/// Ends the lending or the taking back after a while, as a device does.
void SimTransport::schedule_loan(uint32_t number) {
  SimNetwork::Event event;
  event.place = SimNetwork::Event::Place::kLoan;
  event.sender = serial_;
  event.loan = number;
  const DurationNs longest = options_.latency_ns + network_.faults_.one_sided_max_ns;
  network_.schedule(std::move(event), static_cast<DurationNs>(network_.rng_.below(static_cast<uint64_t>(longest))));
}

void SimNetwork::turn_loan(Event& event) {
  if (const auto sender = by_serial_.find(event.sender); sender != by_serial_.end()) {
    sender->second->turn_loan(event.loan);
  }
}

void SimTransport::turn_loan(uint32_t number) {
  Lending& lending = lendings_[number];
  using Kind = OneSidedCompletion::Kind;
  if (lending.state == Lending::State::kEnding) {
    lending.state = Lending::State::kFree;
    lending.bytes = {};
    done_.push_back({lending.cookie, true, Kind::kTakenBack});
    return;
  }
  const SimNetwork::Link& link = network_.link_of(serial_, lending.other);
  lending.state = Lending::State::kLent;
  done_.push_back({lending.cookie, link.up && link.number == lending.link_number, Kind::kLent});
  if (std::exchange(lending.end_wanted, false)) take_back(number);
}

size_t SimTransport::post(std::span<const OneSidedOperation> operations) {
  for (const OneSidedOperation& operation : operations) network_.post(*this, operation);
  return operations.size();
}

size_t SimTransport::reap(std::span<OneSidedCompletion> completions) {
  const size_t count = std::min(completions.size(), done_.size());
  std::copy_n(done_.begin(), count, completions.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void SimTransport::sever(PeerId peer) {
  const uint32_t address = peers_[peer].address;
  for (auto& [ends, link] : network_.links_) {
    if (ends.first != serial_ && ends.second != serial_) continue;
    const uint32_t other = ends.first == serial_ ? ends.second : ends.first;
    const auto found = network_.by_serial_.find(other);
    const bool meant = found == network_.by_serial_.end() || found->second->address_ == address;
    if (!meant) continue;
    link.up = false;
    for (SimNetwork::Event& event : network_.events_) {
      const bool ours =
          event.place == SimNetwork::Event::Place::kMemory && event.sender == serial_ && event.target == other;
      if (!ours) continue;
      event.sender = 0;
      done_.push_back({event.operation.cookie, false});
    }
  }
}

}  // namespace skua::rpc
