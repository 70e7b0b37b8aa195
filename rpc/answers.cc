#include "rpc/answers.h"

#include <string_view>
#include <utility>

#include "rpc/base/status.h"

namespace skua::rpc {
namespace {

constexpr size_t kErrorTextMax = 1024;

}  // namespace

MessagePtr Answers::error_message(const absl::Status& status) {
  MessagePtr message = make_message();
  message->append_copy(as_byte_span(std_view(status.message()).substr(0, kErrorTextMax)));
  return message;
}

void Answers::give(SessionId wire_session, uint32_t slot, uint32_t req_num, const absl::Status& status,
                   MessagePtr&& message) {
  incoming_.handler_done();
  if (status.ok()) {
    if (!message) message = make_message();
    if (try_small(wire_session, req_num, SentMessage(message))) return;
  }
  SessionEntry* entry = context_.sessions.at(wire_session.index);
  if (entry == nullptr || entry->state != SessionEntry::State::kOpen ||
      entry->wire_generation != wire_session.generation) {
    ++context_.counters.stale_replies;
    return;
  }
  absl::StatusCode code = absl::StatusCode::kOk;
  if (!status.ok()) [[unlikely]] {
    code = status.code();
    message = error_message(status);
  }
  if (!entry->session->respond(slot, req_num, code, false, std::move(message), context_.now_ns)) {
    ++context_.counters.stale_replies;
  }
}

SessionId Answers::session_of(SessionId wire_session) const {
  const SessionEntry& entry = context_.sessions[wire_session.index];
  const bool is_same = entry.is_alive() && entry.wire_generation == wire_session.generation;
  return is_same ? entry.handle() : SessionId{};
}

std::optional<Lease> Answers::reserve(SessionId wire_session, size_t bytes) {
  const SessionEntry& entry = context_.sessions[wire_session.index];
  // The session is gone: its answer is discarded at once, so it needs no share.
  if (entry.session == nullptr || entry.wire_generation != wire_session.generation) return Lease();
  // Peers that this endpoint dialled have no limit.
  return shares_.take(memory_.payer_of(entry, entry.peer, !entry.initiator), bytes);
}

}  // namespace skua::rpc
