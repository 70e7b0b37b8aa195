// What listens at an address where a gRPC call failed: an error can then say what it is, and not only that it failed.
#ifndef SKUA_CONTROL_CLIENT_WHAT_ANSWERS_H_
#define SKUA_CONTROL_CLIENT_WHAT_ANSWERS_H_

#include <string>

#include "absl/status/status.h"
#include "control/security/credentials.h"
#include "rpc/base/clock.h"

namespace skua::control {

enum class Answerer {
  kNobody,       // no connection, or not an address: the error of the call says it
  kControl,      // skua-control
  kStorageNode,  // skuad's gRPC server
  kDataPort,     // a worker's port of a skuad
  kEtcd,
  kWebServer,  // speaks HTTP and not gRPC
  kOtherGrpc,  // a gRPC server that is none of these
  kTls,        // expects TLS
  kSilent,     // takes connections and says nothing
  kNotGrpc,    // says something else, or hangs up
};

/// Asks at "host:port" who is there. Blocks: at most about `timeout_ns`, a name's lookup aside. Thread: any.
[[nodiscard]] Answerer what_answers(const std::string& address, DurationNs timeout_ns = 2 * kSecond);

/// "a storage node (skuad)", "an etcd", ...; empty for kNobody.
[[nodiscard]] std::string describe(Answerer answerer);

/// A call to a control plane at `address` failed with `status`: if something else stands there, FAILED_PRECONDITION
/// that says what, and what to do. Other failures come back as they are, for these codes after a look: UNAVAILABLE,
/// DEADLINE_EXCEEDED, UNIMPLEMENTED, UNKNOWN, INTERNAL. `credentials`: those of the call. Blocks as what_answers()
/// does. Thread: any.
[[nodiscard]] absl::Status explain_control_failure(const absl::Status& status, const std::string& address,
                                                   const CredentialsPtr& credentials = nullptr);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_WHAT_ANSWERS_H_
