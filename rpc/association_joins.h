// AssociationJoins: how sessions join associations, so that bundles carry their small calls, and how they leave.
//
// Both sides agreed on version 2 when the session was opened. Then the session's opener sends a join in a bundle, and
// repeats it until it is answered (JoinRecord in rpc/wire/bundle.h). A join is taken only from the session's peer, and
// only with the session's generation, which only the peer was told. A session leaves its association when the session
// ends or breaks, or when its connection ends. The two sides may leave at different times: if an association does not
// answer joins, it may have ended at the peer, so the session tries another one. If a session sent several joins, the
// last one counts.
#ifndef SKUA_RPC_ASSOCIATION_JOINS_H_
#define SKUA_RPC_ASSOCIATION_JOINS_H_

#include <cstdint>

#include "rpc/base/bytes.h"
#include "rpc/bundles.h"
#include "rpc/endpoint_context.h"
#include "rpc/protocol/association.h"
#include "rpc/session_binding.h"
#include "rpc/session_table.h"
#include "rpc/transport/transport.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class AssociationJoins {
 public:
  AssociationJoins(EndpointContext& context, Bundles& bundles, SessionBinding& binding)
      : context_(context), bundles_(bundles), binding_(binding) {}
  AssociationJoins(const AssociationJoins&) = delete;
  AssociationJoins& operator=(const AssociationJoins&) = delete;

  /// Asks the peer to let the session join, and sets when to ask again (SessionEntry::next_join_ns).
  void join(SessionEntry& entry);
  /// The session leaves its association. Its small calls in flight go on as large ones.
  void leave(SessionEntry& entry);
  /// A record of kind kJoin or kJoined came.
  void on_record(const BundleHead& head, RawRecord record, ByteSpan bytes, PeerId from);

 private:
  static constexpr uint32_t kJoinsPerAssociation = 3;

  void on_join(const BundleHead& head, RawRecord record, const JoinRecord& join, PeerId from);
  void on_joined(RawRecord record, const JoinRecord& join, Association* association);
  /// The association of a join that was accepted: the session's own, or the one that the join names.
  Association& take_in(SessionEntry& entry, Association* named, const JoinRecord& join);
  void enter(SessionEntry& entry, Association& association);
  void remember(Association& association);

  EndpointContext& context_;
  Bundles& bundles_;
  SessionBinding& binding_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ASSOCIATION_JOINS_H_
