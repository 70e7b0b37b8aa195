#include "rpc/loans.h"

#include <utility>

#include "rpc/base/check.h"
#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {

Announcement Loans::announce(PeerId peer, const MessageOwner& owner, const MessagePtr& message, MessagePtr&& list,
                             size_t list_bytes_max) {
  if (wire_ == nullptr || message->body_count() == 0) return {};
  const uint64_t connection = wire_->connection(peer);
  if (connection == 0) return {};
  const uint32_t number = take_entry();
  entries_[number].peer = peer;
  entries_[number].owner = owner;
  entries_[number].message = message;
  std::optional<ReadList> spans = lend_all(number, peer, *message);
  if (spans.has_value()) {
    spans->connection = connection;
    spans->head = message->head();
  }
  const bool fits = spans.has_value() && spans->span_count > 0 && spans->encoded_bytes() <= list_bytes_max;
  if (!fits) {
    end(number);
    return {};
  }
  list->set_head_size(spans->encode(list->head_room()));
  return Announcement(std::move(list), this, number);
}

std::optional<ReadList> Loans::lend_all(uint32_t number, PeerId peer, const Message& message) {
  ReadList list;
  Entry& entry = entries_[number];
  for (size_t i = 0; i < message.body_count(); ++i) {
    const ByteSpan body = message.body(i);
    if (body.empty()) continue;
    if (body.size() > UINT32_MAX || list.span_count == ReadList::kSpansMax) return std::nullopt;
    const std::optional<Loan> loan = wire_->lend(peer, body, number);
    if (!loan.has_value()) return std::nullopt;
    entry.loans[entry.count++] = loan->number;
    ++entry.pending;
    ++awaited_;
    list.spans[list.span_count++] = {loan->name.address, loan->name.key, static_cast<uint32_t>(body.size())};
  }
  return list;
}

uint32_t Loans::take_entry() {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  ++size_;
  return number;
}

void Loans::free_entry(uint32_t number) {
  entries_[number] = Entry();
  free_.push_back(number);
  --size_;
}

Lender::State Loans::state_of(uint32_t announcement) const {
  if (wire_ == nullptr) return State::kFailed;
  const Entry& entry = entries_[announcement];
  if (entry.pending > 0) return State::kPending;
  return entry.failed ? State::kFailed : State::kReadable;
}

void Loans::end(uint32_t announcement) {
  if (wire_ == nullptr) return;
  Entry& entry = entries_[announcement];
  SKUA_CHECK(!entry.ended, "an announcement ends once");
  entry.ended = true;
  if (entry.count == 0) return free_entry(announcement);
  entry.ending = entry.count;
  awaited_ += entry.count;
  if (mutant(Mutant::kDropLent)) entry.message.reset();
  for (uint32_t i = 0; i < entry.count; ++i) wire_->take_back(entry.loans[i]);
}

std::optional<MessageOwner> Loans::on_completion(const OneSidedCompletion& completion) {
  const auto number = static_cast<uint32_t>(completion.cookie);
  Entry& entry = entries_[number];
  --awaited_;
  if (completion.kind == OneSidedCompletion::Kind::kTakenBack) {
    if (--entry.ending == 0) free_entry(number);
    return std::nullopt;
  }
  entry.failed |= !completion.ok;
  if (--entry.pending > 0 || entry.ended) return std::nullopt;
  return entry.owner;
}

void Loans::abandon() {
  wire_ = nullptr;
  entries_.clear();
  free_.clear();
  awaited_ = 0;
  size_ = 0;
}

}  // namespace skua::rpc
