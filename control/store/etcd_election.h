// Election by a key in etcd that hangs on a lease: when its process dies, or loses etcd, the lease runs out and etcd
// removes the key. election_core.h decides what to do when; this does it, on one thread, with connections of its own.
#ifndef SKUA_CONTROL_STORE_ETCD_ELECTION_H_
#define SKUA_CONTROL_STORE_ETCD_ELECTION_H_

#include <memory>

#include "control/store/election.h"
#include "control/store/election_core.h"
#include "control/store/etcd_store.h"

namespace skua::control {

/// Tells `store`, which must outlive it, which term its changes need.
[[nodiscard]] std::unique_ptr<Election> make_etcd_election(EtcdStore& store, const ElectionOptions& options = {});

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ETCD_ELECTION_H_
