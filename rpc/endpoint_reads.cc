// Large messages that their receiver reads. This connects sessions, ReadPulls, Loans and the transport's one-sided
// operations.
#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/endpoint_impl.h"
#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {

Announcement EndpointImpl::announce(const MessageOwner& owner, const MessagePtr& message) {
  const Session& session = *context_.sessions[owner.session_index].session;
  if (context_.one_sided == nullptr || session.route() == kNoPeer) return {};
  // The announcement has to fit one packet, and the head of a message.
  const size_t bytes_max = std::min<size_t>(Message::kHeadMax, session.terms().payload_bytes);
  return loans_.announce(session.route(), owner, message, make_message(), bytes_max);
}

EndpointImpl::Fetch EndpointImpl::fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) {
  const PeerId peer = context_.sessions[owner.session_index].peer;
  if (context_.one_sided == nullptr) return Fetch::kImpossible;
  const uint64_t connection = context_.one_sided->connection(peer);
  // If the connection of the announcement has ended, the announced memory may hold something else by now.
  if (connection == 0 || (connection != list.connection && !mutant(Mutant::kAnyConnection))) return Fetch::kImpossible;
  std::optional<Assembly> assembly = assemble(*context_.sessions[owner.session_index].session, message_bytes);
  if (!assembly.has_value()) return Fetch::kNoMemory;
  copy_bytes(assembly->data, list.head);
  context_.counters.rx_copied_bytes += list.head.size();
  read_pulls_.start(peer, owner, list, assembly->data, std::move(assembly->lease));
  return Fetch::kStarted;
}

void EndpointImpl::sever(const Session& session) {
  if (context_.one_sided == nullptr || session.route() == kNoPeer || mutant(Mutant::kNoSever)) return;
  context_.one_sided->sever(session.route());
}

/// Takes the completions of one-sided operations, and posts more READs.
size_t EndpointImpl::run_reads() {
  if (read_pulls_.size() == 0 && access_in_flight_ == 0 && access_waiting_.empty() && loans_.awaited() == 0 &&
      notices_reserved_ == 0) {
    return 0;
  }
  size_t work = 0;
  std::array<OneSidedCompletion, kBurstMax> completions;
  while (const size_t count = context_.one_sided->reap(completions)) {
    work += count;
    for (size_t i = 0; i < count; ++i) on_one_sided(completions[i]);
  }
  if (!access_waiting_.empty()) work += run_waiting_access();
  ReadPulls::Read read;
  while (read_pulls_.next(read)) {
    OneSidedOperation operation;
    operation.kind = OneSidedOperation::Kind::kRead;
    operation.peer = read.peer;
    operation.connection = mutant(Mutant::kAnyConnection) ? 0 : read.connection;
    operation.local = {read.to, read.from.bytes};
    operation.address = read.from.address;
    operation.key = read.from.key;
    operation.cookie = read.cookie;
    if (context_.one_sided->post(std::span(&operation, 1)) == 0) {
      read_pulls_.take_back(read);
      break;
    }
    ++work;
  }
  return work;
}

void EndpointImpl::on_one_sided(const OneSidedCompletion& completion) {
  if (completion.kind == OneSidedCompletion::Kind::kNotice) {
    if (notice_observer_) notice_observer_(completion.peer, static_cast<uint32_t>(completion.cookie));
    return;
  }
  if (completion.kind != OneSidedCompletion::Kind::kOperation) {
    const std::optional<MessageOwner> owner = loans_.on_completion(completion);
    if (!owner.has_value()) return;
    const SessionEntry& entry = context_.sessions[owner->session_index];
    if (entry.state == SessionEntry::State::kOpen && entry.session != nullptr)
      entry.session->on_lent(*owner, context_.now_ns);
    return;
  }
  if (on_access_completion(completion)) return;
  std::optional<ReadPulls::Finished> finished = read_pulls_.on_completion(completion.cookie, completion.ok);
  if (finished.has_value()) on_fetched(*std::move(finished));
}

void EndpointImpl::on_fetched(ReadPulls::Finished&& finished) {
  if (finished.ok) {
    context_.counters.rx_read_bytes += finished.message.size();
  } else {
    ++context_.counters.reads_failed;
  }
  const SessionEntry& entry = context_.sessions[finished.owner.session_index];
  if (entry.state != SessionEntry::State::kOpen || entry.session == nullptr) return;
  entry.session->on_fetched(finished.owner, finished.ok, std::move(finished.message), context_.now_ns);
}

/// At the endpoint's end: ends all READs, so that no device reads or writes its memory afterwards.
void EndpointImpl::end_reads() {
  if (context_.one_sided == nullptr) return;
  context_.sessions.for_each([this](const SessionEntry& entry) {
    if (entry.peer != kUnbound) context_.one_sided->sever(entry.peer);
  });
  read_pulls_.for_each_peer([this](PeerId peer) { context_.one_sided->sever(peer); });
  loans_.for_each_peer([this](PeerId peer) { context_.one_sided->sever(peer); });
  std::array<OneSidedCompletion, kBurstMax> completions;
  while (read_pulls_.reads_in_flight() + access_in_flight_ > 0) {
    const size_t count = context_.one_sided->reap(completions);
    SKUA_CHECK(count > 0, "the transport keeps memory that it was told to let go");
    for (size_t i = 0; i < count; ++i) {
      if (completions[i].kind != OneSidedCompletion::Kind::kOperation) continue;
      if (on_access_completion(completions[i])) continue;
      static_cast<void>(read_pulls_.on_completion(completions[i].cookie, false));
    }
  }
  loans_.abandon();
  while (Operation* operation = access_waiting_.pop_front()) operation->complete(*operation, Result::kNotRun);
}

}  // namespace skua::rpc
