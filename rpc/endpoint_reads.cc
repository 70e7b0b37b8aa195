// Large messages that the endpoint reads from its peers' memory: between sessions, ReadPulls and the transport's READs.
#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/endpoint_impl.h"
#include "rpc/protocol/mutants.h"

namespace skua::rpc {

MessagePtr EndpointImpl::announce(const Session& session, const Message& message) {
  if (one_sided_ == nullptr || message.body_count() == 0) return {};
  ReadList list;
  list.connection = one_sided_->connection(session.route());
  if (list.connection == 0) return {};
  list.head = message.head();
  for (size_t i = 0; i < message.body_count(); ++i) {
    const ByteSpan body = message.body(i);
    if (body.empty()) continue;
    const std::optional<MemoryName> name = one_sided_->name_of(body);
    if (!name.has_value() || body.size() > UINT32_MAX) return {};
    list.spans[list.span_count++] = {name->address, name->key, static_cast<uint32_t>(body.size())};
  }
  // The announcement is one packet, and its bytes are a message's head.
  const size_t bytes = list.encoded_bytes();
  if (list.span_count == 0 || bytes > std::min<size_t>(Message::kHeadMax, session.terms().payload_bytes)) return {};
  MessagePtr announcement = make_message();
  announcement->set_head_size(list.encode(announcement->head_room()));
  return announcement;
}

EndpointImpl::Fetch EndpointImpl::fetch(const PullOwner& owner, const ReadList& list, uint32_t message_bytes) {
  const PeerId peer = entries_[owner.session_index]->peer;
  if (one_sided_ == nullptr) return Fetch::kImpossible;
  const uint64_t connection = one_sided_->connection(peer);
  // What was announced over a connection that is over may be something else by now.
  if (connection == 0 || (connection != list.connection && !mutant(Mutant::kAnyConnection))) return Fetch::kImpossible;
  std::optional<Assembly> assembly = assemble(message_bytes);
  if (!assembly.has_value()) return Fetch::kNoMemory;
  copy_bytes(assembly->data, list.head);
  counters_.rx_copied_bytes += list.head.size();
  read_pulls_.start(peer, owner, list, assembly->data, std::move(assembly->lease));
  return Fetch::kStarted;
}

void EndpointImpl::sever(const Session& session) {
  if (one_sided_ != nullptr && !mutant(Mutant::kNoSever)) one_sided_->sever(session.route());
}

/// Takes in what READs have brought, and asks for more.
size_t EndpointImpl::run_reads() {
  if (read_pulls_.size() == 0 && access_in_flight_ == 0 && access_waiting_.empty()) return 0;
  size_t work = 0;
  std::array<OneSidedCompletion, kBurstMax> completions;
  while (const size_t count = one_sided_->reap(completions)) {
    work += count;
    for (size_t i = 0; i < count; ++i) {
      if (on_access_completion(completions[i])) continue;
      std::optional<ReadPulls::Finished> finished = read_pulls_.on_completion(completions[i].cookie, completions[i].ok);
      if (finished.has_value()) on_fetched(*std::move(finished));
    }
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
    if (one_sided_->post(std::span(&operation, 1)) == 0) {
      read_pulls_.take_back(read);
      break;
    }
    ++work;
  }
  return work;
}

void EndpointImpl::on_fetched(ReadPulls::Finished&& finished) {
  if (finished.ok) {
    counters_.rx_read_bytes += finished.message.size();
  } else {
    ++counters_.reads_failed;
  }
  const SessionEntry& entry = *entries_[finished.owner.session_index];
  if (entry.state != SessionEntry::State::kOpen || entry.session == nullptr) return;
  entry.session->on_fetched(finished.owner, finished.ok, std::move(finished.message), now_ns_);
}

/// The endpoint ends: devices must neither read nor write its memory when it is gone.
void EndpointImpl::end_reads() {
  if (one_sided_ == nullptr) return;
  for (const auto& entry : entries_) {
    if (entry->session != nullptr) one_sided_->sever(entry->peer);
  }
  read_pulls_.for_each_peer([this](PeerId peer) { one_sided_->sever(peer); });
  std::array<OneSidedCompletion, kBurstMax> completions;
  while (read_pulls_.reads_in_flight() + access_in_flight_ > 0) {
    const size_t count = one_sided_->reap(completions);
    SKUA_CHECK(count > 0, "the transport keeps memory that it was told to let go");
    for (size_t i = 0; i < count; ++i) {
      if (on_access_completion(completions[i])) continue;
      static_cast<void>(read_pulls_.on_completion(completions[i].cookie, false));
    }
  }
  while (Operation* operation = access_waiting_.pop_front()) operation->complete(*operation, Result::kNotRun);
}

}  // namespace skua::rpc
