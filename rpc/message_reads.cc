#include "rpc/message_reads.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {

Announcement MessageReads::announce(const MessageOwner& owner, const MessagePtr& message) {
  const Session& session = *context_.sessions[owner.session_index].session;
  if (context_.one_sided == nullptr || session.route() == kNoPeer) return {};
  // The announcement has to fit one packet, and the head of a message.
  const size_t bytes_max = std::min<size_t>(Message::kHeadMax, session.terms().payload_bytes);
  return loans_.announce(session.route(), owner, message, memory_.make_message(), bytes_max);
}

SessionHost::Fetch MessageReads::fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) {
  using Fetch = SessionHost::Fetch;
  const SessionEntry& entry = context_.sessions[owner.session_index];
  if (context_.one_sided == nullptr) return Fetch::kImpossible;
  const uint64_t connection = context_.one_sided->connection(entry.peer);
  // If the connection of the announcement has ended, the announced memory may hold something else by now.
  if (connection == 0 || (connection != list.connection && !mutant(Mutant::kAnyConnection))) return Fetch::kImpossible;
  std::optional<Assembly> assembly =
      memory_.assemble(memory_.payer_of(entry, entry.peer, owner.is_request), message_bytes);
  if (!assembly.has_value()) return Fetch::kNoMemory;
  copy_bytes(assembly->data, list.head);
  context_.counters.rx_copied_bytes += list.head.size();
  pulls_.start(entry.peer, owner, list, assembly->data, std::move(assembly->lease));
  return Fetch::kStarted;
}

void MessageReads::sever(const Session& session) {
  if (context_.one_sided == nullptr || session.route() == kNoPeer || mutant(Mutant::kNoSever)) return;
  context_.one_sided->sever(session.route());
}

size_t MessageReads::post_reads() {
  size_t count = 0;
  ReadPulls::Read read;
  while (pulls_.next(read)) {
    OneSidedOperation operation;
    operation.kind = OneSidedOperation::Kind::kRead;
    operation.peer = read.peer;
    operation.connection = mutant(Mutant::kAnyConnection) ? 0 : read.connection;
    operation.local = {read.to, read.from.bytes};
    operation.address = read.from.address;
    operation.key = read.from.key;
    operation.cookie = read.cookie;
    if (context_.one_sided->post(std::span(&operation, 1)) == 0) {
      pulls_.take_back(read);
      break;
    }
    ++count;
  }
  return count;
}

void MessageReads::on_completion(const OneSidedCompletion& completion) {
  if (completion.kind != OneSidedCompletion::Kind::kOperation) return on_loan(completion);
  std::optional<ReadPulls::Finished> finished = pulls_.on_completion(completion.cookie, completion.ok);
  if (finished.has_value()) on_fetched(*std::move(finished));
}

void MessageReads::on_loan(const OneSidedCompletion& completion) {
  const std::optional<MessageOwner> owner = loans_.on_completion(completion);
  if (!owner.has_value()) return;
  const SessionEntry& entry = context_.sessions[owner->session_index];
  if (entry.state != SessionEntry::State::kOpen || entry.session == nullptr) return;
  entry.session->on_lent(*owner, context_.now_ns);
}

void MessageReads::on_fetched(ReadPulls::Finished&& finished) {
  if (finished.ok) {
    context_.counters.rx_read_bytes += finished.message.size();
  } else {
    ++context_.counters.reads_failed;
  }
  const SessionEntry& entry = context_.sessions[finished.owner.session_index];
  if (entry.state != SessionEntry::State::kOpen || entry.session == nullptr) return;
  entry.session->on_fetched(finished.owner, finished.ok, std::move(finished.message), context_.now_ns);
}

void MessageReads::stop_reading() {
  pulls_.for_each_peer([this](PeerId peer) { context_.one_sided->sever(peer); });
  loans_.for_each_peer([this](PeerId peer) { context_.one_sided->sever(peer); });
}

}  // namespace skua::rpc
