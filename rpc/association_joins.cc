#include "rpc/association_joins.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "rpc/protocol/session.h"

namespace skua::rpc {

void AssociationJoins::join(SessionEntry& entry) {
  // The peer had answered a join of this association before, so the association existed at the peer.
  const bool was_there = entry.association != nullptr && entry.association->remote_index != kNoAssociation;
  if (was_there && entry.joins_unanswered >= kJoinsPerAssociation) {
    bundles_.associations().retire(*entry.association);
    leave(entry);
  }
  entry.next_join_ns = context_.now_ns + context_.options.protocol.connect_retry_ns;
  ++entry.joins_unanswered;
  if (entry.association == nullptr) {
    Association* ours = bundles_.associations().to(entry.peer);
    if (ours == nullptr) ours = &bundles_.associations().make_own(entry.peer, static_cast<uint32_t>(context_.secret()));
    enter(entry, *ours);
  }
  Association& a = *entry.association;
  std::byte* at = bundles_.writer().write(
      a, {.session = 0, .number = entry.remote_index, .bytes = JoinRecord::kBytes, .kind = RecordKind::kJoin});
  if (at == nullptr) {
    // There is no room, or the connection is still being made.
    entry.next_join_ns = context_.now_ns + context_.options.protocol.connect_retry_ns / 20;
    return;
  }
  JoinRecord{entry.remote_generation, a.index, a.epoch, entry.session->hot().handle}.write(at);
}

/// Counts the session in the association, which ends when its count is zero.
void AssociationJoins::enter(SessionEntry& entry, Association& a) {
  const auto bytes = static_cast<uint32_t>(kPacketHeaderBytes) + entry.session->terms().payload_bytes;
  a.bundle_bytes_max = a.session_count == 0 ? bytes : std::min(a.bundle_bytes_max, bytes);
  // A stream loses nothing: small calls are not repeated, but ask after this time whether the peer lives, like others.
  const ProtocolOptions& protocol = context_.options.protocol;
  if (a.session_count++ == 0) {
    a.probe_ticks = to_ticks(context_.capabilities.reliable ? protocol.ping_after_ns : protocol.rto_initial_ns);
  }
  entry.association = &a;
}

/// Starts to remember what the association's bundles carry, if the wire may lose them.
void AssociationJoins::remember(Association& a) {
  if (!context_.capabilities.reliable && a.sent == nullptr) a.sent = std::make_unique<SentBundles>();
}

void AssociationJoins::leave(SessionEntry& entry) {
  entry.next_join_ns = kTimeNever;
  entry.joins_unanswered = 0;
  Association* a = std::exchange(entry.association, nullptr);
  if (a == nullptr) return;
  entry.session->give_up_small(context_.now_ns);
  SessionHot& hot = entry.session->hot();
  hot.hinder(SessionHot::kNotJoined, true);
  hot.association = nullptr;
  if (entry.session->is_open()) entry.session->on_association_left(context_.now_ns);
  if (--a->session_count > 0) return;
  bundles_.writer().finish(*a);
  bundles_.associations().end(*a);
}

void AssociationJoins::on_record(const BundleHead& head, RawRecord record, ByteSpan bytes, PeerId from) {
  JoinRecord join;
  if (!JoinRecord::read(bytes, join)) return context_.count_drop(DropReason::kBadLength);
  if (record.is(RecordKind::kJoin)) return on_join(head, record, join, from);
  // A completion of an earlier record may have ended the association, so it is looked up again.
  on_joined(record, join, bundles_.associations().find(head.association, head.epoch, from));
}

void AssociationJoins::on_join(const BundleHead& head, RawRecord record, const JoinRecord& join, PeerId from) {
  SessionEntry* named = context_.sessions.at(record.number);
  if (named == nullptr) return context_.count_drop(DropReason::kUnknownSession);
  SessionEntry& entry = *named;
  const bool is_open = entry.state == SessionEntry::State::kOpen && !entry.initiator && entry.version >= kBundleVersion;
  if (!is_open || entry.wire_generation != join.generation) return context_.count_drop(DropReason::kOldGeneration);
  // Like every packet that names the session's generation, a join may bind the session to its sender.
  if (SessionBinding::is_lost_peer(entry, from) && !binding_.bind_again(entry, from)) return;
  if (entry.peer != from || from == kNoPeer) return context_.count_drop(DropReason::kForeignSender);
  Association* const its = bundles_.associations().of(from, join.association, join.epoch);
  SessionHot& hot = entry.session->hot();
  if (entry.association != nullptr && entry.association != its) {
    if (static_cast<int32_t>(head.stamp - entry.join_stamp) <= 0) return context_.count_drop(DropReason::kDuplicate);
    leave(entry);
    entry.session->on_link_lost(context_.now_ns);  // what was sent through the old association is not received there
  }
  entry.join_stamp = head.stamp;
  Association& a = take_in(entry, its, join);
  std::byte* at = bundles_.writer().write(
      a, {.session = join.session, .number = 0, .bytes = JoinRecord::kBytes, .kind = RecordKind::kJoined});
  if (at == nullptr) return;  // no room for the answer: the peer asks again, and takes no records until then
  JoinRecord{entry.remote_generation, a.index, a.epoch, hot.handle}.write(at);
  hot.remote_handle = join.session;
  hot.association = &a;
  remember(a);
  hot.heard = to_ticks(context_.now_ns);
  hot.hinder(SessionHot::kNotJoined, false);
}

Association& AssociationJoins::take_in(SessionEntry& entry, Association* named, const JoinRecord& join) {
  if (entry.association != nullptr) return *entry.association;
  if (named == nullptr) {
    named = &bundles_.associations().make_accepted(entry.peer, join.association, join.epoch,
                                                   static_cast<uint32_t>(context_.secret()));
  }
  enter(entry, *named);
  return *named;
}

void AssociationJoins::on_joined(RawRecord record, const JoinRecord& join, Association* a) {
  SessionHot* const named = bundles_.find(record.session);
  if (a == nullptr || !a->is_ours || named == nullptr) return context_.count_drop(DropReason::kUnknownAssociation);
  SessionHot& joined = *named;
  SessionEntry& entry = context_.sessions[index_of_handle(record.session)];
  if (entry.state != SessionEntry::State::kOpen || entry.association != a || entry.wire_generation != join.generation) {
    return context_.count_drop(DropReason::kOldGeneration);
  }
  if (joined.association == a) return context_.count_drop(DropReason::kDuplicate);
  a->remote_index = join.association;
  a->remote_epoch = join.epoch;
  entry.next_join_ns = kTimeNever;
  joined.remote_handle = join.session;
  joined.association = a;
  remember(*a);
  joined.hinder(SessionHot::kNotJoined, false);
}

}  // namespace skua::rpc
